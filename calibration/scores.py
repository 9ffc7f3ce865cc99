"""The product's own scores over judged cases: faithfulness, expected scores, citations, support levels, refusals.

Failed cases stay in the denominators that are said to hold them, and every null has its reason.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from calibration.estimate import Estimate, InvalidStatisticInput, Reason
from calibration.intervals import mean_t, proportion
from calibration.resample import Resampler, ratio_replicates, share

SCORE_MASS = 0.8


@dataclasses.dataclass(frozen=True)
class ScoreSummary:
    """Mean score of a run with what is missing from it.

    `mean` is over scored cases (Student or cluster bootstrap); `failures_as_zero` and `failures_as_one` are its bounds
    if all failed cases had been 0 or 1; `coverage` is the scored share of all expected cases. Cases that are not
    applicable are in no mean, but counted.
    """

    mean: Estimate
    failures_as_zero: Estimate
    failures_as_one: Estimate
    coverage: Estimate
    scored: int
    not_applicable: int
    failed: int
    expected: int


def summarise(
    scores: Sequence[float | None], failed: Sequence[bool], *, resampler: Resampler | None = None
) -> ScoreSummary:
    """Fold scores in [0, 1]: None with `failed` True is a judge's failure, None with False is not applicable."""
    if len(scores) != len(failed):
        raise InvalidStatisticInput("scores and failed must have one entry for each case")
    for score, broken in zip(scores, failed, strict=True):
        if score is not None and (broken or not 0 <= score <= 1):
            raise InvalidStatisticInput("a score lies between 0 and 1, and a failed case has none")
    known = np.array([score is not None for score in scores], dtype=bool)
    broken_mask = np.array(failed, dtype=bool)
    values = np.array([0.0 if score is None else score for score in scores], dtype=np.float64)
    return ScoreSummary(
        _mean(values, known, resampler),
        _mean(values, known | broken_mask, resampler),
        _mean(np.where(broken_mask, 1.0, values), known | broken_mask, resampler),
        share(known, None, resampler),
        int(known.sum()),
        int((~known & ~broken_mask).sum()),
        int(broken_mask.sum()),
        len(scores),
    )


def _mean(values: np.ndarray, known: np.ndarray, resampler: Resampler | None) -> Estimate:
    n = int(known.sum())
    if resampler is None or n == 0:
        return mean_t(values[known])
    sums = resampler.sums(np.column_stack([np.where(known, values, 0.0), known]))
    return resampler.interval(float(values[known].mean()), ratio_replicates(sums[:, 0], sums[:, 1]), n=n)


def faithfulness(supported: Sequence[int | None], extracted: Sequence[int | None]) -> dict[str, object]:
    """Supported over extracted claims of each case; None for a failed case, 0 extracted for one without claims.

    Gives `per_case` (null without claims or failed), `summary` (ScoreSummary) and `micro` (all supported claims over
    all extracted ones of the scored cases).
    """
    if len(supported) != len(extracted):
        raise InvalidStatisticInput("supported and extracted must have one entry for each case")
    per_case: list[float | None] = []
    failed = []
    hits = claims = 0
    for yes, total in zip(supported, extracted, strict=True):
        failed.append(yes is None or total is None)
        if yes is None or total is None or total == 0:
            per_case.append(None)
            continue
        if not 0 <= yes <= total:
            raise InvalidStatisticInput(f"{yes} supported of {total} extracted claims is not a count")
        per_case.append(yes / total)
        hits += yes
        claims += total
    return {"per_case": per_case, "summary": summarise(per_case, failed), "micro": proportion(hits, claims)}


def expected_score(probabilities: Mapping[float, float], *, minimum_mass: float = SCORE_MASS) -> dict[str, Estimate]:
    """Expected score of a judge from the probabilities of the score tokens (Liu et al. 2023).

    `mass` known, `raw_sum` as published, `normalised` (divided by the mass: the product's score) and its `variance`,
    both null `score_mass_too_low` below `minimum_mass`.
    """
    if not all(math.isfinite(p) and 0 <= p <= 1 for p in probabilities.values()):
        raise InvalidStatisticInput("probabilities lie between 0 and 1")
    mass = math.fsum(probabilities.values())
    if mass > 1 + 1e-6:
        raise InvalidStatisticInput("probabilities sum to more than 1")
    n = len(probabilities)
    raw = math.fsum(float(score) * p for score, p in probabilities.items())
    figures = {
        "mass": Estimate.point(mass, n, "score_token_mass"),
        "raw_sum": Estimate.point(raw, n, "expected_score_raw"),
    }
    if mass < minimum_mass - 1e-12 or mass == 0:
        nothing = Estimate.undefined(Reason.SCORE_MASS_TOO_LOW, n, "expected_score", details={"mass": mass})
        return figures | {"normalised": nothing, "variance": nothing}
    mean = raw / mass
    variance = math.fsum(p * (float(score) - mean) ** 2 for score, p in probabilities.items()) / mass
    return figures | {
        "normalised": Estimate.point(mean, n, "expected_score", details={"mass": mass}),
        "variance": Estimate.point(variance, n, "expected_score_variance"),
    }


