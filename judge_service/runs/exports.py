"""Results of a run as JSON lines or Parquet, a page in memory at a time."""

import json
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from judge_service.domain.judgment import Judgment
from judge_service.domain.outcome import Outcome
from judge_service.parquet import pyarrow_parquet
from judge_service.store import Only, Store

PAGE = 256
"""Judgments read at once."""


def judgments_of(
    store: Store, run_id: str, *, outcome: Outcome | None = None, only: Only | None = None
) -> Iterator[Judgment]:
    """The current judgments of a run's cases in planned order. Cases without one are left out."""
    after = -1
    while True:
        page = store.runs.results(run_id, after=after, limit=PAGE, outcome=outcome, only=only)
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


def jsonl(store: Store, run_id: str, *, outcome: Outcome | None = None, only: Only | None = None) -> Iterator[str]:
    """A run's judgments as JSON lines."""
    for judgment in judgments_of(store, run_id, outcome=outcome, only=only):
        yield judgment_line(judgment)


TEXTS = ("id", "case_id", "group", "rubric", "judge", "model", "outcome", "reason", "detail", "label", "enforcement")
"""Columns of text in a Parquet export."""
NUMBERS = ("score", "latency_ms", "cost_usd", "confidence", "confidence_calibrated")
COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens", "n_calls")
DOCUMENTS = ("metadata", "record", "votes", "flags", "trust", "calls")
"""Columns that hold JSON."""


def parquet(
    store: Store,
    run_id: str,
    path: Path,
    *,
    outcome: Outcome | None = None,
    only: Only | None = None,
    now: Callable[[Judgment], Judgment] = lambda judgment: judgment,
) -> int:
    """Write a run's judgments to a Parquet file, one row each; how many.

    Figures are columns, what has parts is JSON in a column. `now` brings a judgment up to date. Raises
    MissingDependency.
    """
    writer = pyarrow_parquet()
    import pyarrow

    schema = pyarrow.schema(
        [
            *((name, pyarrow.string()) for name in TEXTS),
            *((name, pyarrow.float64()) for name in NUMBERS),
            *((name, pyarrow.int64()) for name in COUNTS),
            ("created_at", pyarrow.timestamp("us", tz="UTC")),
            *((name, pyarrow.string()) for name in DOCUMENTS),
        ]
    )
    n = 0
    judgments = judgments_of(store, run_id, outcome=outcome, only=only)
    with writer.ParquetWriter(path, schema) as file:
        while page := [_flat(now(judgment)) for judgment in islice(judgments, PAGE * 8)]:
            file.write_table(pyarrow.Table.from_pylist(page, schema=schema))
            n += len(page)
    return n


def _flat(judgment: Judgment) -> dict[str, Any]:
    document = judgment.model_dump(mode="json")
    usage, confidence = document.pop("usage"), document["confidence"] or {}
    texts = {name: None if document[name] is None else _utf8(str(document[name])) for name in TEXTS}
    return {
        **texts,
        "score": document["score"],
        "latency_ms": document["latency_ms"],
        "cost_usd": usage["cost_usd"],
        "confidence": confidence.get("value"),
        "confidence_calibrated": confidence.get("calibrated"),
        **{name: usage[name] for name in COUNTS[:3]},
        "n_calls": len(judgment.calls),
        "created_at": judgment.created_at,
        **{name: None if document[name] is None else json.dumps(document[name], allow_nan=False) for name in DOCUMENTS},
    }


def _utf8(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
