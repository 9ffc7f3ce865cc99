"""The audit log: who did what to which thing, when. Never a secret, never the text of a case."""

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field


class AuditEntry(BaseModel):
    """One thing that was done. `who` is the name of the principal, `by` its id; `object` names what it was done to."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: int = Field(ge=1)
    at: datetime
    by: str = Field(max_length=200)
    who: str = Field(max_length=200)
    what: str = Field(min_length=1, max_length=200)
    object: str = Field(max_length=500)
