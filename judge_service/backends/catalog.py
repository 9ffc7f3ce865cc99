"""Which backends there are, and the pool that opens each once.

Owns the names. A backend's module is imported when its first judge is opened, so that no SDK loads unasked.
"""

import difflib
import importlib
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Protocol, cast

from judge_service.backends.base import Backend
from judge_service.domain.judge import Judge
from judge_service.errors import ConfigurationError, JudgeServiceError, MissingDependency
from judge_service.settings import Settings

BACKENDS: Mapping[str, str] = {
    "embedded": "judge_service.backends.embedded",
    "litellm": "judge_service.backends.via_litellm",
    "openai": "judge_service.backends.via_openai",
    "outlines": "judge_service.backends.via_outlines",
    "instructor": "judge_service.backends.via_instructor",
    "recorded": "judge_service.backends.recorded",
    "classifier": "judge_service.backends.classifier",
    "scripted": "judge_service.backends.scripted",
    "baseline": "judge_service.backends.baseline",
}
ENTRY_POINTS = "judge_service.backends"


class BackendModule(Protocol):
    """What a backend's module offers."""

    def open_backend(self, judge: Judge, settings: Settings) -> Backend:
        """Open the backend for this judge's model and options."""
        ...


def backend_names() -> tuple[str, ...]:
    """Built-in backends and those of installed packages."""
    return (*BACKENDS, *(entry.name for entry in entry_points(group=ENTRY_POINTS) if entry.name not in BACKENDS))


def _module(name: str) -> BackendModule:
    if name in BACKENDS:
        try:
            return cast("BackendModule", importlib.import_module(BACKENDS[name]))
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            raise MissingDependency(
                f"The backend {name!r} needs the package {missing!r}. Install it with: pip install {missing}"
            ) from error
    for entry in entry_points(group=ENTRY_POINTS):
        if entry.name == name:
            return cast("BackendModule", entry.load())
    near = difflib.get_close_matches(name, backend_names(), n=3)
    hint = f"Did you mean {', '.join(near)}?" if near else f"Known backends: {', '.join(backend_names())}."
    raise ConfigurationError(f"There is no backend named {name!r}. {hint}")


class BackendPool:
    """Opens backends when they are first needed and shares one among judges that configure it alike."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._open: dict[str, Backend] = {}

    def get(self, judge: Judge) -> Backend:
        """The backend of a judge. Raises ConfigurationError, MissingDependency or MissingModel."""
        key = judge.provider_key
        backend = self._open.get(key)
        if backend is None:
            backend = self._open[key] = _module(judge.backend).open_backend(judge, self._settings)
        return backend

    def revision(self, judge: Judge) -> str | None:
        """What pins a judge's model beyond its name; None where its backend knows nothing or cannot be opened."""
        try:
            return self.get(judge).capabilities.revision
        except JudgeServiceError:
            return None

    def put(self, judge: Judge, backend: Backend) -> None:
        """Use an already open backend for this judge: for callers that build their own."""
        self._open[judge.provider_key] = backend

    async def aclose(self) -> None:
        """Close every backend that was opened."""
        backends, self._open = list(self._open.values()), {}
        for backend in backends:
            await backend.aclose()
