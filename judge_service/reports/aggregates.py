"""The numbers of a run and of its slices: intervals, bounds, corrected shares.

Every number has its n, every null its reason. What was judged under different conditions is not averaged unless the
caller says so. Quick counts while a run goes on are `runs.aggregate`'s, two runs side by side `comparison`'s.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from calibration.corrected import JudgeErrors, classical_mean, ppi_mean, rogan_gladen
from calibration.estimate import Estimate, Reason
from calibration.intervals import mean_t, proportion
from calibration.paired import clustered_mean
from calibration.resample import FAST_RESAMPLES
from judge_service.domain.calibration import Calibration
from judge_service.domain.outcome import Outcome
from judge_service.domain.run import Run
from judge_service.errors import FieldProblem, InvalidInput, NotFound
from judge_service.reports.consistency import self_consistency
from judge_service.reports.trust import StoredTrust
from judge_service.store import ResultRow, Store
from rubrics.model import Rubric
from rubrics.registry import UnknownRubric, get_rubric

NO_VERDICT_BELOW = 30
"""Cases of a slice below which it has an interval but no verdict."""


@dataclass(frozen=True)
class Correction:
    """What corrected shares are estimated from: a calibration and its pairs of labels, judge beside human."""

    calibration: Calibration
    judge: Sequence[str | None]
    human: Sequence[str]
    group: Sequence[int]
    identities: frozenset[str]
    uneven: bool = False
    """The calibration's cases were drawn with unequal probabilities: errors counted on them are not the judge's."""


def run_aggregate(store: Store, run_id: str, *, by: str | None = None, mix: bool = False) -> dict[str, Any]:
    """A run in numbers, and one slice for each value of the metadata key `by` (or `group`).

    `mix`: average over different enforcement all the same. Raises NotFound, and InvalidInput for a key that no case
    has or a rubric that this program does not know.
    """
    run = run_of(store, run_id)
    rubric = rubric_of_run(run)
    rows = [lean(row, [] if by is None else [by]) for row in store.runs.rows(run.id)]
    correction = correction_of(store, run, rows)
    found = {
        "run": run.id,
        "rubric": run.rubric,
        "rubric_hash": run.rubric_hash,
        "judge": run.judge.name,
        "status": run.status.value,
        "mixed_allowed": mix,
        **aggregate_rows(rubric, rows, mix=mix, correction=correction),
    }
    if by is not None:
        found["slices"] = slices(rubric, rows, by, mix=mix, correction=correction)
    return found


def lean(row: ResultRow, keys: Sequence[str]) -> ResultRow:
    """The row with the metadata that is sliced by only: a run may have a million of them."""
    return replace(row, metadata={key: row.metadata[key] for key in keys if key in row.metadata})


def run_of(store: Store, run_id: str) -> Run:
    """A run. Raises NotFound."""
    run = store.runs.get(run_id)
    if run is None:
        raise NotFound(f"There is no run {run_id!r}.")
    return run


def rubric_of_run(run: Run) -> Rubric[Any]:
    """The rubric version of a run. Raises InvalidInput when this program does not know it."""
    try:
        return get_rubric(run.rubric)
    except UnknownRubric as error:
        raise InvalidInput(str(error), fields=[FieldProblem("run", str(error))]) from None


def correction_of(store: Store, run: Run, rows: Iterable[ResultRow]) -> Correction | None:
    """What a calibration in force says about this run's judge; None without one, or for a run of several models."""
    answered = [row for row in rows if row.outcome is Outcome.SCORED]
    models = {row.model for row in answered}
    hashes = {row.judge_hash for row in answered}
    if len(models) != 1 or len(hashes) != 1:
        return None
    model, judge_hash = models.pop(), hashes.pop() or ""
    calibration = StoredTrust(store).measurement(run.rubric, run.rubric_hash, run.judge, judge_hash, model)
    if calibration is None:
        return None
    pairs = (store.calibrations.statistics(calibration.id) or {}).get("pairs")
    if pairs is None:
        return None
    identities = frozenset(store.runs.identities(calibration.runs))
    return Correction(
        calibration, pairs["judge"], pairs["human"], pairs["group"], identities, uneven=pairs.get("uneven", False)
    )


