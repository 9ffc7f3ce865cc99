"""Section: the cases where a judge and the label differ, with their texts. Owns which cases are listed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from judge_service.domain.calibration_set import Split
from judge_service.domain.judgment import Judgment
from judge_service.reports.dataset import Dataset, JudgeColumn, LabelledItem
from judge_service.reports.study import Study

ID = "disagreements"
TITLE = "Where judges and people differ"

LISTED = 100
"""How many cases are listed at most; the rest is counted."""
MOST_JUDGES = 12
"""Judges whose answers stand under a case."""
MOST_EVIDENCE = 12
"""Parts of a record that are shown of one judgment."""
TEXT_LIMIT = 4_000
"""Longest text shown, in characters."""

_TEXT_FIELDS = ("claim", "statement", "fact", "nugget", "text")
_VERDICT_FIELDS = ("verdict", "support", "status")

_WITHHELD = (
    "The cases of a release split are not shown: looking at them would make it a development split. "
    "`judge-service sets show SET --cases --split release` shows them and records that."
)


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_LIMIT else f"{text[:TEXT_LIMIT]} [... {len(text) - TEXT_LIMIT} more characters]"


def _texts(item: LabelledItem) -> list[dict[str, str]]:
    """Every text of a case with the name of its field, in the case's own order."""
    found = []

    def walk(name: str, value: Any) -> None:
        if isinstance(value, str):
            found.append({"name": name, "text": _cut(value)})
        elif isinstance(value, dict):
            title = str(value.get("id", name))
            for key, part in value.items():
                if key != "id":
                    walk(f"{name} {title}" if key == "text" else f"{name} {title} {key}", part)
        elif isinstance(value, (list, tuple)):
            for number, part in enumerate(value, start=1):
                walk(name if isinstance(part, dict) else f"{name} {number}", part)

    for name, value in item.case.input.items():
        walk(name, value)
    return found


def _evidence(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the judge named in its record: each claim, statement or fact with its verdict and the quote it rests on."""
    found: list[dict[str, Any]] = []

    def note(about: Any, part: Mapping[str, Any]) -> None:
        evidence = part.get("evidence", part)
        quote = evidence.get("quote") if isinstance(evidence, Mapping) else None
        text = next((part[name] for name in _TEXT_FIELDS if isinstance(part.get(name), str)), about)
        verdict = next((part[name] for name in _VERDICT_FIELDS if isinstance(part.get(name), str)), None)
        if verdict is not None or quote:
            found.append(
                {
                    "about": _cut(str(text)),
                    "verdict": verdict,
                    "quote": _cut(quote) if isinstance(quote, str) else None,
                    "found": evidence.get("found") if isinstance(evidence, Mapping) else None,
                }
            )

    for name, value in record.items():
        if name in ("ab", "ba"):
            continue
        if isinstance(value, Mapping) and "quote" in value:
            note(name.replace("_", " "), value)
            continue
        parts = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
        for about, part in parts:
            if isinstance(part, Mapping):
                note(about, part)
    return found[:MOST_EVIDENCE]


def _answer(judgment: Judgment | None) -> dict[str, Any]:
    if judgment is None:
        empty = dict.fromkeys(("label", "reason", "detail", "score", "confidence", "says"))
        return {"outcome": "not_judged", **empty, "evidence": []}
    record = judgment.record or {}
    says = record.get("rationale")
    if says is None:
        shown = [record.get(order) for order in ("ab", "ba")]
        says = next((one["rationale"] for one in shown if isinstance(one, dict) and one.get("rationale")), None)
    return {
        "outcome": judgment.outcome.value,
        "label": judgment.label,
        "reason": judgment.reason.value if judgment.reason is not None else None,
        "detail": judgment.detail,
        "score": judgment.score,
        "confidence": None if judgment.confidence is None else judgment.confidence.value,
        "says": _cut(says) if isinstance(says, str) else None,
        "evidence": _evidence(record),
    }


def build(study: Study) -> dict[str, Any]:
    """Labelled cases on which a judge with a model gave another label or none; without such a judge, any judge.

    Shape: `{n, differ, of_judges, cases: [case], not_listed, withheld}`; `withheld`: why no case is shown, or null.
    `case`: `id`, `group`, `metadata`, `texts`: `[{name, text}]`, `human_label`, `human_note`, `votes` (single people's
    labels, counted), `wrong` (how many of `of_judges` differ), `judges`: `[{judge, agrees, outcome, label, reason,
    detail, score, confidence, says, evidence}]`, those of `of_judges` that differ first, then the others, at most 12,
    and `judges_not_listed`. `evidence`: `[{about, verdict, quote, found}]` from the judge's record. Cases on which
    most judges differ come first; long texts are cut and say so.
    """
    dataset = study.dataset
    origin = study.labelled_set
    closed = origin is not None and origin.version.status == "frozen" and Split.RELEASE in origin.splits
    models = [column for column in dataset.columns if not column.baseline] or list(dataset.columns)
    order = models + [column for column in dataset.columns if column not in models]
    differing: list[tuple[int, int]] = []
    for i in dataset.labelled:
        wrong = sum(_label(column, i) != dataset.items[i].label for column in models)
        if wrong:
            differing.append((wrong, i))
    # The cases that most judges miss say most about rubric and labels; ties keep the set's order.
    listed = sorted(differing, key=lambda entry: (-entry[0], entry[1]))[: 0 if closed else LISTED]
    return {
        "n": len(dataset.labelled),
        "differ": len(differing),
        "of_judges": [column.judge.name for column in models],
        "cases": [_case(dataset, i, wrong, order, models) for wrong, i in listed],
        "not_listed": len(differing) - len(listed),
        "withheld": _WITHHELD if closed else None,
    }


def _label(column: JudgeColumn, i: int) -> str | None:
    judgment = column.judgments[i]
    return None if judgment is None else judgment.label


def _case(
    dataset: Dataset, i: int, wrong: int, order: Sequence[JudgeColumn], models: Sequence[JudgeColumn]
) -> dict[str, Any]:
    item = dataset.items[i]
    ranked = sorted(order, key=lambda column: (column not in models, _label(column, i) == item.label))
    return {
        "id": item.case.id,
        "group": item.case.group,
        "metadata": dict(item.case.metadata),
        "texts": _texts(item),
        "human_label": item.label,
        "human_note": item.note,
        "votes": dict(sorted(Counter(item.votes.values()).items())),
        "wrong": wrong,
        "judges": [
            {
                "judge": column.judge.name,
                "agrees": _label(column, i) == item.label,
                **_answer(column.judgments[i]),
            }
            for column in ranked[:MOST_JUDGES]
        ],
        "judges_not_listed": max(0, len(ranked) - MOST_JUDGES),
    }
