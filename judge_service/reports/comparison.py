"""Two runs side by side, paired on the cases that both scored: the difference, who won where, and what was left out.

Owns what forbids a comparison. The numbers of one run are `aggregates`'.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from calibration.estimate import Estimate, Reason
from calibration.intervals import bonett_price
from calibration.paired import paired_delta, paired_delta_by_slice
from calibration.tests import mcnemar
from judge_service.domain.outcome import Outcome
from judge_service.domain.run import Run
from judge_service.errors import Conflict, FieldProblem, InvalidInput
from judge_service.reports.aggregates import (
    NO_VERDICT_BELOW,
    aggregate_rows,
    correction_of,
    lean,
    mean_score,
    rubric_of_run,
    run_of,
    slice_value,
    units_of,
)
from judge_service.reports.examples import Example, example_rows
from judge_service.reports.hashes import judge_hashes
from judge_service.store import ResultRow, Store
from rubrics.model import Rubric
from rubrics.registry import UnknownRubric, get_rubric

EXAMPLES = 5
"""Cases shown of each kind of change."""

Table = Mapping[str, ResultRow]


class NotComparable(Conflict):
    """Two runs that must not be compared. `differences` says why."""

    code = "not_comparable"


def compare_runs(
    store: Store, a: str, b: str, *, by: str | None = None, mix: bool = False, examples: int = EXAMPLES
) -> dict[str, Any]:
    """Run `b` minus run `a`, paired on the cases (by id) that both scored, with the interval of the difference.

    Raises NotFound; NotComparable when the two were made under different rubric contents or enforcement and `mix` is
    False; Conflict when they have no case in common.
    """
    runs = [run_of(store, a), run_of(store, b)]
    rubric = rubric_of_run(runs[1])
    keys = [] if by is None else [by]
    tables = [{row.case_id: lean(row, keys) for row in store.runs.rows(run.id)} for run in runs]
    apart, notes = differences(runs, tables)
    reasons = [problem.message for problem in apart]
    if apart and not mix:
        raise NotComparable(
            f"{headline(runs, tables)} {' '.join(reasons)} A difference would mix the two. Say explicitly that it may.",
            fields=apart,
            extra={"differences": reasons},
        )
    common = [case_id for case_id in tables[0] if case_id in tables[1]]
    if not common:
        raise Conflict(f"Runs {a} and {b} have no case id in common.")
    first = [tables[0][case_id] for case_id in common]
    second = [tables[1][case_id] for case_id in common]
    before, after = [_counted(row) for row in first], [_counted(row) for row in second]
    units = units_of(first)
    delta = paired_delta(before, after, groups=units)
    both = [(x, y) for x, y in zip(first, second, strict=True) if _counted(x) is not None and _counted(y) is not None]
    found: dict[str, Any] = {
        "comparable": True,
        "a": _side(store, runs[0], rubric, tables[0], common, mix),
        "b": _side(store, runs[1], rubric, tables[1], common, mix),
        "rubric": rubric.id,
        "mixed": reasons,
        "notes": notes,
        "n_common": len(common),
        "n_paired": len(both),
        "only_in_a": len(tables[0]) - len(common),
        "only_in_b": len(tables[1]) - len(common),
        "difference": delta.to_dict(),
        "mean_a": mean_score([x for x, _ in both], rubric).to_dict(),
        "mean_b": mean_score([y for _, y in both], rubric).to_dict(),
        "bounds": _bounds(rubric, first, second),
        "inconsistent": _inconsistent(first, second),
        "examples": example_rows(store, runs, _changes(first, second, examples)),
    }
    decisive = delta.mean
    scores = {row.score for pair in both for row in pair}
    if both and scores <= {0.0, 1.0}:
        gained = sum(x.score == 0 and y.score == 1 for x, y in both)
        lost = sum(x.score == 1 and y.score == 0 for x, y in both)
        difference = bonett_price(gained, lost, len(both))
        found["pass_rate_difference"] = difference.to_dict()
        found["mcnemar"] = mcnemar(gained, lost).to_dict()
        if delta.mean.interval_reason is Reason.ZERO_VARIANCE:
            # All pairs alike leave the t interval without a width; the counts still have one.
            decisive = difference
    found["decisive"] = decisive.to_dict()
    higher = rubric.scale.higher_is_better
    found["verdict"] = _verdict(decisive, higher)
    if by is not None:
        found["slices"] = _compared_slices(first, before, after, units, by, higher)
    return found


def comparison_or_reason(store: Store, a: str, b: str, *, by: str | None = None, mix: bool = False) -> dict[str, Any]:
    """`compare_runs`, or for runs that must not be compared what a report says instead: a headline and no number."""
    try:
        return compare_runs(store, a, b, by=by, mix=mix)
    except NotComparable as refused:
        return {
            "comparable": False,
            "a": {"run": a},
            "b": {"run": b},
            "headline": refused.message.partition(". ")[0],
            "differences": refused.extra["differences"],
        }


def _counted(row: ResultRow) -> float | None:
    return row.score if row.outcome is Outcome.SCORED else None


def _enforcement(table: Table) -> list[str]:
    return sorted({str(row.enforcement) for row in table.values() if _counted(row) is not None})


def headline(runs: Sequence[Run], tables: Sequence[Table]) -> str:
    """Why two runs must not be compared, in a few words."""
    if runs[0].rubric != runs[1].rubric:
        return f"Not comparable: {runs[0].rubric} and {runs[1].rubric}."
    if runs[0].rubric_hash != runs[1].rubric_hash:
        return f"Not comparable: two contents of {runs[0].rubric}."
    kinds = [", ".join(_enforcement(table)) for table in tables]
    return f"Not comparable: enforcement {kinds[0]} and enforcement {kinds[1]}."


def differences(runs: Sequence[Run], tables: Sequence[Table]) -> tuple[list[FieldProblem], list[str]]:
    """What forbids averaging two runs together, and what a reader must know besides."""
    reasons: list[FieldProblem] = []
    notes: list[str] = []
    if runs[0].rubric_hash != runs[1].rubric_hash:
        said = f"The runs were made under different rubrics ({runs[0].rubric} and {runs[1].rubric})."
        if runs[0].rubric == runs[1].rubric:
            said = f"The runs were made under different contents of {runs[0].rubric}."
        reasons.append(FieldProblem("rubric", said))
        scales = [_scale(run) for run in runs]
        if None not in scales and scales[0] != scales[1]:
            reasons.append(FieldProblem("scale", f"Their scales differ ({scales[0]} and {scales[1]})."))
    kinds = [_enforcement(table) for table in tables]
    if all(kinds) and kinds[0] != kinds[1]:
        said = f"Their enforcement differs ({', '.join(kinds[0])} and {', '.join(kinds[1])})."
        reasons.append(FieldProblem("enforcement", said))
    made = [
        judge_hashes(run, (row.judge_hash for row in table.values())) for run, table in zip(runs, tables, strict=True)
    ]
    if made[0] != made[1]:
        names = [run.judge.name for run in runs]
        said = f"Different judges ({names[0]} and {names[1]})"
        if names[0] == names[1]:
            said = f"Different configurations of {names[0]}"
        notes.append(f"{said}: the difference is theirs too.")
    models = [sorted({str(row.model) for row in table.values() if _counted(row) is not None}) for table in tables]
    if all(models) and models[0] != models[1] and not notes:
        notes.append(f"Different judge models ({', '.join(models[0])} and {', '.join(models[1])}) answered.")
    return reasons, notes


def _scale(run: Run) -> str | None:
    """The labels of a run's rubric in order; None for a rubric that this program does not know."""
    try:
        return ", ".join(get_rubric(run.rubric).scale.names)
    except UnknownRubric:
        return None


