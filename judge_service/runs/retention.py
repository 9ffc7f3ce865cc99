"""Deletes what is older than the installation keeps: ended runs with their judgments, lone judgments, kept calls.

Owns what is spared: runs over calibration sets, on whose judgments measurements rest.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from judge_service.domain.run import SET_SOURCE
from judge_service.errors import Conflict, JudgeServiceError, NotFound
from judge_service.store import Store
from judge_service.store.store import utc_now

EVERY_S = 3600.0
_PAGE = 100

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Swept:
    """How much one sweep deleted."""

    runs: int
    judgments: int
    calls: int


def sweep(store: Store, before: datetime) -> Swept:
    """Delete what ended or was made before that time. Blocks; others write meanwhile."""
    runs = judgments = 0
    kept: set[str] = set()
    while page := [run for run in store.runs.ended_before(before, limit=_PAGE + len(kept)) if run.id not in kept]:
        for run in page:
            if (run.source or "").startswith(SET_SOURCE):
                kept.add(run.id)
                continue
            try:
                judgments += store.runs.delete(run.id)
                runs += 1
            except (Conflict, NotFound):
                # Resumed or deleted by someone else in this moment.
                kept.add(run.id)
    judgments += store.judgments.forget_lone(before)
    calls = store.cache.purge(before)
    store.idempotency.purge(before)
    return Swept(runs, judgments, calls)


async def keep_swept(
    store: Store,
    days: int,
    *,
    now: Callable[[], datetime] = utc_now,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Sweep now and every hour, until cancelled."""
    while True:
        try:
            swept = await asyncio.to_thread(sweep, store, now() - timedelta(days=days))
        except JudgeServiceError as error:
            log.warning("what is older than %d days was not deleted: %s", days, error.message)
        else:
            if swept.runs or swept.judgments:
                log.info("older than %d days and deleted: %s", days, swept)
        await sleep(EVERY_S)
