"""Passwords: which are accepted, and Argon2id around them. Slow on purpose: call on a thread."""

import threading

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from judge_service.domain.user import name_key

SHORTEST = 10
LONGEST = 200
_AT_ONCE = threading.Semaphore(2)
"""A hash takes 64 MiB and a core: many sign-ins at once wait for each other."""
_HASHER = PasswordHasher()
_COMMON = frozenset({"password", "passwort", "qwertyuiop", "letmein", "iloveyou", "administrator", "judge-service"})


def problem_with(password: str, name: str) -> str | None:
    """Why `password` is not accepted for `name`, as a sentence, or None."""
    if len(password) < SHORTEST:
        return f"A password has at least {SHORTEST} characters."
    if len(password) > LONGEST:
        return f"A password has at most {LONGEST} characters."
    key = name_key(password)
    plain = key.strip("0123456789!.?*-_# ")
    if len(set(key)) < 4 or plain in _COMMON or key in "0123456789012345678901234567890":
        return "This password is among the first that anybody tries. Choose a longer phrase."
    if name_key(name) in (key, plain):
        return "A password is not the name."
    return None


def hash_password(password: str) -> str:
    """An Argon2id hash with its own salt, in the usual text form."""
    with _AT_ONCE:
        return _HASHER.hash(password.encode("utf-8", "surrogatepass"))


def verify_password(stored: str | None, password: str) -> bool:
    """True when `password` is the one that was hashed. Takes the same time when there is none."""
    with _AT_ONCE:
        try:
            same = _HASHER.verify(stored or _nobody(), password[: LONGEST * 4].encode("utf-8", "surrogatepass"))
        except (VerificationError, InvalidHashError):
            return False
    return same and stored is not None


_cached: list[str] = []


def _nobody() -> str:
    if not _cached:
        _cached.append(_HASHER.hash("a hash that is nobody's"))
    return _cached[0]
