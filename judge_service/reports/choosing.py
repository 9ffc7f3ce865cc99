"""What a judge would be used with, and which judge: order policy, threshold of confidence, floors, comparisons.

Owns the rules of the choice; `calibration.selection` owns the arithmetic of floors and comparisons, `decision` the
words. Policy and threshold are chosen on the tuning cases where there are some, and measured on the report's own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from calibration.agreement import Agreement, PairedLabels
from calibration.confidence import Forecasts
from calibration.estimate import Estimate, Reason
from calibration.intervals import clopper_pearson_upper
from calibration.position import PolicyResult, fold_swap_average
from calibration.selection import Candidate, Selection, select
from calibration.selective import guaranteed_threshold
from judge_service.domain.canonical import content_hash
from judge_service.domain.judge import OrderPolicy
from judge_service.reports.dataset import JudgeColumn
from judge_service.reports.thresholds import SELECTING, THRESHOLDS

if TYPE_CHECKING:
    from judge_service.reports.study import Study

DESCRIBING = 30
"""Labels below which nothing is recommended."""
ALPHA = 0.05

_FOLDED = {OrderPolicy.BOTH_ORDERS: "swap_tie", OrderPolicy.AVERAGE_PROBABILITY: "swap_average"}
_WORDS = {
    "keep": "It agrees with people more often than one order drawn by chance.",
    "drop": "One order drawn by chance agrees with people more often.",
    "not enough evidence": "Against one order drawn by chance there is no clear difference: the judge's own is kept.",
    "uneven": "The cases were drawn unevenly, which the tests of orders do not weigh: the judge's own is kept.",
}


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """How a judge would ask the orders of a pair: `policy` None for rubrics without two answers.

    `changed`: it is not the judge's own `configured` policy. `verdict` is keep, drop or `not enough evidence` for the
    configured one against a random order, None where it was not compared. `chosen_on` names the cases.
    """

    policy: str | None
    configured: str | None
    verdict: str | None
    note: str
    chosen_on: str

    @property
    def changed(self) -> bool:
        """True when the policy is not the one that the judge was configured with."""
        return self.policy != self.configured


@dataclass(frozen=True, slots=True)
class ThresholdChoice:
    """The confidence above which a judge may decide alone, and what it does on the report's cases.

    `threshold` is None with a `reason` code. `accepted` of `cases` are kept, `errors` of them wrong; `risk_upper` is
    the upper bound of the share of wrong ones: with the threshold chosen on these very cases that of the choice among
    all thresholds, on other cases the one-sided exact 95% bound.
    """

    threshold: float | None
    reason: str | None
    chosen_on: str
    cases: int
    accepted: int = 0
    errors: int = 0
    risk_upper: float | None = None
    search: Estimate | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """Per judge in the report's order: policy, threshold, labels under that policy; then floors and comparisons.

    `selection` is over `models`, the judges with a model; None where there is none.
    """

    policies: tuple[PolicyChoice, ...]
    thresholds: tuple[ThresholdChoice, ...]
    said: tuple[tuple[str | None, ...], ...]
    models: tuple[int, ...]
    selection: Selection | None
    floor: float | None
    floor_of: str


def choose(study: "Study") -> Choice:
    """Policies, thresholds and the selection among the judges with a model."""
    labelled = study.labelled
    policies = tuple(_policy(study, place) for place in range(len(labelled.columns)))
    said = tuple(
        tuple(_said(study, column, choice.policy)) for column, choice in zip(labelled.columns, policies, strict=True)
    )
    thresholds = tuple(_threshold(study, place, policies[place]) for place in range(len(labelled.columns)))
    models = tuple(place for place, column in enumerate(labelled.columns) if not column.baseline)
    people = study.ceiling["s1"].value
    floor, floor_of = study.choices.floor, "declared"
    if floor is None and people is not None:
        floor, floor_of = people - 0.05, "two people agree, less five points"
    elif floor is None:
        floor_of = "none declared and no two people's labels to take it from"
    selection = None
    if models:
        candidates = [
            Candidate(
                labelled.columns[place].judge.name,
                said[place],
                _price(labelled.columns[place], policies[place]),
                # Under another policy valid output is what that policy could make a verdict of.
                None if policies[place].changed else labelled.usable(labelled.columns[place]),
            )
            for place in models
        ]
        selection = select(
            candidates,
            labelled.human,
            study.classes,
            groups=labelled.groups,
            margin=study.choices.margin,
            alpha=ALPHA,
            agreement_floor=study.choices.floor,
            human_agreement=_people(study),
            resampler=study.resampler,
            agreements=[_agreement(study, place, policies[place], said[place]) for place in models],
        )
    return Choice(policies, thresholds, said, models, selection, floor, floor_of)


def _agreement(study: "Study", place: int, policy: PolicyChoice, said: Sequence[str | None]) -> Agreement:
    """The agreement of what the judge says under the policy: made once where that is its own."""
    if not policy.changed:
        return study.agreements[place]
    labels = PairedLabels.of(said, study.labelled.human, study.classes, groups=study.labelled.groups)
    return Agreement(labels, study.draws(labels.judge, labels.human))


def _people(study: "Study") -> dict[str, float | None]:
    """How far people agree among themselves, where enough of them labelled the same cases."""
    from calibration import raters

    raw = study.ceiling["s1"]
    if raw.value is None:
        return {}
    names = sorted({name for item in study.labelled.items for name in item.votes})
    rows = [[item.votes.get(name) for item in study.labelled.items] for name in names]
    metric = "ordinal" if study.dataset.rubric.scale.ordered else "nominal"
    return {
        "raw_agreement": raw.value,
        "alpha": raters.alpha(rows, metric, classes=study.classes).value,
        "ac1": raters.ac1(rows, classes=study.classes).value,
    }


def _where(study: "Study") -> str:
    """The cases of a study in words."""
    splits = [] if study.labelled_set is None else [split.value for split in study.labelled_set.splits]
    return f"the {' and '.join(splits)} split" if splits else "the same cases"


def _tuning(study: "Study", place: int, at_least: int) -> "tuple[Study, str]":
    """The cases on which something is chosen for a judge, and their name: those where it judged enough."""
    other = study.tuning
    if other is not None:
        judged = sum(judgment is not None for judgment in other.labelled.columns[place].judgments)
        if judged >= at_least:
            return other, _where(other)
    return study, "the same cases"


def _policy(study: "Study", place: int) -> PolicyChoice:
    column = study.labelled.columns[place]
    if not study.pairs:
        return PolicyChoice(None, None, None, "This rubric judges one answer.", "")
    configured = column.judge.order_policy
    own, on = _tuning(study, place, DESCRIBING)
    results = own.figures[place].policies
    if results is None or configured not in _FOLDED or own.n < DESCRIBING:
        note = "Judged in one order only." if column.single_order else f"Fewer than {DESCRIBING} labels."
        return PolicyChoice(configured.value, configured.value, None, note, on)
    if own.uneven:
        return PolicyChoice(configured.value, configured.value, None, _WORDS["uneven"], on)
    row = results.get(_FOLDED[configured])
    verdict = None if row is None else row.verdict
    if verdict == "keep" or verdict is None:
        note = _WORDS["keep"] if verdict else "The orders have no probabilities to average."
        return PolicyChoice(configured.value, configured.value, verdict, note, on)
    average = results.get("swap_average")
    if configured is OrderPolicy.BOTH_ORDERS and average is not None and _helps(average):
        note = "Averaging the probabilities of both orders agrees with people more often."
        return PolicyChoice(OrderPolicy.AVERAGE_PROBABILITY.value, configured.value, verdict, note, on)
    if verdict == "drop" and _significant(row):
        if "tie" not in own.labelled.human:
            note = (
                "People never say tie here, and both orders can only turn a verdict into none: that one order drawn by "
                "chance agrees more often is no reason to drop them."
            )
            return PolicyChoice(configured.value, configured.value, verdict, note, on)
        return PolicyChoice(OrderPolicy.SINGLE_DRAWN.value, configured.value, verdict, _WORDS["drop"], on)
    return PolicyChoice(configured.value, configured.value, verdict, _WORDS["not enough evidence"], on)


def _significant(row: PolicyResult | None) -> bool:
    """After Holm over the policies that were compared."""
    return row is not None and row.p_holm is not None and row.p_holm <= ALPHA


def _helps(row: PolicyResult) -> bool:
    return row.verdict == "keep" and _significant(row)


def _said(study: "Study", column: JudgeColumn, policy: str | None) -> Sequence[str | None]:
    """The judge's labels under a policy, from the calls that were made."""
    labelled = study.labelled
    if policy is None or policy == column.judge.order_policy.value:
        return labelled.predicted(column)
    if policy == OrderPolicy.AVERAGE_PROBABILITY.value:
        ab, ba = labelled.probabilities_a(column)
        return fold_swap_average(ab, ba, band=column.judge.tie_band)
    first, second = labelled.orders(column)
    drawn = [int(content_hash([item.case.id, item.case.content_hash])[:8], 16) % 2 for item in labelled.items]
    return [b if odd else a for a, b, odd in zip(first, second, drawn, strict=True)]


