"""The numbers of a run: counts, coverage and a mean that says what it leaves out.

Every number has its n, every null its reason. Failures are counted, never averaged. Intervals belong to reports.
"""

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from judge_service.domain.outcome import Outcome
from judge_service.store import OutcomeCount
from rubrics.model import Rubric


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MeanScore(_Frozen):
    """Mean score of the `n` scored cases.

    `low_bound` and `high_bound` are the mean if every failed case (judge error, inconsistent, not judged yet) had
    scored the scale's minimum or maximum. Null with `undefined_reason` when there is nothing to average.
    """

    value: float | None = Field(allow_inf_nan=False)
    n: int
    n_failed: int
    low_bound: float | None = Field(allow_inf_nan=False)
    high_bound: float | None = Field(allow_inf_nan=False)
    undefined_reason: str | None = None


class PairCounts(_Frozen):
    """How A fared against B. `win_rate_a` is (wins_a + 0.5 ties) / n over the `n` consistent verdicts; a + b = 1."""

    wins_a: int
    wins_b: int
    ties: int
    inconsistent: int
    n: int
    win_rate_a: float | None = Field(allow_inf_nan=False)
    win_rate_b: float | None = Field(allow_inf_nan=False)
    undefined_reason: str | None = None


class MeanConsistency(_Frozen):
    """Mean over the `n` cases with two or more votes of the judge's own repeats of the largest vote share (0 to 1).

    `n_unstable` of them did not always say the same. Null where no case was judged more than once.
    """

    value: float | None = Field(allow_inf_nan=False)
    n: int
    n_unstable: int
    undefined_reason: str | None = None


class Totals(_Frozen):
    """Tokens and US dollars of the current judgments. Null where no call reported them."""

    prompt_tokens: int | None
    completion_tokens: int | None
    cost_usd: float | None = Field(allow_inf_nan=False)


class Aggregate(_Frozen):
    """One run or slice in numbers. `coverage` is n_scored / n_total; `reasons` is keyed `outcome:reason`."""

    rubric: str
    n_total: int
    n_judged: int
    n_scored: int
    n_pending: int
    coverage: float | None = Field(allow_inf_nan=False)
    outcomes: dict[str, int]
    reasons: dict[str, int]
    labels: dict[str, int]
    mean_score: MeanScore
    pairs: PairCounts | None = None
    self_consistency: MeanConsistency
    usage: Totals


def aggregate(rubric: Rubric[Any], counts: Iterable[OutcomeCount], n_total: int, *, panel: bool = False) -> Aggregate:
    """Fold counts of one rubric version's judgments. `n_total` is the number of planned cases. The votes of a `panel`
    are no repeats.

    Raises ValueError when there are more judgments than cases.
    """
    outcomes = dict.fromkeys((outcome.value for outcome in Outcome), 0)
    reasons: dict[str, int] = {}
    labels = dict.fromkeys(rubric.scale.names, 0)
    score_sum = 0.0
    counts = list(counts)
    for count in counts:
        outcomes[count.outcome.value] += count.n
        if count.reason is not None:
            name = f"{count.outcome.value}:{count.reason}"
            reasons[name] = reasons.get(name, 0) + count.n
        if count.label is not None:
            labels[count.label] = labels.get(count.label, 0) + count.n
        score_sum += count.score_sum or 0.0
    n_judged = sum(outcomes.values())
    n_pending = n_total - n_judged
    if n_pending < 0:
        raise ValueError(f"{n_judged} judgments of {n_total} cases")
    n_scored = outcomes[Outcome.SCORED.value]
    n_failed = outcomes[Outcome.JUDGE_ERROR.value] + outcomes[Outcome.INCONSISTENT.value] + n_pending
    return Aggregate(
        rubric=rubric.id,
        n_total=n_total,
        n_judged=n_judged,
        n_scored=n_scored,
        n_pending=n_pending,
        coverage=n_scored / n_total if n_total else None,
        outcomes=outcomes,
        reasons=dict(sorted(reasons.items())),
        labels=labels,
        mean_score=_mean(rubric, score_sum, n_scored, n_failed),
        pairs=_pairs(labels, outcomes[Outcome.INCONSISTENT.value]) if rubric.kind == "pairwise" else None,
        self_consistency=_consistency(() if panel else counts),
        usage=Totals(
            prompt_tokens=_sum(count.prompt_tokens for count in counts),
            completion_tokens=_sum(count.completion_tokens for count in counts),
            cost_usd=_sum(count.cost_usd for count in counts),
        ),
    )


def _mean(rubric: Rubric[Any], score_sum: float, n_scored: int, n_failed: int) -> MeanScore:
    low, high = rubric.scale.minimum, rubric.scale.maximum
    n = n_scored + n_failed
    return MeanScore(
        value=score_sum / n_scored if n_scored else None,
        n=n_scored,
        n_failed=n_failed,
        low_bound=(score_sum + n_failed * low) / n if n else None,
        high_bound=(score_sum + n_failed * high) / n if n else None,
        undefined_reason=None if n_scored else "no case was scored",
    )


def _consistency(counts: Iterable[OutcomeCount]) -> MeanConsistency:
    counts = list(counts)
    n = sum(count.n_repeated for count in counts)
    total = sum(count.vote_share_sum or 0.0 for count in counts)
    return MeanConsistency(
        value=total / n if n else None,
        n=n,
        n_unstable=sum(count.n_unstable for count in counts),
        undefined_reason=None if n else "no case was judged more than once",
    )


def _pairs(labels: dict[str, int], inconsistent: int) -> PairCounts:
    wins_a, wins_b, ties = (labels.get(name, 0) for name in ("A", "B", "tie"))
    n = wins_a + wins_b + ties
    rate = (wins_a + 0.5 * ties) / n if n else None
    return PairCounts(
        wins_a=wins_a,
        wins_b=wins_b,
        ties=ties,
        inconsistent=inconsistent,
        n=n,
        win_rate_a=rate,
        win_rate_b=None if rate is None else 1.0 - rate,
        undefined_reason=None if n else "no pair has a consistent verdict",
    )


def _sum(values: Iterable[Any]) -> Any:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
