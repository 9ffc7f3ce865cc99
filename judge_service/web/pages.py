"""From a template to a page for people: the frame, its policy and its navigation. One way for every page.

Knows no noun of the service. A page's text is escaped, and a name that a template does not get is an error.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from judge_service import __version__
from judge_service.domain.principal import Principal
from judge_service.gate.sessions import csrf_of
from judge_service.security.roles import Permission, may
from judge_service.visible import code, shown
from judge_service.web.files import address

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""The content security policy of every page: only files of this service, no style or script in the page itself."""


class Link(NamedTuple):
    """One entry of the navigation: shown to everyone, or only to those who have the permission."""

    path: str
    text: str
    permission: Permission | None = None


NAVIGATION: tuple[Link, ...] = (
    Link("/label", "Label", Permission.LABEL),
    Link("/projects", "Projects", Permission.MANAGE_PROJECTS),
    Link("/sets", "Sets", Permission.READ_SETS),
    Link("/reports", "Reports", Permission.READ_STATISTICS),
    Link("/runs", "Runs", Permission.READ_RUNS),
    Link("/judges", "Judges", Permission.CHECK_JUDGES),
    Link("/people", "People", Permission.MANAGE_USERS),
    Link("/keys", "Keys", Permission.MANAGE_KEYS),
    Link("/docs", "Routes"),
)
"""The pages that lead to all others, in their order."""


def _links(principal: Principal | None) -> list[Link]:
    return [
        link
        for link in NAVIGATION
        if link.permission is None or (principal is not None and may(principal.role, link.permission))
    ]


def utc(at: datetime) -> str:
    """A time for people: in UTC, to the minute, and saying so."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def reason_text(code: str) -> str:
    """A reason code as a sentence, in the words of the reports."""
    from judge_service.reports.render import reason_text as sentence

    return sentence(code)


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The templates of all pages; `static(name)` in them is the address of a file."""
    made = Environment(
        loader=PackageLoader("judge_service.web", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(static=address, version=__version__)
    made.filters.update(utc=utc, reason_text=reason_text, code=code)
    return made


def render(
    request: Request,
    template: str,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    **context: Any,
) -> HTMLResponse:
    """A page as a response. `template` extends `base.html.j2` and sets its blocks `title` and `main`.

    Besides `context` it gets `path` of the request, `principal` (None for someone unknown), `links` of the
    navigation, `csrf` for forms, `request_id` and `status`. Raises jinja2.UndefinedError where it asks for more.
    """
    principal = getattr(request.state, "principal", None)
    values = {
        "path": request.url.path,
        "principal": principal,
        "links": _links(principal),
        "request_id": getattr(request.state, "request_id", None),
        "status": status,
        "csrf": csrf_of(request),
    }
    text = environment().get_template(template).render(values | context)
    return HTMLResponse(text, status_code=status, headers={"Content-Security-Policy": POLICY} | dict(headers or {}))