def _side(
    store: Store, run: Run, rubric: Rubric[Any], table: Table, common: Sequence[str], mix: bool
) -> dict[str, Any]:
    outcomes = Counter(row.outcome.value if row.outcome is not None else "not_judged" for row in table.values())
    rows = list(table.values())
    whole = aggregate_rows(rubric, rows, mix=mix, correction=correction_of(store, run, rows))
    return {
        "run": run.id,
        "rubric": run.rubric,
        "judge": run.judge.name,
        "source": run.source,
        "status": run.status.value,
        "n_total": len(table),
        "n_scored": outcomes["scored"],
        "outcomes": dict(sorted(outcomes.items())),
        "mean_score": whole["mean_score"],
        "corrected": whole["corrected"],
        "left_out": {
            "not_in_the_other": len(table) - len(common),
            "not_scored": dict(sorted(Counter(_ending(table[name]) for name in common if _fails(table[name])).items())),
        },
    }


def _fails(row: ResultRow) -> bool:
    return _counted(row) is None


def _ending(row: ResultRow) -> str:
    if row.outcome is None:
        return "not_judged"
    return row.outcome.value if row.reason is None else f"{row.outcome.value}:{row.reason}"


def _bounds(rubric: Rubric[Any], first: Sequence[ResultRow], second: Sequence[ResultRow]) -> dict[str, Any] | None:
    """The mean difference over the common cases if every failed one had been at its worst for the gain, and its best.

    Cases that are not applicable in one of the runs have no place in it. Null without a case.
    """
    low = high = 0.0
    n = 0
    least, most = rubric.scale.minimum, rubric.scale.maximum
    for x, y in zip(first, second, strict=True):
        if Outcome.NOT_APPLICABLE in (x.outcome, y.outcome):
            continue
        before, after = _counted(x), _counted(y)
        low += (least if after is None else after) - (most if before is None else before)
        high += (most if after is None else after) - (least if before is None else before)
        n += 1
    return {"low": low / n, "high": high / n, "n": n} if n else None


