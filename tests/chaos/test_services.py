"""Several services on one PostgreSQL: they share sessions and runs, and start together on an empty database."""

import asyncio
import threading
from collections.abc import Callable

import httpx

from judge_service.domain.principal import Role
from judge_service.domain.user import User
from judge_service.security.keys import issue
from judge_service.security.passwords import hash_password
from judge_service.security.sessions import PLAIN_COOKIE, csrf_token, new_id
from judge_service.store import Store
from judge_service.store.migrate import head
from judge_service.store.store import utc_now
from tests.judge_service.store.databases import differences
from tests.support.fake_provider import FakeProvider, held_after
from tests.support.ports import free_port
from tests.support.waiting import LONG_ENOUGH_S, until

from . import parts
from .processes import Installation, ended, tie
from .test_workers import installed

__all__ = ["installed"]


def answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
    except httpx.HTTPError:
        return False


async def up(here: Installation, *ports: int) -> None:
    """Serve on these ports, and wait until each answers."""
    for port in ports:
        here.start("serve", "--port", port)
    for port in ports:
        await asyncio.to_thread(until, lambda port=port: answers(port), "the service")  # type: ignore[misc]


async def test_two_services_share_sessions_and_runs(installed: Callable[..., Installation]) -> None:
    later = threading.Event()
    with FakeProvider(default=held_after(8, later, tie())) as server:
        here = installed(server, concurrency=2)
        first, second = (free_port() for _ in range(2))
        await up(here, first, second)
        with Store.open(here.settings().database) as store:
            user = User(
                id=new_id(),
                name="Lea Example",
                role=Role.LEAD,
                password_hash=hash_password("a long passphrase"),
                created_at=utc_now(),
            )
            store.users.add(user)
            key, plain = issue("test", Role.ADMIN)
            store.keys.add(key)
        one, other = f"http://127.0.0.1:{first}", f"http://127.0.0.1:{second}"
        # Cookies do not know ports: one browser at both services.
        async with (
            httpx.AsyncClient(timeout=LONG_ENOUGH_S) as browser,
            httpx.AsyncClient(timeout=LONG_ENOUGH_S) as program,
        ):
            program.headers["Authorization"] = f"Bearer {plain}"
            form = {"name": user.name, "password": "a long passphrase"}
            signed_in = await browser.post(f"{one}/sign-in", data=form, headers={"Origin": one})
            assert signed_in.status_code == 303, signed_in.text
            assert (await browser.get(f"{other}/runs")).status_code == 200
            cases = [case.model_dump(mode="json", exclude_defaults=True) for case in parts.cases(200)]
            wanted = {"rubric": "pairwise@1", "judge": "server", "cases": cases}
            started = await program.post(f"{one}/v1/runs", json=wanted)
            assert started.status_code == 202, started.text
            run_id = started.json()["id"]
            await asyncio.to_thread(server.wait_for, 10)
            seen = await program.get(f"{other}/v1/runs/{run_id}")
            assert seen.json()["status"] == "running"
            page = await browser.get(f"{other}/runs/{run_id}")
            token = browser.cookies[PLAIN_COOKIE]
            csrf = csrf_token(token)
            assert csrf in page.text
            cancelled = await browser.post(
                f"{other}/runs/{run_id}/cancel", data={"csrf": csrf}, headers={"Origin": other}
            )
            assert cancelled.status_code == 303, cancelled.text
            assert (await program.get(f"{one}/v1/runs/{run_id}")).json()["status"] == "cancelling"
            later.set()
            async with asyncio.timeout(LONG_ENOUGH_S), program.stream("GET", f"{one}/v1/runs/{run_id}/events") as told:
                events = [line async for line in told.aiter_lines() if line.startswith("event:")]
            assert events[-1] == "event: end"
            assert (await program.get(f"{one}/v1/runs/{run_id}")).json()["status"] == "cancelled"
            # Signed out at the one, signed out at the other.
            out = await browser.post(f"{other}/sign-out", data={"csrf": csrf}, headers={"Origin": other})
            assert out.status_code == 303
            browser.cookies.set(PLAIN_COOKIE, token, domain="127.0.0.1")
            assert (await browser.get(f"{one}/runs")).status_code == 401


async def test_six_processes_start_together_on_an_empty_database(installed: Callable[..., Installation]) -> None:
    with FakeProvider() as server:
        here = installed(server, migrated=False)
        ports = [free_port() for _ in range(3)]
        served = [here.start("serve", "--port", port) for port in ports]
        migrated = [here.start("db", "migrate") for _ in range(3)]
        for process in migrated:
            assert await ended(process) == 0, here.said(process)
        for port in ports:
            await asyncio.to_thread(until, lambda port=port: answers(port), "the service")  # type: ignore[misc]
        # One of them made the first key.
        assert sum(here.said(process).count("Admin key") for process in served) == 1
        for process in served:
            process.terminate()
        for process in served:
            assert await ended(process) in (0, -15), here.said(process)
        url = here.settings().database
        assert Store.revisions(url) == (head(), head())
        assert differences(url) == []
        with Store.open(url) as store:
            assert {one.rule for one in store.verify() if one.n_broken} == set()
