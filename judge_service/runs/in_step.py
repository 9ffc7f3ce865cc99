"""A table that several processes change, kept in step in each of them. Owns when it is read again."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

FRESH_S = 2.0
"""How long another process may not know of a change."""


class InStep(ABC):
    """What one process knows of a table. `monotonic` is in seconds."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._read_at: float | None = None
        self._lock = asyncio.Lock()

    def read(self) -> None:
        """Bring this process in step with the table. Blocks."""
        self._read()
        self._read_at = self._monotonic()

    async def fresh(self, *, at_once: bool = False) -> None:
        """Read the table again unless that was done a moment ago; `at_once`: even then."""
        if not at_once and self._is_fresh:
            return
        async with self._lock:
            if at_once or not self._is_fresh:
                await asyncio.to_thread(self.read)

    @property
    def _is_fresh(self) -> bool:
        return self._read_at is not None and self._monotonic() - self._read_at < FRESH_S

    @abstractmethod
    def _read(self) -> None:
        """Take over what the table holds."""
