"""Everything that is measured about judges on a labelled set, under the names that docs/statistics lists.

Owns which figures belong together, the rules that may be chosen (`Rules`) and the shape of the result. The formulas are
`calibration`'s; how records become arrays is `dataset`'s. Failed cases stay in every denominator.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Literal

from calibration import bias, probability, raters, repeats, selective
from calibration.agreement import Agreement, PairedLabels
from calibration.agreement_table import agreement_row
from calibration.annotator_test import alternative_annotator_test
from calibration.confidence import Forecasts
from calibration.estimate import Estimate, Reason, plain
from calibration.headline import headline
from calibration.intervals import proportion
from calibration.power import labels_for_half_width, tier
from calibration.resample import DEFAULT_RESAMPLES, DEFAULT_SEED, Resampler, share
from judge_service.domain.outcome import Outcome
from judge_service.errors import FieldProblem, InvalidInput
from judge_service.reports.dataset import Dataset, JudgeColumn, ended, slice_of
from judge_service.reports.labelled_set import LabelledSet
from judge_service.reports.shares import shares as shares_of

FORMAT = "set-statistics/1"
SELECTING = 100
"""Labels below which no threshold is usable."""
THRESHOLDS = tuple(step / 100 for step in range(50, 100, 5))
"""The thresholds of confidence among which the usable one is looked for: fixed before any label is seen."""
MOST_ANNOTATORS = 12
"""Annotators compared in pairs: those with the most labels."""
HALF_WIDTH = 0.05
LENGTH_UNIT = "words: runs of characters without white space"


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules on which sources differ. The first value of each is the product's own.

    `failures`: a case without a verdict is `wrong`, or counts as a `tie`, or is `left_out`. `inconsistent`: a pair
    whose orders disagree does `not_agree`, or counts as a `tie`. `positive` is the label that a threshold decides
    about (the last of an ordered scale by default); the threshold with the best F1 is chosen on the cases of
    `threshold_from` (`key=value`), else on the cases themselves. `target` is the agreement that a usable threshold of
    confidence must reach. `epsilon` is that of the annotator test.
    """

    failures: Literal["wrong", "tie", "left_out"] = "wrong"
    inconsistent: Literal["not_agree", "tie"] = "not_agree"
    positive: str | None = None
    threshold_from: str | None = None
    target: float = 0.9
    epsilon: float = 0.15
    resamples: int = DEFAULT_RESAMPLES
    seed: int = DEFAULT_SEED


def statistics(
    dataset: Dataset,
    rules: Rules | None = None,
    *,
    by: Sequence[str] = (),
    where: str | None = None,
    shares: Sequence[str] = (),
    leave_out: Sequence[str] = (),
) -> dict[str, Any]:
    """Every figure of every judge of `dataset`, JSON-ready; `by` names metadata keys to show slices of.

    `shares` names what to count over all cases, labelled or not, without the values of `leave_out` in denominators.

    `where` (`key=value`) narrows the cases; the threshold of another part may still be taken from outside it. Raises
    InvalidInput for a rule that does not fit the rubric.
    """
    chosen = rules or Rules()
    _check(dataset, chosen)
    whole = dataset
    if where is not None:
        dataset = dataset.narrowed(*_pair(where, "where"))
        if not dataset.items:
            raise InvalidInput(fields=[FieldProblem("where", f"no case has {where}")])
    tuned = None if chosen.threshold_from is None else whole.narrowed(*_pair(chosen.threshold_from, "threshold_from"))
    labelled = dataset.only(dataset.labelled)
    return {
        "format": FORMAT,
        "rubric": dataset.rubric.id,
        "rubric_hash": dataset.rubric.content_hash,
        "kind": dataset.rubric.kind,
        "classes": list(dataset.rubric.scale.names),
        "ordered": dataset.rubric.scale.ordered,
        "rules": asdict(chosen),
        "n_cases": len(dataset.items),
        "n_labelled": len(labelled.items),
        "n_groups": len(set(labelled.groups)),
        "tier": tier(len(labelled.items)),
        "humans": human_figures(labelled, chosen),
        "judges": [
            judge_figures(labelled, column, chosen, unlabelled=_outside(dataset, place), tuned=_column(tuned, place))
            for place, column in enumerate(labelled.columns)
        ],
        "slices": {key: _slices(dataset, labelled, key, chosen) for key in by},
        "shares": shares_of(dataset, shares, by=by, leave_out=leave_out, resamples=chosen.resamples, seed=chosen.seed),
    }


