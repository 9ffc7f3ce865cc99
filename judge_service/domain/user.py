"""People who sign in: users, the links that invite them, and their sessions as stored. Knows no secret and no HTTP."""

import unicodedata
from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from judge_service.domain.principal import KeyName, Role


def name_key(name: str) -> str:
    """What makes two names the same: spelling differences that a reader would not see do not count."""
    return unicodedata.normalize("NFKC", " ".join(name.split())).casefold()


def _seen(name: str) -> str:
    name = unicodedata.normalize("NFC", " ".join(name.split()))
    if any(unicodedata.category(char) in ("Cf", "Cc", "Co", "Cn", "Cs") for char in name):
        raise ValueError("a name holds no invisible characters")
    if not any(unicodedata.category(char)[0] in "LN" for char in name):
        raise ValueError("a name needs a letter or a digit")
    return name


UserName = Annotated[KeyName, AfterValidator(_seen)]
"""1 to 120 characters that can be seen; runs of white space count as one space."""


class User(BaseModel):
    """A person. `password_hash` (Argon2id) is null until a password was set; a disabled user cannot sign in.

    `id` identifies the person in assignments and logs; `name` stands on the person's labels and never changes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=r"^[a-z0-9]{12}$")
    name: UserName
    role: Role
    password_hash: str | None = Field(default=None, repr=False)
    created_at: datetime
    disabled_at: datetime | None = None
    signed_in_at: datetime | None = None

    @property
    def live(self) -> bool:
        """True unless disabled."""
        return self.disabled_at is None


class Invitation(BaseModel):
    """A link that makes one user, once, before it expires. `digest` is the SHA-256 of the link's secret.

    `name` is proposed to the person; `project` is the labelling project that the person joins.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=r"^[a-z0-9]{12}$")
    digest: str = Field(repr=False)
    role: Role
    name: UserName | None = None
    project: str | None = None
    made_by: str
    created_at: datetime
    expires_at: datetime
    used_at: datetime | None = None
    used_by: str | None = None
    revoked_at: datetime | None = None

    def usable(self, now: datetime) -> bool:
        """True while it was neither used, nor revoked, nor has expired."""
        return self.used_at is None and self.revoked_at is None and now < self.expires_at


class Session(BaseModel):
    """A signed-in browser. `id` is the SHA-256 of the token in its cookie. Belongs to a user or to an API key."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(repr=False)
    user_id: str | None = None
    key_id: str | None = None
    created_at: datetime
    seen_at: datetime
    expires_at: datetime
    ended_at: datetime | None = None
