"""A clock that moves only when someone waits, so that tests of waiting need no time."""

import asyncio
from dataclasses import dataclass, field

from judge_service.judging.provider import Clock


@dataclass
class VirtualTime:
    """`now` in seconds; `sleep` advances it at once and lets other tasks run. `waits` lists what was slept."""

    now: float = 0.0
    waits: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        due = self.now + seconds
        await asyncio.sleep(0)
        self.now = max(self.now, due)

    def clock(self) -> Clock:
        return Clock(self.monotonic, self.sleep)