def _pair(text: str, field: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise InvalidInput(fields=[FieldProblem(field, f"{text!r} is not KEY=VALUE")])
    return key.strip(), value.strip()


def _check(dataset: Dataset, rules: Rules) -> None:
    names = dataset.rubric.scale.names
    for field, value in (("failures", rules.failures), ("inconsistent", rules.inconsistent)):
        if value == "tie" and "tie" not in names:
            raise InvalidInput(fields=[FieldProblem(field, f"{dataset.rubric.id} has no label `tie`")])
    if rules.positive is not None and rules.positive not in names:
        raise InvalidInput(fields=[FieldProblem("positive", f"is none of {', '.join(names)}")])
    if not 0 < rules.target < 1:
        raise InvalidInput(fields=[FieldProblem("target", "must lie between 0 and 1")])


def _outside(dataset: Dataset, place: int) -> int:
    column = dataset.columns[place]
    return sum(judgment is not None for judgment in column.judgments) - sum(
        column.judgments[i] is not None for i in dataset.labelled
    )


def _column(tuned: Dataset | None, place: int) -> tuple[Dataset, JudgeColumn] | None:
    return None if tuned is None else (tuned, tuned.columns[place])


def _resampler(dataset: Dataset, rules: Rules) -> Resampler:
    return Resampler(len(dataset.labelled), dataset.groups, resamples=rules.resamples, seed=rules.seed)


def human_figures(dataset: Dataset, rules: Rules) -> dict[str, Any]:
    """Agreement among the annotators: the ceiling over pairs of votes, alpha, AC1, Fleiss' kappa, pairs of annotators.

    `labels` has the share of every label. `ceiling` is null below 30 cases with two votes: no ceiling is known then.
    """
    items = [dataset.items[i] for i in dataset.labelled]
    classes = dataset.rubric.scale.names
    resampler = _resampler(dataset, rules)
    cast = [list(item.votes.values()) for item in items]
    counts = Counter(annotator for item in items for annotator in item.votes)
    names = [name for name, _ in sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))]
    rows = [[item.votes.get(name) for item in items] for name in sorted(names)]
    doubled = [votes for votes in cast if len(votes) >= 2]
    figures: dict[str, Any] = {
        "annotators": len(names),
        "labels": _label_shares(dataset.human, classes, resampler),
        "cases_with_two_votes": len(doubled),
        "unanimous": sum(len(set(votes)) == 1 for votes in doubled),
        "all_different": sum(len(set(votes)) == len(votes) for votes in doubled if len(votes) > 2),
        "ceiling": raters.human_ceiling(cast, resampler=resampler),
    }
    if names:
        metric = "ordinal" if dataset.rubric.scale.ordered else "nominal"
        table = [[votes.count(label) for label in classes] for votes in cast if votes]
        figures["krippendorff_alpha_nominal"] = raters.alpha(rows, classes=classes, resampler=resampler)
        if metric == "ordinal":
            figures["krippendorff_alpha_ordinal"] = raters.alpha(rows, "ordinal", classes=classes, resampler=resampler)
        figures["gwet_ac1"] = raters.ac1(rows, classes=classes, resampler=resampler)
        of_voted = resampler if len(table) == len(items) else None
        figures["fleiss_kappa"] = raters.fleiss_kappa(table, resampler=of_voted)
        compared = sorted(names[:MOST_ANNOTATORS])
        pairs = raters.pairwise([[item.votes.get(name) for item in items] for name in compared], classes)
        figures["pairs"] = [
            {"annotators": [compared[i], compared[j]], **figures_of} for (i, j), figures_of in pairs.items()
        ]
    return _json(figures)


def _label_shares(labels: Sequence[str | None], classes: Sequence[str], resampler: Resampler) -> dict[str, Estimate]:
    import numpy as np

    return {
        label: share(np.array([value == label for value in labels], dtype=bool), None, resampler) for label in classes
    }


