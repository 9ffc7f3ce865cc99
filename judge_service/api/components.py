"""The state of one component, as /readyz shows it."""

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "missing", "degraded", "down"]


@dataclass(frozen=True, slots=True)
class Component:
    """One part of the service. Only a component that is `down` keeps the service from serving at all."""

    name: str
    status: Status
    detail: str

    def as_json(self) -> dict[str, str]:
        """For the response."""
        return {"name": self.name, "status": self.status, "detail": self.detail}
