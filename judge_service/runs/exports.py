"""Results of a run as a stream of JSON lines, a page in memory at a time."""

import json
from collections.abc import Iterator

from judge_service.domain.judgment import Judgment
from judge_service.domain.outcome import Outcome
from judge_service.store import Store

PAGE = 256
"""Judgments read at once."""


def judgments_of(store: Store, run_id: str, *, outcome: Outcome | None = None) -> Iterator[Judgment]:
    """The current judgments of a run's cases in planned order. Cases without one are left out."""
    after = -1
    while True:
        page = store.runs.results(run_id, after=after, limit=PAGE, outcome=outcome)
        yield from (judgment for _, judgment in page)
        if len(page) < PAGE:
            return
        after = page[-1][0]


def judgment_line(judgment: Judgment) -> str:
    """One judgment as a line of JSON that ends in a newline. Never holds NaN."""
    document = judgment.model_dump(mode="json")
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        # A judge's raw reply may hold half a surrogate pair, which UTF-8 cannot.
        text = json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text + "\n"


def jsonl(store: Store, run_id: str, *, outcome: Outcome | None = None) -> Iterator[str]:
    """A run's judgments as JSON lines."""
    for judgment in judgments_of(store, run_id, outcome=outcome):
        yield judgment_line(judgment)
