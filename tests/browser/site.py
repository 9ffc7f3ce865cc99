"""The service on a loopback port with people who are signed in, and what every page is held to."""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import httpx
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page

from judge_service.app import Service, create_app
from judge_service.domain.principal import Role
from judge_service.domain.user import User
from judge_service.security.sessions import PLAIN_COOKIE, new_id, new_session
from judge_service.settings import Settings
from judge_service.store.store import utc_now
from tests.judge_service.serving import serving

T = TypeVar("T")
THEMES = ("light", "dark")
WIDTHS = (390, 1280)
AXE = Axe().axe_script
FOUND = """options => axe.run(document, options).then(
  found => found.violations.map(one => `${one.id}: ${one.nodes.map(node => node.target.join(" ")).join(", ")}`))"""
"""Only what is wrong crosses over from the browser: what passed is long."""
ALONE = """() => {
  const found = [];
  // What stands alone: a bound, a half-width, a threshold, an error beside what chance gives, p, money, time.
  const single = new RegExp("^(p$|p |ECE|By chance|Brier|Log loss|AUROC|Usable|Agrees on them|Guaranteed|"
    + "Interval now|US[$]|Seconds|Median|Score|% of cases)");
  for (const cell of document.querySelectorAll("main section td")) {
    if (cell.closest("figure") || !cell.closest("table").tHead) continue;
    const parts = [...cell.childNodes].filter(one => !one.matches?.(".sub"));
    const own = parts.map(one => one.textContent).join("").trim();
    if (!/^[+\\-\\u2212]?\\d+\\.\\d+%?$/.test(own)) continue;
    const head = cell.closest("table").tHead.rows[0].cells[cell.cellIndex].innerText.replace(/\\s+/g, " ");
    if (single.test(head)) continue;
    const row = cell.parentElement.cells[0].textContent;
    const more = [...cell.querySelectorAll(".sub")].map(one => one.textContent).join(" | ");
    const section = cell.closest("table").parentElement.getAttribute("aria-label");
    const between = / to |no interval|interval in the report/.test(more);
    const unit = /%|points|alpha|kappa|MCC|F1|AC1|accuracy|stability|score|pass rates/i.test(head + own + more + row);
    const n = /n = \\d|\\d+ of \\d/.test(more) || /Cases|n\\b/.test(cell.closest("table").tHead.textContent);
    if (!between || !unit || !n) found.push([section, head, own, more, between, unit, n]);
  }
  return found;
}"""
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@dataclass(slots=True)
class Site:
    """A running service. `service` is the same object that the server uses."""

    service: Service
    address: str

    def person(self, name: str, role: Role = Role.ANNOTATE) -> User:
        """A person who can sign in; the one of that name where there is one."""
        users = self.service.store.users
        user = User(id=new_id(), name=name, role=role, created_at=utc_now())
        return users.named(name) or users.add(user)

    def signed_in(self, browser: Browser, user: User, **options: Any) -> BrowserContext:
        """A profile of a browser in which `user` is signed in."""
        session, token = new_session(user_id=user.id, key_id=None, now=utc_now(), absolute=timedelta(hours=1))
        self.service.store.users.begin(session)
        context = browser.new_context(base_url=self.address, **options)
        context.add_cookies([{"name": PLAIN_COOKIE, "value": token, "url": self.address}])
        return context


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Site]:
    """A service with an empty database in `folder`."""
    app = create_app(Settings(data_dir=folder, requests_per_minute=1_000_000))
    with serving(app) as port:
        # The port takes connections before the service has opened its parts; an answer comes after.
        httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=60).raise_for_status()
        yield Site(app.state.service, f"http://127.0.0.1:{port}")


def awaited(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, in a thread of its own: a browser under way holds the event loop of this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def watched(page: Page) -> list[str]:
    """Everything that the console says from now on, errors of the page and of its policy among them."""
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    return said


def violations(page: Page, only: Sequence[str] = ()) -> list[str]:
    """What axe finds by WCAG 2.2 A and AA and by best practice, as rule and place; by `only` these rules if any."""
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(AXE)
    chosen = {"type": "rule", "values": list(only)} if only else {"type": "tag", "values": TAGS}
    found: list[str] = page.evaluate(FOUND, {"runOnly": chosen, "resultTypes": ["violations"]})
    return found


def sideways(page: Page) -> int:
    """By how many pixels the page itself, not a box in it, is wider than its window."""
    width: int = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return width


def alone(page: Page) -> list[list[Any]]:
    """Numbers of tables without n, unit, or interval or reason; what is folded is opened first."""
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    found: list[list[Any]] = page.evaluate(ALONE)
    return found
