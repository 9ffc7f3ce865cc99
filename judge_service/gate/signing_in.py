"""Signing in by password, by API key or by invitation, and signing out.

Owns throttling and what a failed attempt is told: the same for an unknown name, a wrong password and a disabled user.
Blocking work runs on threads.
"""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from pydantic import TypeAdapter, ValidationError

from judge_service.domain.principal import Principal
from judge_service.domain.user import Invitation, User, UserName, name_key
from judge_service.errors import FieldProblem, InvalidInput, NotFound, RateLimited, Unauthenticated
from judge_service.gate.authentication import Authenticator
from judge_service.gate.limits import RateLimiter
from judge_service.security.passwords import hash_password, problem_with, verify_password
from judge_service.security.sessions import invitation_digest, new_id, new_session
from judge_service.store.users import Users

PER_NAME = 10
"""Attempts a minute for one name from one address."""
PER_ADDRESS = 60
"""Attempts a minute from one address."""
EVERYWHERE = 100
"""Attempts a minute for one name from anywhere: guessing from many addresses is slow too."""

_NAME: TypeAdapter[str] = TypeAdapter(UserName)


class WrongSignIn(Unauthenticated):
    """That name and password do not belong together."""

    code = "wrong_sign_in"


class SigningIn:
    """Begins and ends sessions."""

    def __init__(
        self,
        users: Users,
        keys: Authenticator,
        *,
        absolute: timedelta,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._users = users
        self._keys = keys
        self._absolute = absolute
        self._now = now
        self._names = RateLimiter(PER_NAME, clock=clock)
        self._addresses = RateLimiter(PER_ADDRESS, clock=clock)
        self._everywhere = RateLimiter(EVERYWHERE, clock=clock)

    async def by_password(self, name: str, password: str, *, address: str) -> str:
        """The token of a new session. Raises WrongSignIn, RateLimited."""
        key = name_key(name)[:200]
        self._count(address, key)
        user = await asyncio.to_thread(self._users.named, name) if name.strip() else None
        stored = user.password_hash if user is not None and user.live else None
        right = await asyncio.to_thread(verify_password, stored, password)
        if user is None or not right:
            raise WrongSignIn
        return await self._begin(user_id=user.id)

    async def by_key(self, presented: str, *, address: str) -> str:
        """The token of a new session for an API key. Raises Unauthenticated, RateLimited."""
        self._count(address, None)
        principal = await self._keys.authenticate(presented.strip())
        return await self._begin(key_id=principal.key_id)

    async def invitation(self, token: str, *, address: str) -> Invitation:
        """A usable invitation by the token of its link. Raises NotFound, RateLimited."""
        self._count(address, None)
        digest = invitation_digest(token)
        found = await asyncio.to_thread(self._users.invitation, digest) if digest is not None else None
        if found is None or not found.usable(self._now()):
            raise NotFound("This invitation was used, has expired or was revoked. Ask for a new one.")
        return found

    async def accept(self, token: str, name: str, password: str, *, address: str) -> tuple[str, User, Invitation]:
        """Make the invited user and sign in: token of the session, user, invitation.

        Raises NotFound when the link works no more, InvalidInput for name or password, Conflict for a taken name.
        """
        invitation = await self.invitation(token, address=address)
        user = await asyncio.to_thread(make_user, name, password, invitation, self._now())
        used = await asyncio.to_thread(self._users.accept, invitation.digest, user)
        return await self._begin(user_id=user.id), user, used

    async def end(self, principal: Principal) -> None:
        """End the session that carried the request."""
        if principal.session is not None:
            await asyncio.to_thread(self._users.end, principal.session)

    async def _begin(self, *, user_id: str | None = None, key_id: str | None = None) -> str:
        session, token = new_session(user_id=user_id, key_id=key_id, now=self._now(), absolute=self._absolute)
        await asyncio.to_thread(self._users.begin, session)
        return token

    def _count(self, address: str, name: str | None) -> None:
        wait = self._addresses.take(address)
        if name is not None:
            wait = max(wait, self._names.take(f"{name} {address}"), self._everywhere.take(name))
        if wait > 0:
            seconds = max(1, int(-(-wait // 1)))
            raise RateLimited(f"Too many attempts. Wait {seconds} s.", extra={"retry_after": seconds})


def checked_name(name: str) -> str:
    """The name as it is kept. Raises InvalidInput on `name`."""
    try:
        return _NAME.validate_python(name)
    except ValidationError as error:
        message = str(error.errors()[0].get("ctx", {}).get("error") or "A name has 1 to 120 characters, all visible.")
        raise InvalidInput(message, fields=[FieldProblem("name", message)]) from None


def checked_password(password: str, name: str) -> str:
    """The password. Raises InvalidInput on `password` when it is too easy."""
    problem = problem_with(password, name)
    if problem is not None:
        raise InvalidInput(problem, fields=[FieldProblem("password", problem)])
    return password


def make_user(name: str, password: str, invitation: Invitation, now: datetime) -> User:
    """The user that an invitation makes. Blocks: hashes the password."""
    kept = checked_name(name)
    checked_password(password, kept)
    return User(id=new_id(), name=kept, role=invitation.role, password_hash=hash_password(password), created_at=now)