def aggregate_rows(
    rubric: Rubric[Any], rows: Sequence[ResultRow], *, mix: bool = False, correction: Correction | None = None
) -> dict[str, Any]:
    """Counts, coverage, mean score with interval and bounds, the share of every label, corrected shares, and how
    far repeats say the same.

    `bounds` are the mean if every case without an outcome that counts (judge error, inconsistent, not judged) had had
    the scale's minimum or maximum.
    """
    scored = [row for row in rows if row.outcome is Outcome.SCORED and row.score is not None]
    outcomes = Counter(row.outcome.value if row.outcome is not None else "not_judged" for row in rows)
    reasons = Counter(f"{row.outcome.value}:{row.reason}" for row in rows if row.outcome is not None and row.reason)
    failed = outcomes["judge_error"] + outcomes["inconsistent"] + outcomes["not_judged"]
    conditions = Counter(row.enforcement for row in scored)
    mixed = len(conditions) > 1 and not mix
    scale = rubric.scale
    scores = [row.score for row in scored if row.score is not None]
    total = float(sum(scores))
    n = len(scored) + failed
    found: dict[str, Any] = {
        "n_total": len(rows),
        "n_scored": len(scored),
        "n_failed": failed,
        "coverage": proportion(len(scored), len(rows)).to_dict(),
        "outcomes": {name: outcomes[name] for name in (*(o.value for o in Outcome), "not_judged")},
        "reasons": dict(sorted(reasons.items())),
        "enforcement": {str(name): count for name, count in sorted(conditions.items(), key=str)},
        "models": dict(sorted(Counter(str(row.model) for row in scored).items())),
        "mean_score": (
            Estimate.undefined(Reason.MIXED_CONDITIONS, len(scored), "mean") if mixed else mean_score(scored, rubric)
        ).to_dict(),
        "bounds": None
        if n == 0 or mixed
        else {"low": (total + failed * scale.minimum) / n, "high": (total + failed * scale.maximum) / n, "n": n},
        "labels": {name: _share(scored, name, mixed) for name in scale.names},
    }
    found |= self_consistency(rows, units_of(rows))
    if mixed:
        found["by_enforcement"] = {
            str(kind): mean_score([row for row in scored if row.enforcement == kind], rubric).to_dict()
            for kind in sorted(conditions, key=str)
        }
    found["corrected"] = None if correction is None or mixed else corrected(rubric, scored, correction)
    return found


def units_of(rows: Sequence[ResultRow]) -> list[str]:
    """The unit of independence of each row: its group, else the case itself."""
    return [f"case {row.case_id}" if row.group is None else f"group {row.group}" for row in rows]


def _clustered(rows: Sequence[ResultRow]) -> bool:
    units = units_of(rows)
    return len(set(units)) < len(units)


def mean_score(rows: Sequence[ResultRow], rubric: Rubric[Any]) -> Estimate:
    """Mean score: Wilson for scores of 0 and 1, Student's t, or the clustered interval where groups hold several."""
    scores = [row.score for row in rows if row.score is not None]
    if not scores:
        return Estimate.undefined(Reason.EMPTY, 0, "mean")
    if _clustered(rows):
        estimate = clustered_mean(scores, units_of(rows))
    elif set(scores) <= {0.0, 1.0}:
        return proportion(int(sum(scores)), len(scores))
    else:
        estimate = mean_t(scores)
    if estimate.low is None or estimate.high is None:
        return estimate
    low, high = max(estimate.low, rubric.scale.minimum), min(estimate.high, rubric.scale.maximum)
    return replace(estimate, low=low, high=high)


def _share(rows: Sequence[ResultRow], label: str, mixed: bool) -> dict[str, Any]:
    if mixed:
        return Estimate.undefined(Reason.MIXED_CONDITIONS, len(rows), "share").to_dict()
    hits = [float(row.label == label) for row in rows]
    if hits and _clustered(rows):
        estimate = clustered_mean(hits, units_of(rows))
        if estimate.low is not None and estimate.high is not None:
            estimate = replace(estimate, low=max(0.0, estimate.low), high=min(1.0, estimate.high))
        return replace(estimate, numerator=sum(hits), denominator=len(hits)).to_dict()
    return proportion(int(sum(hits)), len(hits)).to_dict()


