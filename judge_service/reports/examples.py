"""Single cases of a comparison, short enough to read: what was asked, and what each run's judge said why.

Owns how long an excerpt is. Texts are data: whoever shows them escapes them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judge_service.domain.case import Case
from judge_service.domain.judgment import Judgment
from judge_service.domain.run import Run
from judge_service.store import ResultRow, Store

LONGEST = 280
"""Characters of an excerpt."""
_ASKED = ("prompt", "question", "input", "task", "statement")
_ANSWERED = ("answer", "output", "response", "response_a", "text")


@dataclass(frozen=True, slots=True)
class Example:
    """A case as both runs have it; `delta` is after - before, null where one of them has no score."""

    before: ResultRow
    after: ResultRow
    delta: float | None


def example_rows(
    store: Store, runs: Sequence[Run], kinds: Mapping[str, Sequence[Example]]
) -> dict[str, list[dict[str, Any]]]:
    """The examples of each kind as JSON: case id, excerpts, and both sides with judgment id, label, score and why."""
    chosen = [example for examples in kinds.values() for example in examples]
    cases = store.runs.cases_of(runs[1].id, [example.after.identity for example in chosen])
    identities = [row.identity for example in chosen for row in (example.before, example.after)]
    judgments = store.judgments.currents(identities)
    return {
        kind: [
            {
                "case_id": example.after.case_id,
                "asked": _first(cases.get(example.after.identity), _ASKED),
                "answer": _first(cases.get(example.after.identity), _ANSWERED),
                "delta": example.delta,
                "before": _said(example.before, judgments.get(example.before.identity)),
                "after": _said(example.after, judgments.get(example.after.identity)),
            }
            for example in examples
        ]
        for kind, examples in kinds.items()
    }


def _said(row: ResultRow, judgment: Judgment | None) -> dict[str, Any]:
    record = (judgment.record if judgment is not None else None) or {}
    return {
        "judgment": row.judgment_id,
        "outcome": "not_judged" if row.outcome is None else row.outcome.value,
        "reason": row.reason,
        "label": row.label,
        "score": row.score,
        "why": _why(record),
    }


def _why(record: Mapping[str, Any]) -> str | None:
    """The rationale of a record; of a pair judged in both orders, that of the first reading that has one."""
    for holder in (record, record.get("ab"), record.get("ba")):
        text = holder.get("rationale") if isinstance(holder, Mapping) else None
        if isinstance(text, str) and text.strip():
            return excerpt(text)
    return None


def _first(case: Case | None, names: Sequence[str]) -> str | None:
    for name in names:
        text = None if case is None else case.input.get(name)
        if isinstance(text, str) and text.strip():
            return excerpt(text)
    return None


def excerpt(text: str) -> str:
    """The beginning of a text on one line; an ellipsis says that it goes on."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
