"""From a request to its principal, and whether that principal may do what the route does.

Owns the short memory of keys that were verified. Keys come from whoever stores them, as two functions.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request

from judge_service.domain.principal import ApiKey, Principal
from judge_service.errors import Forbidden, RateLimited, Unauthenticated
from judge_service.gate.limits import RateLimiter
from judge_service.gate.sessions import Sessions
from judge_service.security.keys import fingerprint, key_id, verify
from judge_service.security.roles import Permission, may, roles_with

MEMORY_S = 2.0
"""How long a verified key is believed without asking again: a key revoked elsewhere stops working after that."""
_TOUCH_S = 60.0
_REMEMBERED = 4096


@dataclass(slots=True)
class _Known:
    principal: Principal
    until: float
    touched: float


class Authenticator:
    """Verifies API keys. `find` reads a stored key by its id, `touch` notes that one was used; both may block."""

    def __init__(
        self,
        find: Callable[[str], ApiKey | None],
        touch: Callable[[str], object] | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._find = find
        self._touch = touch
        self._clock = clock
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._looking: dict[bytes, asyncio.Future[Principal]] = {}
        self._revoked = 0

    async def authenticate(self, presented: str) -> Principal:
        """The principal of a presented key. Raises Unauthenticated, the same for unknown, wrong and revoked."""
        mark = fingerprint(presented)
        now = self._clock()
        known = self._known.get(mark)
        if known is not None and now < known.until:
            return known.principal
        looking = self._looking.get(mark)
        if looking is None:
            looking = self._looking[mark] = asyncio.ensure_future(self._look(mark, presented, known))
            looking.add_done_callback(lambda done: self._looked(mark, done))
        # What many ask at once is looked up once, and for who still waits when one of them leaves.
        return await asyncio.shield(looking)

    async def _look(self, mark: bytes, presented: str, known: _Known | None) -> Principal:
        now, revoked = self._clock(), self._revoked
        identifier = key_id(presented)
        stored = await asyncio.to_thread(self._find, identifier) if identifier else None
        principal = verify(stored, presented)
        if principal is None:
            self._known.pop(mark, None)
            raise Unauthenticated("That key is not known or was revoked.")
        touched = known.touched if known is not None else None
        if self._touch is not None and (touched is None or now - touched >= _TOUCH_S):
            await asyncio.to_thread(self._touch, str(principal.key_id))
            touched = now
        if revoked != self._revoked:
            # What was read may be older than that.
            return principal
        self._known[mark] = _Known(principal, now + MEMORY_S, now if touched is None else touched)
        self._known.move_to_end(mark)
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return principal

    def _looked(self, mark: bytes, done: "asyncio.Future[Principal]") -> None:
        if self._looking.get(mark) is done:
            del self._looking[mark]
        if not done.cancelled():
            # Marks the error as seen: those who still wait get it.
            done.exception()

    def forget(self, identifier: str) -> None:
        """Stop believing a key at once: it was revoked here."""
        self._revoked += 1
        self._looking.clear()
        for mark in [mark for mark, known in self._known.items() if known.principal.key_id == identifier]:
            del self._known[mark]


class Gate:
    """What every guarded route asks: who is this, how often, and may they?"""

    def __init__(
        self,
        authenticator: Authenticator,
        limiter: RateLimiter,
        *,
        max_json_depth: int,
        sessions: Sessions | None = None,
    ) -> None:
        self.authenticator = authenticator
        self.limiter = limiter
        self.sessions = sessions
        self.max_json_depth = max_json_depth

    async def admit(self, request: Request, permission: Permission) -> Principal:
        """The principal of a request that may pass. Raises Unauthenticated, RateLimited or Forbidden.

        An API key in the header counts before a session's cookie. With a cookie, a change must come from our own page.
        Requests without a valid key or session are counted by their address, so that guessing is slow.
        """
        try:
            principal = await self._principal(request)
        except Unauthenticated:
            self._count(f"address {address_of(request)}")
            raise
        request.state.principal = principal
        self._count(principal.id)
        if principal.session is not None and self.sessions is not None:
            await self.sessions.check_change(request)
        if not may(principal.role, permission):
            needed = " or ".join(f"`{role}`" for role in roles_with(permission))
            raise Forbidden(
                f"The role `{principal.role}` may not do that. It needs {needed}.",
                extra={"permission": permission.value},
            )
        return principal

    async def visitor(self, request: Request) -> Principal | None:
        """Who looks at a page that is open to everyone; None when nobody is signed in."""
        try:
            principal = await self._principal(request)
        except Unauthenticated:
            return None
        request.state.principal = principal
        return principal

    async def _principal(self, request: Request) -> Principal:
        if self.sessions is not None and not request.headers.getlist("authorization"):
            principal = await self.sessions.authenticate(request)
            if principal is not None:
                return principal
        return await self.authenticator.authenticate(_bearer(request))

    def _count(self, name: str) -> None:
        wait = self.limiter.take(name)
        if wait > 0:
            seconds = max(1, int(-(-wait // 1)))
            raise RateLimited(f"Too many requests. Wait {seconds} s.", extra={"retry_after": seconds})


def address_of(request: Request) -> str:
    """The address a request came from, for limits."""
    return request.client.host if request.client else "-"


def _bearer(request: Request) -> str:
    values = request.headers.getlist("authorization")
    if not values:
        raise Unauthenticated
    scheme, _, presented = values[0].partition(" ")
    if len(values) > 1 or scheme.lower() != "bearer" or not presented.strip():
        raise Unauthenticated
    return presented.strip()