@dataclasses.dataclass(frozen=True)
class CitedStatement:
    """A statement with the sources it cites, and the minimal sets of sources that support it."""

    citations: tuple[int, ...]
    support: tuple[frozenset[int], ...]

    def supported_by(self, sources: Collection[int]) -> bool:
        """Whether these sources hold one of the supporting sets."""
        return any(needed <= frozenset(sources) for needed in self.support)


def citations(responses: Sequence[Sequence[CitedStatement]]) -> dict[str, object]:
    """Citation recall and precision (Gao et al. 2023, ALCE), averaged over responses.

    A statement is recalled if the sources it cites support it; a citation is precise if its statement is recalled and
    it is not superfluous (alone insufficient, while the rest suffices). `precision_over_cited` leaves out the uncited
    responses and counts them, `precision_published_rule` gives them 0. Out-of-range citations count as citations.
    """
    per_response: list[dict[str, float | int | None]] = []
    for response in responses:
        recalled = precise = cited = 0
        for statement in response:
            sources = statement.citations
            supported = bool(sources) and statement.supported_by(sources)
            recalled += supported
            cited += len(sources)
            if supported:
                precise += sum(
                    statement.supported_by([source])
                    or not statement.supported_by([other for other in sources if other != source])
                    for source in sources
                )
        per_response.append(
            {
                "recall": recalled / len(response) if response else None,
                "precise": precise,
                "citations": cited,
                "precision": precise / cited if cited else None,
            }
        )
    recalls = [row["recall"] for row in per_response if row["recall"] is not None]
    over_cited = [row["precision"] for row in per_response if row["precision"] is not None]
    published = [row["precision"] or 0.0 for row in per_response]
    return {
        "per_response": per_response,
        "recall": mean_t([float(value) for value in recalls]),
        "precision_over_cited": mean_t([float(value) for value in over_cited]),
        "precision_published_rule": mean_t(published),
        "uncited_responses": sum(row["citations"] == 0 for row in per_response),
        "empty_responses": sum(not response for response in responses),
    }


_CREDIT = {"full": 1.0, "partial": 0.5, "none": 0.0}


def support_levels(levels: Sequence[str | None]) -> dict[str, object]:
    """Weighted support of a response's sentences (Thakur et al. 2025): `full` 1, `partial` 0.5, `none` 0, None uncited.

    Precision is over cited sentences (null `empty` without any), recall over all; `hard_precision` counts full only.
    """
    unknown = [level for level in levels if level is not None and level not in _CREDIT]
    if unknown:
        raise InvalidStatisticInput(f"unknown support level {unknown[0]!r}: full, partial or none")
    cited = [level for level in levels if level is not None]
    credit = [_CREDIT[level] for level in cited]
    return {
        "weighted_precision": mean_t(credit),
        "weighted_recall": mean_t(credit + [0.0] * (len(levels) - len(cited))),
        "hard_precision": proportion(sum(level == "full" for level in cited), len(cited)),
        "uncited": len(levels) - len(cited),
        "counts": {level: cited.count(level) for level in _CREDIT},
    }


def refusals(should_abstain: Sequence[bool], refused: Sequence[bool | None]) -> dict[str, Estimate]:
    """Refusals against what should have been refused; None could not be read, and stays in every denominator of cases.

    `precision` (right of all refusals), `recall` (refused of what should be), `over_refusal_rate` (of the rest),
    `answered_rate` (answered although it should have been refused), `valid_rate`.
    """
    if len(should_abstain) != len(refused):
        raise InvalidStatisticInput("should_abstain and refused must have one entry for each case")
    pairs = list(zip(should_abstain, refused, strict=True))
    right = sum(should and did is True for should, did in pairs)
    wrong = sum(did is True and not should for should, did in pairs)
    due = sum(should_abstain)
    return {
        "precision": proportion(right, right + wrong),
        "recall": proportion(right, due),
        "over_refusal_rate": proportion(wrong, len(pairs) - due),
        "answered_rate": proportion(sum(should and did is False for should, did in pairs), due),
        "valid_rate": proportion(sum(did is not None for _, did in pairs), len(pairs)),
    }
