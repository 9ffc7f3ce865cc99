"""Every figure of one judge over the labelled cases of a set. Owns which figures belong together and their names.

The formulas are `calibration`'s. Failed cases stay in every denominator.
"""

from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import Any

from calibration import bias, raters, repeats
from calibration.agreement import Agreement, PairedLabels
from calibration.agreement_table import agreement_row
from calibration.annotator_test import alternative_annotator_test
from calibration.headline import headline
from calibration.intervals import proportion
from calibration.power import labels_for_half_width, tier
from calibration.resample import Resampler, joint_types
from judge_service.domain.outcome import Outcome
from judge_service.reports.dataset import Dataset, JudgeColumn, ended, key_value
from judge_service.reports.families import judge_family, own_side
from judge_service.reports.humans import MOST_ANNOTATORS, as_json, label_shares
from judge_service.reports.rules import Rules
from judge_service.reports.thresholds import thresholds, thresholds_of_confidence

HALF_WIDTH = 0.05
LENGTH_UNIT = "words: runs of characters without white space"


def judge_figures(
    dataset: Dataset,
    column: JudgeColumn,
    rules: Rules,
    resampler: Resampler,
    *,
    unlabelled: int = 0,
    tuned: tuple[Dataset, JudgeColumn] | None = None,
) -> dict[str, Any]:
    """Every figure of one judge over the labelled cases of `dataset`, which `resampler` draws."""
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
        "tier": tier(dataset.effective_n),
        "unlabelled_judgments": unlabelled,
        **core_figures(dataset, column, rules, resampler),
        "failures": _failures(dataset, column),
        "votes": _votes(dataset, column, rules, resampler),
        "repeats": _repeats(dataset, column, resampler),
        "thresholds": thresholds(dataset, column, rules, resampler, tuned),
        "cost": cost(column),
    }
    raw = row["agreement"]["raw_agreement"]["value"]
    if raw is not None:
        row["labels_needed"] = labels_for_half_width(raw, HALF_WIDTH).to_dict()
    if dataset.rubric.kind == "pairwise":
        row["length"] = _length(dataset, column, resampler)
        row["self_preference"] = _self_preference(dataset, column, rules, resampler)
    return row


def core_figures(dataset: Dataset, column: JudgeColumn, rules: Rules, resampler: Resampler) -> dict[str, Any]:
    """Agreement, position and confidence: what is shown for the whole and for every slice."""
    pairwise = dataset.rubric.kind == "pairwise"
    ab, ba = dataset.orders(column, only_labelled=True) if pairwise else ([], [])
    alike: list[Sequence[str | None]] = [dataset.human, dataset.predicted(column), dataset.failures(column)]
    alike += [ab, ba] if pairwise else []
    # Cases that no figure here tells apart: counted once for all of them.
    resampler = resampler.with_types(joint_types(*alike))
    scale = dataset.rubric.scale
    said = labels_said(dataset, column, rules.failures, rules.inconsistent)
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
    if pairwise:
        orders = _orders(dataset, column, ab, ba, resampler)
        chance_ab, chance_ba = dataset.probabilities_a(column)
        if column.single_order:
            # Which order was asked is drawn or fixed; one verdict a case says nothing about position.
            ab, ba = [first if first is not None else second for first, second in zip(ab, ba, strict=True)], []
        options["order_ab"] = [ab[i] for i in kept]
        options["order_ba"] = [ba[i] for i in kept] if ba else None
        if any(chance is not None for chance in chance_ab) and ba:
            options["prob_a_ab"] = [chance_ab[i] for i in kept]
            options["prob_a_ba"] = [chance_ba[i] for i in kept]
    if len(kept) == len(said):
        options["resampler"] = resampler
    elif resampler.weights is not None:
        options["weights"] = resampler.weights[kept]
    figures = headline(labels, resamples=rules.resamples, seed=rules.seed, **options).to_dict()
    agreement = figures["agreement"]["raw_agreement"]
    core = {
        "effective_n": agreement.get("details", {}).get("effective_n"),
        **{name: value for name, value in figures.items() if name not in ("n", "tier")},
        "confusion": confusion(labels),
        "labels": as_json(label_shares(said, scale.names, resampler)),
        "outcomes": dict(ended([column.judgments[i] for i in dataset.labelled])),
        "rules": _rule_values(dataset, column, resampler),
    }
    if orders is not None:
        core["orders"] = orders
    if sources:
        core["confidence_source"] = sources.most_common(1)[0][0].value
        core["thresholds_of_confidence"] = thresholds_of_confidence(
            dataset, labels, options["confidence"], rules, dataset.weights is not None
        )
    return core


def labels_said(dataset: Dataset, column: JudgeColumn, failures: str, inconsistent: str) -> list[str | None]:
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


