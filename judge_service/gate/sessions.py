"""From a session's cookie to its principal, and the proof that a change was asked for by a page of this site.

Owns cookies and CSRF protection. Sessions come from whoever stores them, as two functions.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from judge_service.domain.principal import Principal
from judge_service.domain.user import Session
from judge_service.errors import Forbidden, Unauthenticated
from judge_service.security.sessions import (
    PLAIN_COOKIE,
    SECURE_COOKIE,
    SEEN_EVERY,
    csrf_matches,
    csrf_token,
    in_force,
    same_site,
    session_id,
)

MEMORY_S = 2.0
"""How long a session is believed without asking again: one ended elsewhere stops working after that."""
CSRF_HEADER = "x-csrf-token"
CSRF_FIELD = "csrf"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
_REMEMBERED = 4096


class CrossSite(Forbidden):
    """This change was not asked for by a page of this service, or the page is too old. Load the page again."""

    code = "cross_site"


class SessionExpired(Unauthenticated):
    """The sign-in has ended. Sign in again; drafts are kept."""


class Sessions:
    """Verifies session cookies. `find` reads a session and its principal, `touch` notes a use; both may block."""

    def __init__(
        self,
        find: Callable[[str], tuple[Session, Principal] | None],
        touch: Callable[[str], object],
        *,
        idle: timedelta,
        public_url: str | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._find = find
        self._touch = touch
        self._idle = idle
        self._public_url = public_url
        self._now = now
        self._clock = clock
        self._known: OrderedDict[str, tuple[Principal, float]] = OrderedDict()

    def secure(self, request: Request) -> bool:
        """True when people reach this service over https."""
        return (self._public_url or str(request.url)).startswith("https:")

    def token(self, request: Request) -> str | None:
        """The token in the request's cookie, if there is one."""
        return request.cookies.get(SECURE_COOKIE if self.secure(request) else PLAIN_COOKIE)

    async def authenticate(self, request: Request) -> Principal | None:
        """The principal of the request's cookie; None without a cookie. Raises SessionExpired when it is none.

        Puts the token for forms into `request.state.csrf`.
        """
        token = self.token(request)
        if token is None:
            return None
        identifier = session_id(token)
        if identifier is None:
            raise SessionExpired
        principal = await self._principal(identifier)
        request.state.csrf = csrf_token(token)
        return principal

    async def _principal(self, identifier: str) -> Principal:
        known = self._known.get(identifier)
        if known is not None and self._clock() < known[1]:
            return known[0]
        found = await asyncio.to_thread(self._find, identifier)
        now = self._now()
        if found is None or not in_force(found[0], now, self._idle):
            self._known.pop(identifier, None)
            raise SessionExpired
        session, principal = found
        if now - session.seen_at >= SEEN_EVERY:
            await asyncio.to_thread(self._touch, identifier)
        self._known[identifier] = (principal, self._clock() + MEMORY_S)
        self._known.move_to_end(identifier)
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return principal

    def forget(self, *, session: str | None = None, principal: str | None = None) -> None:
        """Stop believing a session, or all of one principal's, at once: it was ended here."""
        gone = [key for key, (who, _) in self._known.items() if key == session or who.id == principal]
        for key in gone:
            del self._known[key]

    def check_site(self, request: Request) -> None:
        """Raises CrossSite when a request that changes something does not come from a page of this service."""
        headers = request.headers
        ours = same_site(
            fetch_site=headers.get("sec-fetch-site"),
            origin=headers.get("origin"),
            host=headers.get("host"),
            public_origin=self._public_url,
        )
        if not ours:
            raise CrossSite

    async def check_change(self, request: Request) -> None:
        """For a request with a cookie: raises CrossSite unless it comes from our page with the session's form token.

        The token is in the header `X-CSRF-Token`, or in the field `csrf` of a form.
        """
        if request.method in SAFE_METHODS:
            return
        self.check_site(request)
        token = self.token(request)
        presented = request.headers.get(CSRF_HEADER)
        if presented is None and request.headers.get("content-type", "").lower().startswith(_FORMS):
            field = (await read_form(request)).get(CSRF_FIELD)
            presented = field if isinstance(field, str) else None
        if token is None or not csrf_matches(token, presented):
            raise CrossSite

    def set_cookie(self, request: Request, response: Response, token: str) -> None:
        """Give the browser a session. It ends with the browser's own session or when the server says so."""
        secure = self.secure(request)
        name = SECURE_COOKIE if secure else PLAIN_COOKIE
        response.set_cookie(name, token, path="/", secure=secure, httponly=True, samesite="lax")

    def clear_cookie(self, request: Request, response: Response) -> None:
        """Take the session from the browser."""
        secure = self.secure(request)
        name = SECURE_COOKIE if secure else PLAIN_COOKIE
        response.delete_cookie(name, path="/", secure=secure, httponly=True, samesite="lax")


async def read_form(request: Request) -> FormData:
    """The form of a request, read once; the route gets the same object again."""
    return await request.form(max_files=8, max_fields=5000)


def csrf_of(request: Request) -> str:
    """The token that forms on the answered page must carry; empty where nobody is signed in."""
    return getattr(request.state, "csrf", "")
