"""A drift record in words: Markdown for a terminal, a comment or an alert. Reads the record and computes nothing."""

from collections.abc import Iterator, Mapping
from typing import Any

from judge_service.domain.drift import DriftRecord, DriftVerdict
from judge_service.reports.outline import in_words, number
from judge_service.reports.run_forms import escape

EXIT_CODES: Mapping[DriftVerdict, int] = {
    DriftVerdict.BASELINE_STORED: 0,
    DriftVerdict.NO_CHANGE: 0,
    DriftVerdict.JUDGE_CHANGED: 1,
    DriftVerdict.NOT_ENOUGH: 2,
    DriftVerdict.SYSTEM_CHANGED: 4,
}
"""Exit codes of the command; 3 is that of a check that could not run."""
_MARKS = {
    DriftVerdict.BASELINE_STORED: "✓",
    DriftVerdict.NO_CHANGE: "✓",
    DriftVerdict.JUDGE_CHANGED: "✕",
    DriftVerdict.NOT_ENOUGH: "◌",
    DriftVerdict.SYSTEM_CHANGED: "↻",
}
_SAID = {
    "verdicts": "Verdicts flip more than repeats of the baseline did.",
    "correctness": "Agreement with people changed.",
    "failures": "The share of anchors without a verdict changed.",
}


def to_markdown(record: DriftRecord) -> str:
    """The verdict, what it rests on, and what this look could have seen."""
    lines = [f"### {_MARKS[record.verdict]} {record.verdict.value.capitalize()}", ""]
    where = record.split.value if record.split is not None else "all splits but release"
    lines += [escape(f"{record.judge} on {record.n} anchors of {record.set_id} ({where}), {record.rubric}."), ""]
    lines += [line for sentence in _sentences(record) for line in (escape(sentence), "")]
    return "\n".join(lines)


def _sentences(record: DriftRecord) -> Iterator[str]:
    found = record.result
    if record.kind == "baseline":
        yield (
            f"Baseline {record.id} of {found['repeats']} repeats: two of them differ on "
            f"{number(found['noise_rate']['value'], share=True)}% of the anchors "
            f"(at most {number(found['noise'], share=True)}% at 95%). The next check is held against it."
        )
        return
    yield from found["reasons"]
    if record.verdict is DriftVerdict.SYSTEM_CHANGED:
        yield "That is no drift: the calibration no longer holds. Measure the judge again and make a new baseline."
    if not found["asked"]:
        yield "Nothing was asked."
        return
    alarm = found["alarm"]
    yield from (_SAID[name] for name in alarm)
    yield f"Look {record.look} at baseline {record.baseline}, error level {found['alpha']:.4f} in all."
    flips = found["flip_rate"]
    yield f"Verdicts that flipped: {_test(flips, found['flip_test'])}; repeats: at most {number(found['noise'])}."
    for title, name in (("Agreement with people", "correctness"), ("Anchors with a verdict", "usable")):
        yield f"{title}, change: {_test(found[name]['mean'], found[f'{name}_test'], signed=True)}."
    if found["moves"]:
        moves = ", ".join(f"{move['from']} to {move['to']} {move['n']}" for move in found["moves"][:6])
        yield f"What changed: {moves}."
    yield from _reach(found)


def _test(estimate: Mapping[str, Any], test: Mapping[str, Any], *, signed: bool = False) -> str:
    p = f", p {test['value']:.3g}" if test["value"] is not None else ""
    return in_words(estimate, signed=signed) + p


def _reach(found: Mapping[str, Any]) -> Iterator[str]:
    """What this look could have seen: without it, "no change seen" says nothing."""
    flips, drop = found["smallest_flip_rate"], found["smallest_drop"]
    if flips["value"] is None:
        yield "Too few anchors for any rate of flips to be seen at this level."
    else:
        yield (
            f"Smallest change this look finds with 80% power: flips on {number(flips['value'], share=True)}% of the "
            f"anchors (alarm from {flips['details']['critical']} of {flips['n']})."
        )
    if drop["value"] is None:
        yield "No loss of agreement could be seen: too few labelled anchors."
    else:
        yield f"Smallest loss of agreement seen for sure: {drop['details']['cases']} of {drop['n']} labelled anchors."
    if found["largest_unseen"] is not None and found["largest_unseen"]["value"] is not None:
        yield (
            f"No verdict flipped: flips on more than {number(found['largest_unseen']['value'], share=True)}% of cases "
            "like these are excluded at about 95%."
        )