def _orders(
    dataset: Dataset,
    column: JudgeColumn,
    ab: Sequence[str | None],
    ba: Sequence[str | None],
    resampler: Resampler,
) -> dict[str, Any]:
    """The figures of each order as published tables have them, in percent: see docs/statistics/agreement.md."""
    policy = column.judge.order_policy.value
    drawn = policy == "single_drawn"
    row = agreement_row(
        dataset.human,
        [] if policy == "single_ba" or drawn else ab,
        [] if policy == "single_ab" or drawn else ba,
        # Published tables count each case once, and so do these.
        resampler=resampler.unweighted(),
    )
    flat = row.to_dict()
    for name in ("group", "judge", "strategy"):
        del flat[name]
    return flat


def _rule_values(dataset: Dataset, column: JudgeColumn, resampler: Resampler) -> dict[str, Any]:
    """The same agreement under each value of a rule, so that a source's figure stands beside the product's."""
    scale = dataset.rubric.scale
    tie = "tie" in scale.names
    found: dict[str, Any] = {"failures": {}, "inconsistent": {}}
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
    known: dict[tuple[str, str], dict[str, Any]] = {}
    for rule, failures, inconsistent in variants:
        if not (failed if rule == "failures" else split):
            continue
        if (failures, inconsistent) not in known:
            said = labels_said(dataset, column, failures, inconsistent)
            labels = PairedLabels.of(said, dataset.human, scale.names, groups=dataset.groups, ordered=scale.ordered)
            agreement = Agreement(labels, resampler)
            out = failures == "left_out"
            figures: dict[str, Any] = {
                "accuracy": agreement.raw_valid() if out else agreement.raw(),
                "cohen_kappa": agreement.kappa(),
                **agreement.macro(failures="left_out" if out else "wrong"),
            }
            known[failures, inconsistent] = as_json(figures)
        found[rule][failures if rule == "failures" else inconsistent] = dict(known[failures, inconsistent])
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


def _votes(dataset: Dataset, column: JudgeColumn, rules: Rules, resampler: Resampler) -> dict[str, Any] | None:
    """The judge against single human votes (like the ceiling, vote against vote), and the annotator test."""
    items = [dataset.items[i] for i in dataset.labelled]
    cast = [list(item.votes.values()) for item in items]
    if not any(cast):
        return None
    said = labels_said(dataset, column, "wrong", "tie" if "tie" in dataset.rubric.scale.names else "not_agree")
    alike = resampler.with_types(joint_types(said, [tuple(sorted(votes)) for votes in cast]))
    figures = raters.votes(said, cast, resampler=alike)
    found = as_json({name: figures[name] for name in ("judge_s1", "judge_s2")})
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


def _repeats(dataset: Dataset, column: JudgeColumn, resampler: Resampler) -> dict[str, Any]:
    """Stability over the judge's own repeats; null `n_below_2` for a judge that asks once."""
    verdicts = dataset.repeats(column)
    return as_json(
        {
            "repetition_stability": repeats.repetition_stability(verdicts, resampler=resampler),
            "all_identical_rate": repeats.all_identical_rate(verdicts, resampler=resampler),
            "pairwise_repeat_agreement": repeats.pairwise_repeat_agreement(verdicts, resampler=resampler),
        }
    )


def _length(dataset: Dataset, column: JudgeColumn, resampler: Resampler) -> dict[str, Any]:
    """Preference for the longer answer, against the humans' own, and the regression on the length ratio."""
    len_a, len_b = dataset.lengths
    said, human = dataset.predicted(column), dataset.human
    figures = bias.length_preference(said, human, len_a, len_b, resampler=resampler)
    groups = dataset.groups
    regression = bias.length_regression(
        said, human, len_a, len_b, groups=groups if len(set(groups)) < len(groups) else None
    )
    return {
        "unit": LENGTH_UNIT,
        **as_json(figures),
        "regression": as_json({"n": regression.n, **regression.coefficients}),
    }


def _self_preference(dataset: Dataset, column: JudgeColumn, rules: Rules, resampler: Resampler) -> dict[str, Any]:
    """Preference for answers of the judge's own family against the humans' own; null with a reason where unknown."""
    families = dict(key_value(entry, "family") for entry in rules.families)
    models = sorted({judgment.model for judgment in column.judgments if judgment is not None})
    own = None if column.baseline else judge_family(column.judge, models, families)
    sides = [None if own is None else own_side(dataset.items[i].case.metadata, own, families) for i in dataset.labelled]
    cases = sum(side is not None for side in sides)
    reason = "no_family" if own is None else None if cases else "no_answers_of_the_family"
    found: dict[str, Any] = {"family": own, "cases": cases, "undefined_reason": reason, "figures": None}
    if reason is None:
        predicted, human = dataset.predicted(column), dataset.human
        alike = resampler.with_types(joint_types(predicted, human, sides))
        found["figures"] = as_json(bias.self_preference(sides, predicted, human, resampler=alike))
    return found


def cost(column: JudgeColumn) -> dict[str, Any]:
    """Calls, tokens, US dollars and latency of a judge; null where nothing is known."""
    made = [judgment for judgment in column.judgments if judgment is not None]
    seconds = sorted(judgment.latency_ms / 1000 for judgment in made)
    known = [judgment.usage.cost_usd for judgment in made if judgment.usage.cost_usd is not None]
    return {
        "calls": column.n_calls,
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