def judge_figures(
    dataset: Dataset,
    column: JudgeColumn,
    rules: Rules,
    *,
    unlabelled: int = 0,
    tuned: tuple[Dataset, JudgeColumn] | None = None,
) -> dict[str, Any]:
    """Every figure of one judge over the labelled cases of `dataset`."""
    n = len(dataset.human)
    made = [judgment for judgment in column.judgments if judgment is not None]
    models = Counter(judgment.model for judgment in made if judgment.outcome is not Outcome.JUDGE_ERROR)
    row: dict[str, Any] = {
        "judge": column.judge.name,
        "backend": column.judge.backend,
        "baseline": column.baseline,
        "judge_hash": made[0].judge_hash if made else column.judge.content_hash,
        "models": [name for name, _ in models.most_common()],
        "n": n,
        "tier": tier(n),
        "unlabelled_judgments": unlabelled,
        **_core(dataset, column, rules),
        "failures": _failures(dataset, column),
        "votes": _votes(dataset, column, rules),
        "repeats": _repeats(dataset, column, rules),
        "thresholds": _thresholds(dataset, column, rules, tuned),
        "cost": cost(column),
    }
    raw = row["agreement"]["raw_agreement"]["value"]
    if raw is not None:
        row["labels_needed"] = labels_for_half_width(raw, HALF_WIDTH).to_dict()
    if dataset.rubric.kind == "pairwise":
        row["length"] = _length(dataset, column, rules)
    return row


def _core(dataset: Dataset, column: JudgeColumn, rules: Rules) -> dict[str, Any]:
    """Agreement, position and confidence: what is shown for the whole and for every slice."""
    scale = dataset.rubric.scale
    said = _said(dataset, column, rules.failures, rules.inconsistent)
    kept = [i for i, label in enumerate(said) if label is not None or rules.failures != "left_out"]
    human, groups = dataset.human, dataset.groups
    labels = PairedLabels.of(
        [said[i] for i in kept],
        [human[i] for i in kept],
        scale.names,
        groups=[groups[i] for i in kept],
        ordered=scale.ordered,
    )
    options: dict[str, Any] = {}
    sources = Counter(
        judgment.confidence.source
        for judgment in column.judgments
        if judgment is not None and judgment.confidence is not None
    )
    if sources:
        stated = _of_source(dataset, column, sources.most_common(1)[0][0])
        options["confidence"] = [stated[i] for i in kept]
    orders = None
    if dataset.rubric.kind == "pairwise":
        ab, ba = dataset.orders(column, only_labelled=True)
        chance_ab, chance_ba = dataset.probabilities_a(column)
        if column.single_order:
            # Which order was asked is drawn or fixed; one verdict a case says nothing about position.
            ab, ba = [first if first is not None else second for first, second in zip(ab, ba, strict=True)], []
        options["order_ab"] = [ab[i] for i in kept]
        options["order_ba"] = [ba[i] for i in kept] if ba else None
        if any(chance is not None for chance in chance_ab) and ba:
            options["prob_a_ab"] = [chance_ab[i] for i in kept]
            options["prob_a_ba"] = [chance_ba[i] for i in kept]
        orders = _orders(dataset, column, rules)
    figures = headline(labels, resamples=rules.resamples, seed=rules.seed, **options).to_dict()
    core = {
        **{name: value for name, value in figures.items() if name not in ("n", "tier")},
        "confusion": confusion(labels),
        "labels": _json(_label_shares(said, scale.names, _resampler(dataset, rules))),
        "outcomes": dict(ended([column.judgments[i] for i in dataset.labelled])),
        "rules": _rule_values(dataset, column, rules),
    }
    if orders is not None:
        core["orders"] = orders
    if sources:
        core["confidence_source"] = sources.most_common(1)[0][0].value
        core["thresholds_of_confidence"] = _usable(dataset, labels, options["confidence"], rules)
    return core


def _said(dataset: Dataset, column: JudgeColumn, failures: str, inconsistent: str) -> list[str | None]:
    """The judge's label of each labelled case under the rules; None where the case has no usable verdict."""
    said = dataset.predicted(column)
    for place, why in enumerate(dataset.failures(column)):
        if why == Outcome.INCONSISTENT.value:
            said[place] = "tie" if inconsistent == "tie" else None
        elif why is not None:
            said[place] = "tie" if failures == "tie" else None
    return said


def _of_source(dataset: Dataset, column: JudgeColumn, source: object) -> list[float | None]:
    """Confidences of one source only: two kinds are never mixed in one figure."""
    values = dataset.confidences(column)
    for place, i in enumerate(dataset.labelled):
        judgment = column.judgments[i]
        if judgment is None or judgment.confidence is None or judgment.confidence.source is not source:
            values[place] = None
    return values


