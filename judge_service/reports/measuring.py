"""From a judge's figures on a frozen set to the calibration that is stored, and its map of confidences.

Owns when a measurement supports no trust and when no map may be used, each with the reason in words.
"""

import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from math import floor
from typing import Any

from calibration.agreement import PairedLabels
from calibration.confidence import Forecasts
from calibration.estimate import REASON_TEXT, Reason
from calibration.recalibrate import FITTERS, MIN_CASES, cross_fit
from calibration.resample import MIN_GROUPS, Resampler
from judge_service.domain.calibration import Calibration, FittedMap
from judge_service.domain.calibration_set import SetVersion, Split, UsePurpose
from judge_service.domain.canonical import content_hash
from judge_service.domain.outcome import Outcome
from judge_service.errors import Conflict, FieldProblem, InvalidInput
from judge_service.reports.dataset import Dataset, JudgeColumn
from judge_service.reports.hashes import judge_hashes
from judge_service.reports.labelled_set import LabelledSet, read_set, source_of
from judge_service.reports.statistics import Rules, set_statistics
from judge_service.store import Store

ENOUGH_LABELS = 30
"""Labels below which a measurement supports no trust."""
ENOUGH_OF_CLASS = 10
"""Labels that at least two classes need."""
_OF_SEVERAL = ("judges", "comparisons", "selection", "slices")
"""Parts of the statistics that are not of one judge."""
USUAL_RULES = "the product's own rules"
METHODS = tuple(FITTERS)
DEFAULT_METHOD = "logistic"


def measure(
    labelled: LabelledSet,
    split: Split,
    now: datetime,
    *,
    method: str | None = DEFAULT_METHOD,
    rules: Rules | None = None,
    measurement: str | None = None,
) -> "list[tuple[Calibration, dict[str, Any], FittedMap | None]]":
    """One calibration for each judge of a frozen set, with its figures and its map (None: no confidence to map).

    A map is fitted on the calibration split only, cross-fitted by group; `method` None fits none. Those of a named
    `measurement` have the ids that `calibration_id` gives. Raises Conflict for an open set and InvalidInput for a split
    without a labelled case.
    """
    version = labelled.version
    if version.content_hash is None:
        raise Conflict(
            f"The set {version.id} is not frozen, so nothing measured on it could be held against it later. Freeze it."
        )
    if method is not None and method not in METHODS:
        raise InvalidInput(fields=[FieldProblem("map", f"is none of {', '.join(METHODS)}")])
    if not labelled.dataset.labelled:
        raise InvalidInput(
            f"The split {split.value} of {version.id} holds no case with a final label.",
            fields=[FieldProblem("split", "holds no case with a final label")],
        )
    figures = set_statistics(labelled, rules)
    shared = {name: value for name, value in figures.items() if name not in _OF_SEVERAL}
    dataset = labelled.dataset.only(labelled.dataset.labelled)
    found = []
    for column, row in zip(dataset.columns, figures["judges"], strict=True):
        calibration = _calibration(labelled, dataset, column, row, split, now, measurement)
        fitted = None
        if method is not None and split is Split.CALIBRATION:
            fitted = fit(dataset, column, calibration, method, now)
        # By case, so that corrected shares can be estimated from the very pairs, grouped as they are.
        numbers = {group: number for number, group in enumerate(dict.fromkeys(dataset.groups))}
        pairs = {
            "uneven": dataset.weights is not None,
            "judge": dataset.predicted(column),
            "human": dataset.human,
            "group": [numbers[group] for group in dataset.groups],
        }
        record = {
            **shared,
            "pairs": pairs,
            "judge": row,
            "map": None if fitted is None else fitted.model_dump(mode="json"),
        }
        found.append((calibration, record, fitted))
    return found


def calibration_id(measurement: str, judge: str) -> str:
    """The id of what a measurement finds about a judge: the same in whichever process it is made."""
    return f"cal_{content_hash([measurement, judge])[:32]}"


