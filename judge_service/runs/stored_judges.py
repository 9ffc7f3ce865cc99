"""Judges set over the API, from the database into the roster of this process, and kept in step with other processes.

A stored judge never replaces one of the judges file.
"""

import asyncio
import logging
import time
from collections.abc import Callable

from judge_service.domain.judge import Judge
from judge_service.errors import Conflict, InvalidInput, NotFound
from judge_service.judging.judging import Judging
from judge_service.judging.roster import Origin
from judge_service.judging.submitted import check_submitted, refuse_unsafe
from judge_service.runs.in_step import InStep
from judge_service.settings import Settings
from judge_service.store import Store

log = logging.getLogger(__name__)


class StoredJudges(InStep):
    """The judges of the database in one process. `monotonic` is in seconds."""

    def __init__(
        self, store: Store, judging: Judging, settings: Settings, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(monotonic)
        self._store = store
        self._judging = judging
        self._settings = settings
        self._left_out: set[str] = set()

    def _read(self) -> None:
        roster = self._judging.roster
        stored = {judge.name: judge for judge in self._store.judges.all()}
        for name in [judge.name for judge in roster.all() if roster.origin(judge.name) is Origin.STORED]:
            if name not in stored:
                self._judging.forget(roster.remove(name))
        for judge in stored.values():
            self._take(judge)

    def _take(self, judge: Judge) -> None:
        roster = self._judging.roster
        if roster.origin(judge.name) not in (None, Origin.STORED):
            self._leave_out(judge, "the judges file has a judge of that name")
            return
        try:
            # What was allowed when it was set may not be allowed any more.
            refuse_unsafe(judge, self._settings)
        except InvalidInput as error:
            self._leave_out(judge, error.message)
            if roster.origin(judge.name) is Origin.STORED:
                self._judging.forget(roster.remove(judge.name))
            return
        if roster.origin(judge.name) is None or roster.get(judge.name) != judge:
            if roster.origin(judge.name) is Origin.STORED:
                self._judging.forget(roster.get(judge.name))
            roster.add(judge, Origin.STORED)

    def _leave_out(self, judge: Judge, why: str) -> None:
        if judge.name not in self._left_out:
            self._left_out.add(judge.name)
            log.warning("stored judge %s is not used: %s", judge.name, why)

    async def put(self, judge: Judge, *, replace: bool) -> bool:
        """Set a judge; True when it is new. Raises InvalidInput, and Conflict when the name is taken.

        The same judge again is a no-op; without `replace` a different one of that name is a conflict.
        """
        async with self._lock:
            await asyncio.to_thread(self.read)
            roster = self._judging.roster
            origin = roster.origin(judge.name)
            if origin not in (None, Origin.STORED):
                raise Conflict(f"Judge {judge.name!r} is {_WHERE[origin]}; it cannot be changed over the API.")
            if origin is Origin.STORED and roster.get(judge.name) == judge:
                return False
            if origin is Origin.STORED and not replace:
                raise Conflict(f"There is a judge {judge.name!r} with another configuration. PUT replaces it.")
            if judge.panel and (holders := self._holders(judge.name)):
                raise Conflict(f"Judge {judge.name!r} votes in {', '.join(holders)} and cannot become a panel.")
            await asyncio.to_thread(check_submitted, judge, roster, self._judging.backends, self._settings)
            await asyncio.to_thread(self._store.judges.put, judge)
            self._take(judge)
            return origin is None

    async def remove(self, name: str) -> Judge:
        """Remove a judge and return it; its judgments stay. Raises NotFound; Conflict when not stored, or a voter."""
        async with self._lock:
            await asyncio.to_thread(self.read)
            roster = self._judging.roster
            origin = roster.origin(name)
            if origin is None:
                left_out = await asyncio.to_thread(self._store.judges.get, name)
                if left_out is not None and await asyncio.to_thread(self._store.judges.remove, name):
                    return left_out
                raise NotFound(f"There is no judge {name!a}.")
            if origin is not Origin.STORED:
                raise Conflict(f"Judge {name!r} is {_WHERE[origin]}; it cannot be removed over the API.")
            if holders := self._holders(name):
                raise Conflict(f"Judge {name!r} votes in {', '.join(holders)}. Remove it there first.")
            await asyncio.to_thread(self._store.judges.remove, name)
            removed = roster.remove(name)
            self._judging.forget(removed)
            return removed

    def _holders(self, name: str) -> list[str]:
        return [judge.name for judge in self._judging.roster.all() if name in judge.panel]


_WHERE = {Origin.BUILT_IN: "built in", Origin.FILE: "set in the judges file"}