def confusion(labels: PairedLabels) -> dict[str, Any]:
    """Counts: `table` has a row for each of the judge's labels and a column for each human one; `failed` by human."""
    counts = Agreement(labels).counts
    return {"classes": list(labels.classes), "table": counts[:-1].tolist(), "failed": counts[-1].tolist()}


def _orders(dataset: Dataset, column: JudgeColumn, rules: Rules) -> dict[str, Any]:
    """The figures of each order as published tables have them, in percent: see docs/statistics/agreement.md."""
    ab, ba = dataset.orders(column, only_labelled=True)
    policy = column.judge.order_policy.value
    drawn = policy == "single_drawn"
    row = agreement_row(
        dataset.human,
        [] if policy == "single_ba" or drawn else ab,
        [] if policy == "single_ab" or drawn else ba,
        clusters=dataset.groups,
        resamples=rules.resamples,
        seed=rules.seed,
    )
    flat = row.to_dict()
    for name in ("group", "judge", "strategy"):
        del flat[name]
    return flat


def _rule_values(dataset: Dataset, column: JudgeColumn, rules: Rules) -> dict[str, Any]:
    """The same agreement under each value of a rule, so that a source's figure stands beside the product's."""
    scale = dataset.rubric.scale
    tie = "tie" in scale.names
    found: dict[str, Any] = {"failures": {}, "inconsistent": {}}
    resampler = _resampler(dataset, rules)
    why = dataset.failures(column)
    failed = any(reason not in (None, Outcome.INCONSISTENT.value) for reason in why)
    split = any(reason == Outcome.INCONSISTENT.value for reason in why)
    variants = [("failures", "wrong", "not_agree")]
    if tie:
        variants.append(("failures", "tie", "not_agree"))
    variants.append(("failures", "left_out", "not_agree"))
    variants += [("inconsistent", "wrong", "not_agree")]
    if tie:
        variants.append(("inconsistent", "wrong", "tie"))
    for rule, failures, inconsistent in variants:
        if not (failed if rule == "failures" else split):
            continue
        said = _said(dataset, column, failures, inconsistent)
        labels = PairedLabels.of(said, dataset.human, scale.names, groups=dataset.groups, ordered=scale.ordered)
        agreement = Agreement(labels, resampler)
        out = failures == "left_out"
        figures: dict[str, Any] = {
            "accuracy": agreement.raw_valid() if out else agreement.raw(),
            "cohen_kappa": agreement.kappa(),
            **agreement.macro(failures="left_out" if out else "wrong"),
        }
        found[rule][failures if rule == "failures" else inconsistent] = _json(figures)
    return {rule: values for rule, values in found.items() if values}


def _failures(dataset: Dataset, column: JudgeColumn) -> dict[str, Any]:
    """The rate of every way in which a labelled case ended without a verdict, over all labelled cases."""
    n = len(dataset.human)
    counts = Counter(why for why in dataset.failures(column) if why is not None)
    total = sum(counts.values())
    return {
        "all": proportion(total, n).to_dict(),
        **{why: proportion(count, n).to_dict() for why, count in sorted(counts.items())},
    }


def _votes(dataset: Dataset, column: JudgeColumn, rules: Rules) -> dict[str, Any] | None:
    """The judge against single human votes (like the ceiling, vote against vote), and the annotator test."""
    items = [dataset.items[i] for i in dataset.labelled]
    cast = [list(item.votes.values()) for item in items]
    if not any(cast):
        return None
    said = _said(dataset, column, "wrong", "tie" if "tie" in dataset.rubric.scale.names else "not_agree")
    figures = raters.votes(said, cast, resampler=_resampler(dataset, rules))
    found = _json({name: figures[name] for name in ("judge_s1", "judge_s2")})
    if "tie" not in dataset.rubric.scale.names:
        del found["judge_s2"]
    annotators = sorted({name for item in items for name in item.votes})
    if 2 <= len(annotators) <= MOST_ANNOTATORS:
        test = alternative_annotator_test(
            [[item.votes.get(name) for item in items] for name in annotators],
            dataset.predicted(column),
            epsilon=rules.epsilon,
            groups=dataset.groups,
        )
        found["annotator_test"] = {
            "rho": test.rho.to_dict(),
            "omega": test.omega.to_dict(),
            "passed": test.passed,
            "epsilon": test.epsilon,
            "flags": list(test.flags),
            "annotators": [
                {
                    "annotator": annotators[row.annotator],
                    "advantage": row.advantage.to_dict(),
                    "p_value": row.p_value.to_dict(),
                    "rejected": row.rejected,
                }
                for row in test.annotators
            ],
        }
    return found