def keep(
    store: Store,
    labelled: LabelledSet,
    split: Split,
    now: datetime,
    *,
    method: str | None = DEFAULT_METHOD,
    measurement: str | None = None,
) -> list[dict[str, Any]]:
    """Measure every judge of a frozen set and store it: later judgments carry it as trust. Raises what `measure` does.

    Gives each calibration as JSON with its `map` and `statistics`. The use of the split is recorded. A named
    `measurement` is stored once, also when several processes make it; without a name it is always a new one.
    """
    rows = []
    for calibration, figures, fitted in measure(labelled, split, now, method=method, measurement=measurement):
        # Where another process stored it, that one noted the use.
        if store.calibrations.get(calibration.id) is None:
            _note_use(store, calibration, tuned=fitted is not None)
        stored = store.calibrations.add(calibration, figures, fitted)
        rows.append(
            {
                **stored.model_dump(mode="json"),
                "map": None if fitted is None else fitted.model_dump(mode="json"),
                "statistics": figures,
            }
        )
    return rows


def _note_use(store: Store, calibration: Calibration, *, tuned: bool) -> None:
    set_id, name, judge_hash = calibration.set_id, calibration.judge, calibration.judge_hash
    if calibration.split is Split.RELEASE:
        store.sets.record_scores(set_id, {name: judge_hash}, USUAL_RULES)
        return
    for purpose in [UsePurpose.SCORED] + ([UsePurpose.TUNED] if tuned else []):
        store.sets.record_use(set_id, calibration.split, judge_hash, purpose, judge=name)


def once_on_release(store: Store, version: SetVersion, name: str, judge_hash: str | None, split: Split) -> None:
    """Raise Conflict when this configuration was scored before on a release split that shares a case with this one.

    A copy of the set, under a new version or another name, is no new test. `judge_hash` None: the judge was run
    elsewhere, and its newest run over the set says its hash.
    """
    if split is not Split.RELEASE:
        return
    hashes: tuple[str, ...] = () if judge_hash is None else (judge_hash,)
    if judge_hash is None:
        newest = [run for run in store.runs.of_source(source_of(version.id)) if run.judge.name == name][-1]
        hashes = judge_hashes(newest, (row.judge_hash for row in store.runs.rows(newest.id)))
    for one in hashes:
        earlier = store.sets.scored_before(version.id, one)
        if earlier is not None:
            raise store.sets.scored_twice(version.id, earlier, name)


def store_statistics(
    store: Store,
    reference: str,
    rules: Rules | None = None,
    *,
    rubric: str | None = None,
    judges: Sequence[str] = (),
    split: Split | None = None,
    by: Sequence[str] = (),
    where: str | None = None,
    shares: Sequence[str] = (),
    leave_out: Sequence[str] = (),
    again: bool = False,
) -> dict[str, Any]:
    """The figures of a set's judges; what they use of a frozen release split is recorded first.

    The release split is among the cases only where it is named: as `split`, or in `where` or `threshold_from`. Raises
    Conflict for a second look at it, unless `again` says that it is tuning.
    """
    named = {"split=release"} & {(text or "").replace(" ", "") for text in (where, rules and rules.threshold_from)}
    labelled = read_set(store, reference, rubric=rubric, judges=judges, split=split, release=bool(named))
    record_scored(store, labelled, rules, by=by, where=where, again=again, check=True)
    found = set_statistics(labelled, rules, by=by, where=where, shares=shares, leave_out=leave_out)
    # Before the figures are shown, and after they were found to be computable.
    record_scored(store, labelled, rules, by=by, where=where, again=again)
    return found


