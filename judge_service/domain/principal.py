"""Who asks: roles, API keys as they are stored, and the principal of a request, a key or a person.

Knows no secret and no HTTP.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Role(StrEnum):
    """What a key is for. What each role may do is one table: `judge_service.security.roles`."""

    SCORE = "score"
    ANNOTATE = "annotate"
    LEAD = "lead"
    ADMIN = "admin"


KeyName = Annotated[str, Field(min_length=1, max_length=120, pattern=r"^[^\x00-\x1f\x7f]+$")]


class ApiKey(BaseModel):
    """An API key as it is stored: never the key itself.

    `digest` is the hex HMAC-SHA256 of the key's secret part under `salt` (hex); `last_four` helps people tell
    keys apart. `id` is the public part of the key and finds it. Times are UTC.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=r"^[a-z0-9]{12}$")
    name: KeyName
    role: Role
    salt: str = Field(repr=False)
    digest: str = Field(repr=False)
    last_four: str = Field(min_length=4, max_length=4)
    created_at: datetime
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None

    @property
    def live(self) -> bool:
        """True until the key is revoked."""
        return self.revoked_at is None


class Principal(BaseModel):
    """Who is behind a request: what is needed to decide and to log, without the secret.

    Exactly one of `key_id` (an API key) and `user_id` (a person who signed in) is set. `session` is the public name of
    the session when a cookie carried the request; a person may also sign in with a key.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    key_id: str | None = None
    user_id: str | None = None
    name: str
    role: Role
    session: str | None = Field(default=None, repr=False)

    @model_validator(mode="after")
    def _one_of_both(self) -> "Principal":
        if (self.key_id is None) == (self.user_id is None):
            raise ValueError("a principal is either a key or a person")
        return self

    @property
    def id(self) -> str:
        """What identifies it in logs, limits and assignments: keys and persons never share one."""
        return f"key:{self.key_id}" if self.user_id is None else f"user:{self.user_id}"
