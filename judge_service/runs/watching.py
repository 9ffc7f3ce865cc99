"""A run as a stream of server-sent events, read from the store: the same whichever process works on it.

Owns how often the store is asked and what an event holds.
"""

import asyncio
import json
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable

from judge_service.domain.outcome import Outcome
from judge_service.domain.run import Run
from judge_service.errors import Unavailable
from judge_service.store import Store

EVERY_S = 2.0
_SILENT = 7
"""Looks without a change after which a comment keeps the connection open."""
_WINDOW = 15
"""Looks over which the rate is taken."""


async def watch(
    store: Store,
    run: Run,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> AsyncIterator[str]:
    """Events of a run: `progress` at once and with every change, one `end` with the end state, and no more.

    `n_done` of `n_total` cases have an outcome; `rate_per_s` is taken over the last half minute and null before the
    second look; `cost_usd` and tokens are null where no call reported any.
    """
    seen: deque[tuple[float, int]] = deque(maxlen=_WINDOW)
    last, silent = "", 0
    while True:
        try:
            now = await asyncio.to_thread(store.runs.get, run.id)
            counts = await asyncio.to_thread(store.runs.counts, run.id)
        except Unavailable:
            # A database that restarts is no reason to break off.
            yield ": the database does not answer\n\n"
            await sleep(EVERY_S)
            continue
        if now is None:
            yield _event("end", {"id": run.id, "status": "deleted"})
            return
        outcomes: Counter[str] = Counter({outcome.value: 0 for outcome in Outcome})
        for count in counts:
            outcomes[count.outcome.value] += count.n
        done = outcomes.total()
        seen.append((monotonic(), done))
        (began, before), (ended, _) = seen[0], seen[-1]
        rate = (done - before) / (ended - began) if ended > began else None
        document = {
            "id": now.id,
            "status": now.status.value,
            "message": now.message,
            "n_total": now.n_planned,
            "n_done": done,
            "outcomes": dict(outcomes),
            "prompt_tokens": _sum([count.prompt_tokens for count in counts]),
            "completion_tokens": _sum([count.completion_tokens for count in counts]),
            "cost_usd": _sum([count.cost_usd for count in counts]),
        }
        state = json.dumps(document, sort_keys=True)
        left = None if not rate else (now.n_planned - done) / rate
        if now.status.ended:
            yield _event("end", {**document, "rate_per_s": rate, "eta_s": None})
            return
        silent += 1
        if state != last:
            last, silent = state, 0
            yield _event("progress", {**document, "rate_per_s": rate, "eta_s": left})
        elif silent == _SILENT:
            silent = 0
            yield ": still there\n\n"
        await sleep(EVERY_S)


def _sum(parts: "list[int | None] | list[float | None]") -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _event(name: str, document: dict[str, object]) -> str:
    return f"event: {name}\ndata: {json.dumps(document, allow_nan=False)}\n\n"