def record_scored(
    store: Store,
    labelled: LabelledSet,
    rules: Rules | None = None,
    *,
    by: Sequence[str] = (),
    where: str | None = None,
    again: bool = False,
    check: bool = False,
) -> None:
    """Note that judges were scored on a frozen set's release split: once for each configuration, under these rules.

    The same figures may be read again. Raises Conflict when a configuration was scored there under other rules, or on
    another version that shares cases; with `again` that is noted as tuning. A threshold that is chosen on release cases
    is tuning too. With `check` nothing is noted.
    """
    if labelled.version.status != "frozen" or Split.RELEASE not in labelled.splits:
        return
    release = [i for i, item in enumerate(labelled.dataset.items) if item.split is Split.RELEASE]
    if where is not None:
        kept = set(labelled.dataset.positions(where, "where"))
        release = [i for i in release if i in kept]
    said = rules_in_words(rules, by, where)
    judges: dict[str, str] = {}
    for column in labelled.dataset.columns:
        made = next((column.judgments[i] for i in release if column.judgments[i] is not None), None)
        if made is not None:
            judges[column.judge.name] = made.judge_hash
    version = labelled.version.id
    if check:
        for name, digest in judges.items():
            if not again and (earlier := store.sets.scored_before(version, digest, said)) is not None:
                raise store.sets.scored_twice(version, earlier, name)
        return
    store.sets.record_scores(version, judges, said, again=again)
    if rules is not None and rules.threshold_from is not None:
        chosen_on = labelled.dataset.positions(rules.threshold_from, "threshold_from")
        if any(labelled.dataset.items[i].split is Split.RELEASE for i in chosen_on):
            note = f"threshold from {rules.threshold_from}"
            store.sets.record_use(version, Split.RELEASE, None, UsePurpose.TUNED, note=note)


def rules_in_words(rules: Rules | None = None, by: Sequence[str] = (), where: str | None = None) -> str:
    """The choices behind figures: what may not be varied on a release split. How often is resampled is none."""
    usual = asdict(Rules())
    chosen = asdict(rules or Rules())
    words = [f"{name} {chosen[name]}" for name in usual if name not in ("resamples", "seed", "epsilon")]
    words = [word for word in words if word not in {f"{name} {usual[name]}" for name in usual}]
    words += [f"where {where}"] if where else []
    # The same slices in another order, or named twice, are the same look.
    words += [f"by {key}" for key in sorted(set(by))]
    return ", ".join(words) or USUAL_RULES


def _calibration(
    labelled: LabelledSet,
    dataset: Dataset,
    column: JudgeColumn,
    row: dict[str, Any],
    split: Split,
    now: datetime,
    measurement: str | None,
) -> Calibration:
    agreement = row["agreement"]
    raw = agreement["raw_agreement"]
    made = [judgment for judgment in column.judgments if judgment is not None]
    # A judge's own failures name the configured model, since no reply could name another.
    models = tuple(
        sorted({judgment.model for judgment in made if judgment.outcome in (Outcome.SCORED, Outcome.INCONSISTENT)})
    )
    position = row.get("position") or {}
    confidence = row.get("confidence") or {}
    weighed = dataset.weights is not None
    return Calibration(
        id=calibration_id(measurement or uuid.uuid4().hex, column.judge.name),
        rubric=dataset.rubric.id,
        rubric_hash=dataset.rubric.content_hash,
        judge=column.judge.name,
        judge_hash=row["judge_hash"],
        models=models,
        set_id=labelled.version.id,
        set_hash=labelled.version.content_hash or "",
        split=split,
        runs=labelled.runs[column.judge.name],
        n=row["n"],
        groups=len(set(dataset.groups)),
        shortcoming=shortcoming(dataset, models, raw, split, row["effective_n"] if weighed else None),
        agreement=raw["value"],
        agreement_low=raw["low"],
        agreement_high=raw["high"],
        kappa=agreement["cohen_kappa"]["value"],
        position_consistency=position["consistency"]["value"] if position else None,
        ece=confidence["ece"]["value"] if confidence else None,
        effective_n=row["effective_n"] if weighed else None,
        created_at=now,
    )