def _repeats(dataset: Dataset, column: JudgeColumn, rules: Rules) -> dict[str, Any]:
    """Stability over the judge's own repeats; null `n_below_2` for a judge that asks once."""
    verdicts = dataset.repeats(column)
    resampler = _resampler(dataset, rules)
    return _json(
        {
            "repetition_stability": repeats.repetition_stability(verdicts, resampler=resampler),
            "all_identical_rate": repeats.all_identical_rate(verdicts, resampler=resampler),
            "pairwise_repeat_agreement": repeats.pairwise_repeat_agreement(verdicts, resampler=resampler),
        }
    )


def _usable(dataset: Dataset, labels: PairedLabels, confidence: Sequence[float | None], rules: Rules) -> dict[str, Any]:
    """Where to cut the confidence for a target agreement: descriptive, and with a guarantee from 100 labels on."""
    groups = None if labels.groups is None else list(labels.groups)
    stated = [value if known else None for value, known in zip(confidence, labels.known, strict=True)]
    forecasts = Forecasts.of(stated, labels.judge == labels.human, groups=groups)
    if len(labels) < SELECTING:
        usable = Estimate.undefined(Reason.TOO_FEW_LABELS, len(labels), "guaranteed_threshold")
    else:
        usable = selective.guaranteed_threshold(forecasts, THRESHOLDS, rules.target)
    return _json(
        {
            "target": rules.target,
            "usable_threshold": usable,
            "lowest_threshold": selective.lowest_threshold(forecasts, rules.target),
        }
    )


def _length(dataset: Dataset, column: JudgeColumn, rules: Rules) -> dict[str, Any]:
    """Preference for the longer answer, against the humans' own, and the regression on the length ratio."""
    inputs = [dataset.rubric.case_model.model_validate(dataset.items[i].case.input) for i in dataset.labelled]
    len_a = [len(str(getattr(case, "response_a", "")).split()) for case in inputs]
    len_b = [len(str(getattr(case, "response_b", "")).split()) for case in inputs]
    said, human = dataset.predicted(column), dataset.human
    figures = bias.length_preference(said, human, len_a, len_b, resampler=_resampler(dataset, rules))
    groups = dataset.groups
    regression = bias.length_regression(
        said, human, len_a, len_b, groups=groups if len(set(groups)) < len(groups) else None
    )
    return {
        "unit": LENGTH_UNIT,
        **_json(figures),
        "regression": _json({"n": regression.n, **regression.coefficients}),
    }


def _thresholds(
    dataset: Dataset, column: JudgeColumn, rules: Rules, tuned: tuple[Dataset, JudgeColumn] | None
) -> dict[str, Any] | None:
    """One label against the rest by "score > threshold": at 0.5, and at the first threshold with the best F1.

    The score is the probability of the label where the judge gives one, else the judgment's score. Null for rubrics
    without an ordered scale, where no `positive` was named.
    """
    scale = dataset.rubric.scale
    if rules.positive is None and not scale.ordered:
        return None
    positive = rules.positive or (scale.names[-1] if scale.higher_is_better else scale.names[0])
    scores, truth = dataset.scores(column, positive), [label == positive for label in dataset.human]
    known = [i for i, score in enumerate(scores) if score is not None]
    if not known:
        return None
    values = [float(scores[i] or 0.0) for i in known]
    outcome = [truth[i] for i in known]
    if tuned is None:
        chosen = selective.threshold_by_f1(values, outcome)
        source = "the cases themselves, so it is optimistic"
    else:
        other, theirs = tuned
        pairs = [
            (score, label == positive)
            for score, label in zip(other.scores(theirs, positive), other.human, strict=True)
            if score is not None
        ]
        chosen = selective.threshold_by_f1([score for score, _ in pairs], [right for _, right in pairs])
        source = f"the {len(pairs)} cases with {rules.threshold_from}"
    resampler = _resampler(dataset, rules)
    found: dict[str, Any] = {
        "positive": positive,
        "score": "probability" if column.probabilistic else "score",
        "without_score": len(scores) - len(known),
        "best_f1_chosen_on": source,
        "above_0.5": _cut(dataset, scores, truth, 0.5, resampler),
        "best_f1": None if chosen.value is None else _cut(dataset, scores, truth, chosen.value, resampler),
    }
    forecasts = Forecasts.of(values, outcome)
    of_known = Resampler(len(known), [dataset.groups[i] for i in known], resamples=rules.resamples, seed=rules.seed)
    found["auroc"] = probability.auroc(forecasts, resampler=of_known)
    if column.probabilistic:
        found["brier"] = probability.brier(forecasts, resampler=of_known)
        verdict = Forecasts.of(
            [max(value, 1 - value) for value in values],
            [(value > 0.5) == right for value, right in zip(values, outcome, strict=True)],
        )
        for bins in (10, 15):
            found[f"ece_{bins}_bins"] = probability.ece(forecasts, bins)
            found[f"ece_of_verdict_{bins}_bins"] = probability.ece(verdict, bins)
    return _json(found)


