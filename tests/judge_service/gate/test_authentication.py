"""Keys that are verified: looked up once for all who ask at once, and not believed when they were revoked meanwhile."""

import asyncio
import threading
from datetime import UTC, datetime

import pytest

from judge_service.domain.principal import ApiKey, Role
from judge_service.errors import Unauthenticated
from judge_service.gate.authentication import MEMORY_S, Authenticator
from judge_service.security.keys import issue


class Keys:
    """One stored key. `held` look-ups wait until they may go on."""

    def __init__(self) -> None:
        self.stored, self.secret = issue("one", Role.SCORE)
        self.looks = 0
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()

    def find(self, identifier: str) -> ApiKey | None:
        self.looks += 1
        self.begun.set()
        self.go_on.wait(60)
        return self.stored if identifier == self.stored.id else None


async def test_many_at_once_are_one_look_up() -> None:
    keys = Keys()
    authenticator = Authenticator(keys.find)
    found = await asyncio.gather(*(authenticator.authenticate(keys.secret) for _ in range(16)))
    assert {principal.key_id for principal in found} == {keys.stored.id}
    assert keys.looks == 1


async def test_who_leaves_takes_nothing_from_the_others() -> None:
    keys = Keys()
    keys.go_on.clear()
    authenticator = Authenticator(keys.find)
    first = asyncio.create_task(authenticator.authenticate(keys.secret))
    second = asyncio.create_task(authenticator.authenticate(keys.secret))
    await asyncio.to_thread(keys.begun.wait, 60)
    first.cancel()
    keys.go_on.set()
    assert (await second).key_id == keys.stored.id


async def test_an_unknown_key_is_refused_to_all() -> None:
    keys = Keys()
    _, other = issue("two", Role.SCORE)
    authenticator = Authenticator(keys.find)
    found = await asyncio.gather(*(authenticator.authenticate(other) for _ in range(3)), return_exceptions=True)
    assert [type(one) for one in found] == [Unauthenticated] * 3


async def test_a_key_revoked_during_its_look_up_is_looked_up_again() -> None:
    keys = Keys()
    keys.go_on.clear()
    authenticator = Authenticator(keys.find, clock=lambda: 0.0)
    early = asyncio.create_task(authenticator.authenticate(keys.secret))
    await asyncio.to_thread(keys.begun.wait, 60)
    found = keys.stored
    authenticator.forget(found.id)
    keys.go_on.set()
    await early
    keys.stored = found.model_copy(update={"revoked_at": datetime.now(UTC)})
    with pytest.raises(Unauthenticated):
        await authenticator.authenticate(keys.secret)
    assert keys.looks == 2


async def test_it_is_believed_for_a_moment() -> None:
    keys, now = Keys(), [0.0]
    authenticator = Authenticator(keys.find, clock=lambda: now[0])
    await authenticator.authenticate(keys.secret)
    now[0] = MEMORY_S - 0.1
    await authenticator.authenticate(keys.secret)
    assert keys.looks == 1
    now[0] = MEMORY_S + 0.1
    await authenticator.authenticate(keys.secret)
    assert keys.looks == 2
