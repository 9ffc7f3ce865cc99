"""Tokens of sessions and invitations, and what protects a cookie against other sites. Pure: no HTTP, no database.

Tokens leave here once; only their SHA-256 is stored. 256 bits of randomness need no slow hash.
"""

import hashlib
import hmac
import re
import secrets
import string
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from judge_service.domain.principal import Role
from judge_service.domain.user import Invitation, Session

PLAIN_COOKIE = "judge_session"
SECURE_COOKIE = "__Host-judge_session"
"""Used over https: the prefix binds the cookie to this host, all paths, and https."""
SEEN_EVERY = timedelta(minutes=1)
INVITATION_LIFE = timedelta(days=7)

_SESSION = re.compile(r"js_[A-Za-z0-9_-]{43}", re.ASCII)
_INVITATION = re.compile(r"ji_[A-Za-z0-9_-]{43}", re.ASCII)
_ID = string.ascii_lowercase + string.digits
_RANK = {Role.SCORE: 0, Role.ANNOTATE: 0, Role.LEAD: 1, Role.ADMIN: 2}


def new_id() -> str:
    """A public id of 12 characters."""
    return "".join(secrets.choice(_ID) for _ in range(12))


def digest(token: str) -> str:
    """SHA-256 (hex) of a token: what is stored instead of it."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def new_session(*, user_id: str | None, key_id: str | None, now: datetime, absolute: timedelta) -> tuple[Session, str]:
    """A session to store and the token for its cookie."""
    token = f"js_{secrets.token_urlsafe(32)}"
    session = Session(
        id=digest(token), user_id=user_id, key_id=key_id, created_at=now, seen_at=now, expires_at=now + absolute
    )
    return session, token


def session_id(token: str) -> str | None:
    """The id of the session a cookie names, None when it has not the shape of a token."""
    return digest(token) if _SESSION.fullmatch(token) else None


def in_force(session: Session, now: datetime, idle: timedelta) -> bool:
    """True until the session ends, is idle for longer than `idle`, or its absolute time has come."""
    return session.ended_at is None and now < session.expires_at and now - session.seen_at < idle


def csrf_token(token: str) -> str:
    """The token that forms of this session carry. Bound to the session, and it does not give the session away."""
    return hmac.new(token.encode("utf-8", "surrogatepass"), b"csrf", hashlib.sha256).hexdigest()


def csrf_matches(token: str, presented: str | None) -> bool:
    """True when `presented` is the form token of the session. Constant time."""
    return presented is not None and hmac.compare_digest(
        csrf_token(token).encode(), presented.encode("utf-8", "replace")
    )


def new_invitation(
    *,
    role: Role,
    made_by: str,
    now: datetime,
    name: str | None = None,
    project: str | None = None,
    life: timedelta = INVITATION_LIFE,
) -> tuple[Invitation, str]:
    """An invitation to store and the token for its link."""
    token = f"ji_{secrets.token_urlsafe(32)}"
    invitation = Invitation(
        id=new_id(),
        digest=digest(token),
        role=role,
        name=name,
        project=project,
        made_by=made_by,
        created_at=now,
        expires_at=now + life,
    )
    return invitation, token


def invitation_digest(token: str) -> str | None:
    """The digest of an invitation's token, None when it has not the shape of one."""
    return digest(token) if _INVITATION.fullmatch(token) else None


def may_grant(own: Role, wanted: Role) -> bool:
    """Nobody gives away, or takes from, a role above their own."""
    return _RANK[wanted] <= _RANK[own]


def safe_next(path: str | None) -> str:
    """Where to go after signing in: a path of this site, else `/`. Never another host, whatever the spelling."""
    if not path or not path.startswith("/") or path.startswith(("//", "/\\")) or len(path) > 2000:
        return "/"
    if "\\" in path or any(ord(char) < 0x21 or ord(char) == 0x7F for char in path):
        return "/"
    parts = urlsplit(path)
    if parts.scheme or parts.netloc or parts.path.startswith(("/sign-in", "/sign-out", "/invitations/")):
        return "/"
    return path


def same_site(
    *, fetch_site: str | None, origin: str | None, host: str | None, public_origin: str | None = None
) -> bool:
    """True when a browser says that a request that changes something comes from a page of this site.

    `Sec-Fetch-Site` decides where it is sent; else `Origin` must name this host. Neither: not ours.
    """
    if fetch_site is not None:
        return fetch_site == "same-origin"
    if not origin or origin == "null":
        return False
    if public_origin is not None and origin.casefold() == public_origin.casefold().rstrip("/"):
        return True
    return host is not None and urlsplit(origin).netloc.casefold() == host.casefold()