def _threshold(study: "Study", place: int, policy: PolicyChoice) -> ThresholdChoice:
    column = study.labelled.columns[place]
    own, on = _tuning(study, place, SELECTING)
    n = study.n
    if study.source(column) is None:
        return ThresholdChoice(None, Reason.NO_CONFIDENCE.value, on, n)
    if policy.changed:
        return ThresholdChoice(None, "policy_changed", on, n)
    if own.n < SELECTING:
        return ThresholdChoice(None, Reason.TOO_FEW_LABELS.value, on, n)
    if own.uneven or study.uneven:
        # The guarantee is a binomial bound over cases that are alike in how they came here.
        return ThresholdChoice(None, Reason.UNEQUAL_PROBABILITIES.value, on, n)
    target = study.choices.target
    search = guaranteed_threshold(own.forecasts(own.labelled.columns[place]), THRESHOLDS, target)
    if search.value is None:
        return ThresholdChoice(None, "no_threshold_reaches_the_target", on, n, search=search)
    mine = study.forecasts(column)
    accepted, errors = above(mine, search.value)
    if own is study:
        bound = next(row["risk_upper"] for row in search.details["rows"] if row["threshold"] == search.value)
    else:
        bound = clopper_pearson_upper(errors, accepted, ALPHA) if accepted else None
        if bound is None or bound > 1 - target:
            return ThresholdChoice(None, "not_confirmed", on, n, search=search)
    return ThresholdChoice(search.value, None, on, n, accepted, errors, bound, search)


def above(forecasts: Forecasts, threshold: float) -> tuple[int, int]:
    """Cases with at least this confidence, and how many of them are wrong."""
    kept = forecasts.confidence >= threshold - 1e-12
    return int(kept.sum()), int((1 - forecasts.correct[kept]).sum())


def price(column: JudgeColumn) -> float | None:
    """US dollars a case, over the cases whose cost is known, with both orders and retries; None where none is."""
    known = [
        judgment.usage.cost_usd
        for judgment in column.judgments
        if judgment is not None and judgment.usage.cost_usd is not None
    ]
    return sum(known) / len(known) if known else None


def _price(column: JudgeColumn, policy: PolicyChoice) -> float | None:
    cost = price(column)
    halved = policy.changed and policy.policy == OrderPolicy.SINGLE_DRAWN.value
    return cost / 2 if cost is not None and halved else cost
