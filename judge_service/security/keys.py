"""API keys: made, parsed, verified. The secret leaves `issue` once and is kept nowhere.

A key is `jk_<id>_<secret>`. The id finds the stored row; the secret has 238 bits of randomness, so a salted
HMAC-SHA256 protects it as well as a slow password hash would, at a cost that fits every request.
"""

import hashlib
import hmac
import re
import secrets
import string
from datetime import UTC, datetime

from judge_service.domain.principal import ApiKey, Principal, Role

PREFIX = "jk_"
_ID_ALPHABET = string.ascii_lowercase + string.digits
_SECRET_ALPHABET = string.ascii_letters + string.digits
_ID_LENGTH = 12
_SECRET_LENGTH = 40
_SHAPE = re.compile(rf"jk_([a-z0-9]{{{_ID_LENGTH}}})_([A-Za-z0-9]{{{_SECRET_LENGTH}}})", re.ASCII)


def _draw(alphabet: str, length: int) -> str:
    return "".join(secrets.choice(alphabet) for _ in range(length))


def _digest(salt: str, secret: str) -> str:
    return hmac.new(bytes.fromhex(salt), secret.encode("ascii"), hashlib.sha256).hexdigest()


def issue(name: str, role: Role, *, now: datetime | None = None) -> tuple[ApiKey, str]:
    """Make a key: the row to store, and the key itself to show once. Raises ValueError for an unusable name."""
    secret = _draw(_SECRET_ALPHABET, _SECRET_LENGTH)
    salt = secrets.token_hex(16)
    key = ApiKey(
        id=_draw(_ID_ALPHABET, _ID_LENGTH),
        name=name,
        role=role,
        salt=salt,
        digest=_digest(salt, secret),
        last_four=secret[-4:],
        created_at=now or datetime.now(UTC),
    )
    return key, f"{PREFIX}{key.id}_{secret}"


def key_id(presented: str) -> str | None:
    """The id inside a presented key, or None when it does not have the shape of one."""
    match = _SHAPE.fullmatch(presented)
    return match[1] if match else None


def verify(stored: ApiKey | None, presented: str) -> Principal | None:
    """The principal behind `presented` if it is exactly the stored key and not revoked, else None.

    Compares in constant time, and does the same work when there is no stored key.
    """
    match = _SHAPE.fullmatch(presented)
    secret = match[2] if match else ""
    salt = stored.salt if stored is not None else "00" * 16
    expected = stored.digest if stored is not None else "0" * 64
    same = hmac.compare_digest(_digest(salt, secret), expected)
    if stored is None or match is None or match[1] != stored.id or not same or not stored.live:
        return None
    return Principal(key_id=stored.id, name=stored.name, role=stored.role)


def fingerprint(presented: str) -> bytes:
    """SHA-256 of a presented key: an in-memory cache key that does not hold the secret."""
    return hashlib.sha256(presented.encode("utf-8", "surrogatepass")).digest()