def _inconsistent(first: Sequence[ResultRow], second: Sequence[ResultRow]) -> dict[str, int]:
    counts = Counter(
        (x.outcome is Outcome.INCONSISTENT, y.outcome is Outcome.INCONSISTENT)
        for x, y in zip(first, second, strict=True)
    )
    return {"both": counts[True, True], "only_a": counts[True, False], "only_b": counts[False, True]}


def _changes(first: Sequence[ResultRow], second: Sequence[ResultRow], most: int) -> dict[str, list[Example]]:
    """Up to `most` cases of each kind: the largest wins and losses, ties, and those inconsistent in one run only."""
    kinds: dict[str, list[Example]] = {"wins": [], "losses": [], "ties": [], "inconsistent": []}
    for x, y in zip(first, second, strict=True):
        before, after = _counted(x), _counted(y)
        if before is not None and after is not None:
            delta = after - before
            kinds["wins" if delta > 0 else "losses" if delta < 0 else "ties"].append(Example(x, y, delta))
        elif Outcome.INCONSISTENT in (x.outcome, y.outcome):
            kinds["inconsistent"].append(Example(x, y, None))
    for name in ("wins", "losses"):
        kinds[name].sort(key=lambda example: (-abs(example.delta or 0.0), example.after.case_id))
    return {name: found[:most] for name, found in kinds.items()}


def _verdict(mean: Estimate, higher_is_better: bool) -> str:
    """`better`, `worse` or `not separated`; `not enough evidence` below 30 pairs or without an interval."""
    if mean.low is None or mean.high is None or mean.n < NO_VERDICT_BELOW:
        return "not enough evidence"
    if mean.low <= 0 <= mean.high:
        return "not separated"
    return "better" if (mean.low > 0) == higher_is_better else "worse"


def _compared_slices(
    rows: Sequence[ResultRow],
    before: Sequence[float | None],
    after: Sequence[float | None],
    units: Sequence[str],
    key: str,
    higher_is_better: bool,
) -> dict[str, Any]:
    kept = [place for place, row in enumerate(rows) if slice_value(row, key) is not None]
    if not kept:
        raise InvalidInput(fields=[FieldProblem("slice", f"no common case has metadata {key!r}")])
    # A prefix keeps a slice called `all` apart from the whole.
    found = paired_delta_by_slice(
        [before[i] for i in kept],
        [after[i] for i in kept],
        [f"={slice_value(rows[i], key)}" for i in kept],
        groups=[units[i] for i in kept],
    )
    values = {
        name[1:]: {**delta.to_dict(), "verdict": _verdict(delta.mean, higher_is_better)}
        for name, delta in found.items()
        if name != "all"
    }
    return {"key": key, "without_key": len(rows) - len(kept), "values": values}