def shortcoming(
    dataset: Dataset,
    models: Sequence[str],
    raw: dict[str, Any],
    split: Split = Split.CALIBRATION,
    effective_n: float | None = None,
) -> str | None:
    """Why these labels and judgments support no trust in the judge; None when they do.

    Cases that were drawn unevenly count as the `effective_n` evenly drawn ones that would be as sure.
    """
    if split is Split.DEVELOPMENT:
        return "Measured on the development split, on which prompts and thresholds are chosen: that is no evidence."
    n = len(dataset.human)
    groups = len(set(dataset.groups))
    classes = Counter(dataset.human).most_common(2)
    if n < ENOUGH_LABELS:
        return f"{n} labelled cases; at least {ENOUGH_LABELS} are needed."
    if effective_n is not None and effective_n < ENOUGH_LABELS:
        return (
            f"{n} labelled cases that were drawn unevenly, as sure as {floor(effective_n)} evenly drawn ones; at least "
            f"{ENOUGH_LABELS} of those are needed."
        )
    if groups < MIN_GROUPS:
        return f"{groups} independent groups of cases; at least {MIN_GROUPS} are needed."
    if len(classes) < 2 or classes[1][1] < ENOUGH_OF_CLASS:
        least = classes[1][1] if len(classes) > 1 else 0
        return f"{least} labelled cases of the second class; at least {ENOUGH_OF_CLASS} are needed."
    if not models:
        return "The judge gave no verdict on any case."
    if len(models) > 1:
        return f"Several judge models answered ({', '.join(models)}); one measurement is of one model."
    if raw["low"] is None:
        return f"The agreement has no interval: {raw.get('interval_reason') or raw['undefined_reason']}."
    return None


def fit(
    dataset: Dataset, column: JudgeColumn, calibration: Calibration, method: str, now: datetime
) -> FittedMap | None:
    """The judge's map of confidences, or the refusal with its reason; None where the judge states no confidence."""
    stated = [j.confidence for j in column.judgments if j is not None and j.confidence is not None]
    if not stated:
        return None
    sources = Counter(confidence.source for confidence in stated)
    source = sources.most_common(1)[0][0]
    labels = PairedLabels.of(dataset.predicted(column), dataset.human, dataset.rubric.scale.names)
    groups = dataset.groups
    confidences = dataset.confidences(column)
    forecasts = Forecasts.of(confidences, labels.judge == labels.human, groups=groups)
    if dataset.weights is not None:
        refused: str | None = (
            "The labelled cases were drawn with unequal probabilities: a map of their confidences would not be one of "
            "the cases they were drawn from."
        )
        result = None
    elif len(sources) > 1:
        refused = f"The confidences come from several sources: {', '.join(sorted(sources))}."
        result = None
    elif method == "temperature" and len(dataset.rubric.scale.names) > 2:
        refused = "A temperature keeps 0.5 fixed, which is wrong for more than two labels: choose logistic."
        result = None
    else:
        kept = list(forecasts.groups or ())
        grouped = len(set(kept)) < len(kept)
        resampler = Resampler(len(forecasts), kept) if grouped and len(forecasts) else None
        result = cross_fit(forecasts, method, resampler=resampler)
        refused = None
        if result.undefined_reason is Reason.TOO_FEW_LABELS:
            refused = f"{len(forecasts)} labelled cases with a confidence; {method} needs {MIN_CASES[method]}."
        elif result.undefined_reason is not None:
            refused = f"It cannot be fitted: {REASON_TEXT[result.undefined_reason]}."
        elif not result.kept:
            refused = "Out of fold it does not improve the log loss: the interval of the improvement is not above 0."
    used = result.map if result is not None and refused is None else None
    parameters = {} if used is None else dict(used.parameters)
    named = [calibration.id, source.value, method, parameters]
    return FittedMap(
        id=f"map_{content_hash(named)[:16]}",
        calibration_id=calibration.id,
        source=source,
        wanted=method,
        method="identity" if used is None else used.method,
        parameters=parameters,
        n=len(forecasts),
        refused=refused,
        quality={} if result is None else result.to_dict(),
        created_at=now,
    )