def corrected(rubric: Rubric[Any], scored: Sequence[ResultRow], correction: Correction) -> dict[str, Any]:
    """For every label: the judge's raw share, and what people would have said by Rogan-Gladen and by PPI++.

    Over the usable verdicts of both. Cases of the calibration itself are left out of PPI++'s judged part. Which of the
    two holds depends on what only the caller knows; `assumptions` says it. A calibration over cases that were drawn
    with unequal probabilities corrects nothing: null `unequal_probabilities`.
    """
    known = [place for place, label in enumerate(correction.judge) if label is not None]
    human = [correction.human[place] for place in known]
    judge = [correction.judge[place] for place in known]
    groups = [f"labelled {correction.group[place]}" for place in known]
    fresh = [row for row in scored if row.identity not in correction.identities]
    grouped = len(set(groups)) < len(groups) or _clustered(fresh)
    labels = {}
    for name in rubric.scale.names:
        raw = proportion(sum(row.label == name for row in scored), len(scored)).to_dict()
        if correction.uneven:
            ways = ("rogan_gladen", "ppi_plus_plus", "labels_alone")
            none = {way: Estimate.undefined(Reason.UNEQUAL_PROBABILITIES, len(human), way).to_dict() for way in ways}
            labels[name] = {"raw": raw, **none}
            continue
        passed = [label == name for label in human]
        said = [label == name for label in judge]
        errors = JudgeErrors(
            true_pass=sum(p and s for p, s in zip(passed, said, strict=True)),
            human_pass=sum(passed),
            true_fail=sum(not p and not s for p, s in zip(passed, said, strict=True)),
            human_fail=len(passed) - sum(passed),
        )
        estimate = rogan_gladen(sum(row.label == name for row in scored), len(scored), errors)
        if grouped:
            estimate = estimate.flagged("groups_ignored")
        extra: dict[str, Any] = {}
        if grouped:
            extra = {"labelled_groups": groups, "unlabelled_groups": units_of(fresh), "resamples": FAST_RESAMPLES}
        labels[name] = {
            "raw": raw,
            "rogan_gladen": estimate.to_dict(),
            "ppi_plus_plus": ppi_mean(
                [float(p) for p in passed],
                [float(s) for s in said],
                [float(row.label == name) for row in fresh],
                **extra,
            ).to_dict(),
            "labels_alone": classical_mean([float(p) for p in passed]).to_dict(),
        }
    return {
        "calibration": correction.calibration.id,
        "set": correction.calibration.set_id,
        "assumptions": {
            "rogan_gladen": "The judge errs as often on these cases as on the calibration set.",
            "ppi_plus_plus": "The calibration set is a random sample of the population of these cases.",
        },
        "labels": labels,
    }


def slice_value(row: ResultRow, key: str) -> str | None:
    """The row's value of a metadata key (or `group`) as text; None without one."""
    if key in row.metadata:
        value = row.metadata[key]
        return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return row.group if key == "group" else None


def slices(
    rubric: Rubric[Any], rows: Sequence[ResultRow], key: str, *, mix: bool, correction: Correction | None
) -> dict[str, Any]:
    """The numbers of every value of a metadata key; cases without the key are counted, not dropped silently."""
    parts: dict[str, list[ResultRow]] = {}
    without = 0
    for row in rows:
        value = slice_value(row, key)
        if value is None:
            without += 1
        else:
            parts.setdefault(value, []).append(row)
    if not parts:
        raise InvalidInput(fields=[FieldProblem("slice", f"no case has metadata {key!r}")])
    values = {}
    for value in sorted(parts):
        part = aggregate_rows(rubric, parts[value], mix=mix, correction=correction)
        values[value] = {**part, "no_verdict": part["n_scored"] < NO_VERDICT_BELOW}
    return {"key": key, "without_key": without, "values": values}