def _cut(
    dataset: Dataset, scores: Sequence[float | None], truth: Sequence[bool], cut: float, resampler: Resampler
) -> dict[str, Any]:
    said = [None if score is None else "yes" if score > cut else "no" for score in scores]
    labels = PairedLabels.of(said, ["yes" if right else "no" for right in truth], ("no", "yes"), groups=dataset.groups)
    agreement = Agreement(labels, resampler)
    rates = agreement.per_class()["yes"]
    return {
        "threshold": cut,
        "accuracy": agreement.raw(),
        "f1": agreement.f1("yes"),
        "cohen_kappa": agreement.kappa(),
        "precision": rates["precision"],
        "recall": rates["tpr"],
    }


def _slices(whole: Dataset, dataset: Dataset, key: str, rules: Rules) -> list[dict[str, Any]]:
    """The core figures of each value of a metadata key, with its own n and tier; no verdict below 30."""
    values = dataset.slices(key)
    without = sum(slice_of(item, key) is None for item in dataset.items)
    if not values and (dataset.items or all(slice_of(item, key) is None for item in whole.items)):
        which = "labelled case" if dataset.items else "case"
        raise InvalidInput(fields=[FieldProblem("by", f"no {which} has metadata {key!r}")])
    rows = []
    for value in values:
        part = dataset.narrowed(key, value)
        n = len(part.labelled)
        rows.append(
            {
                "key": key,
                "value": value,
                "n": n,
                "without_key": without,
                "tier": tier(n),
                "humans": human_figures(part, rules),
                "judges": [
                    {"judge": column.judge.name, "n": n, **_core(part, column, rules)} for column in part.columns
                ],
            }
        )
    return rows


def cost(column: JudgeColumn) -> dict[str, Any]:
    """Calls, tokens, US dollars and latency of a judge; null where nothing is known."""
    made = [judgment for judgment in column.judgments if judgment is not None]
    seconds = sorted(judgment.latency_ms / 1000 for judgment in made)
    known = [judgment.usage.cost_usd for judgment in made if judgment.usage.cost_usd is not None]
    return {
        "calls": sum(len(judgment.calls) for judgment in made),
        "prompt_tokens": _total([judgment.usage.prompt_tokens for judgment in made]),
        "completion_tokens": _total([judgment.usage.completion_tokens for judgment in made]),
        "cost_usd": sum(known) if known else None,
        "cost_known_for": len(known),
        "seconds_median": median(seconds) if seconds else None,
        "seconds_slowest": seconds[-1] if seconds else None,
    }


def _total(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _json(figures: Mapping[str, Any]) -> dict[str, Any]:
    return {name: plain(value) for name, value in figures.items()}


def set_statistics(
    labelled: LabelledSet,
    rules: Rules | None = None,
    *,
    by: Sequence[str] = (),
    where: str | None = None,
    shares: Sequence[str] = (),
    leave_out: Sequence[str] = (),
) -> dict[str, Any]:
    """`statistics` of a set with what it is: version, splits, how its labels came about, the runs behind each judge."""
    version = labelled.version
    return {
        "set": {
            "id": version.id,
            "status": version.status,
            "content_hash": version.content_hash,
            "splits": [split.value for split in labelled.splits],
            "labels": dict(labelled.labels),
            "where": where,
            "runs": {name: list(ids) for name, ids in labelled.runs.items()},
            "runs_left_out": list(labelled.left_out),
        },
        **statistics(labelled.dataset, rules, by=by, where=where, shares=shares, leave_out=leave_out),
    }
