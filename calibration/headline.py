"""Every headline figure of one judge on one set of labelled cases, from one set of resamples.

Puts together what the other modules define; owns no formula. A report over several judges uses one seed, so that the
draws are the same for all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration import probability, selective
from calibration.agreement import Agreement, PairedLabels
from calibration.binning import default_bins
from calibration.confidence import Forecasts
from calibration.estimate import Estimate, InvalidStatisticInput, plain
from calibration.position import PolicyResult, order_policies, position_sensitivity
from calibration.power import tier
from calibration.resample import DEFAULT_RESAMPLES, DEFAULT_SEED, Resampler, joint_types
from calibration.weighted import effective_size


@dataclasses.dataclass(frozen=True)
class Headline:
    """Figures by subject, each by the name its module documents.

    `position` and `policies` are null for rubrics without two responses, `confidence` for judges without one;
    `reliability` is the table of the diagram, `risk_coverage` the curve, `tier` what the number of labels licenses.
    """

    n: int
    tier: str
    agreement: dict[str, Estimate]
    macro: dict[str, Estimate]
    per_class: dict[str, dict[str, Estimate]]
    position: dict[str, Estimate] | None
    policies: dict[str, PolicyResult] | None
    confidence: dict[str, Estimate] | None
    reliability: list[dict[str, object]] | None
    risk_coverage: list[dict[str, float | int]] | None

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready object."""
        record = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        if self.policies is not None:
            record["policies"] = {name: policy.to_dict() for name, policy in self.policies.items()}
        return {name: plain(value) for name, value in record.items()}


def headline(
    labels: PairedLabels,
    *,
    confidence: Sequence[float | None] | None = None,
    order_ab: Sequence[str | None] | None = None,
    order_ba: Sequence[str | None] | None = None,
    prob_a_ab: Sequence[float | None] | None = None,
    prob_a_ba: Sequence[float | None] | None = None,
    bins: int | None = None,
    resamples: int = DEFAULT_RESAMPLES,
    seed: int = DEFAULT_SEED,
    resampler: Resampler | None = None,
    weights: NDArray[np.float64] | None = None,
) -> Headline:
    """All figures of `labels`; the optional columns have one entry for each of its cases.

    `confidence` is that of the judge's chosen verdict. `order_ab`, `order_ba` are the verdicts of each order as
    responses (`A`, `B`, `tie`, None); with `order_ab` alone position is null `single_order`. Intervals are over the
    labels' groups, or over what `resampler` draws, whose resamples and seed are then used. With weights (the
    resampler's, or `weights`) figures count each case by its weight; those without such a form keep their methods.
    `tier` goes by the effective size then.
    """
    n = len(labels)
    for name, column in (
        ("confidence", confidence),
        ("order_ab", order_ab),
        ("order_ba", order_ba),
        ("prob_a_ab", prob_a_ab),
        ("prob_a_ba", prob_a_ba),
    ):
        if column is not None and len(column) != n:
            raise InvalidStatisticInput(f"{name} must have one entry for each labelled case")
    verdicts: list[Any] = [labels.judge, labels.human, *(c for c in (order_ab, order_ba) if c is not None)]
    everything = verdicts if confidence is None else [*verdicts, confidence]
    if resampler is None:
        resampler = Resampler(n, labels.groups, resamples=resamples, seed=seed, weights=weights)
    elif resampler.n_cases != n:
        raise InvalidStatisticInput("the resampler is not over these cases")
    if confidence is not None or not resampler.has_kinds:
        resampler = resampler.with_types(joint_types(*everything))
    of_confidence = resampler
    if confidence is not None and not resampler.has_kinds:
        resampler.keep()
        resampler = resampler.with_types(joint_types(*verdicts))
    agreement = Agreement(labels, resampler)
    position = policies = None
    if order_ab is not None:
        position = position_sensitivity(order_ab, order_ba, resampler=resampler)
        if order_ba is not None:
            human = [labels.classes[code] for code in labels.human]
            policies = order_policies(
                order_ab, order_ba, human, prob_a_ab=prob_a_ab, prob_a_ba=prob_a_ba, resampler=resampler
            )
    figures = reliability = curve = None
    if confidence is not None:
        figures, reliability, curve = _confidence(labels, confidence, bins, of_confidence)
    return Headline(
        n,
        tier(effective_size(n, resampler.weights)),
        agreement.headline(),
        agreement.macro(),
        agreement.per_class(),
        position,
        policies,
        figures,
        reliability,
        curve,
    )


def _confidence(
    labels: PairedLabels, confidence: Sequence[float | None], bins: int | None, whole: Resampler
) -> tuple[dict[str, Estimate], list[dict[str, object]], list[dict[str, float | int]]]:
    groups = None if labels.groups is None else list(labels.groups)
    stated = [value if known else None for value, known in zip(confidence, labels.known, strict=True)]
    forecasts = Forecasts.of(stated, labels.judge == labels.human, groups=groups, weights=whole.weights)
    types = joint_types(forecasts.confidence, forecasts.correct)
    if forecasts.missing:
        # Fewer cases: draws of their own, so that groups without any confidence are not drawn.
        resampler = Resampler(
            len(forecasts),
            forecasts.groups,
            resamples=whole.resamples,
            seed=whole.seed,
            types=types,
            weights=forecasts.weights,
        )
    else:
        resampler = whole if whole.has_kinds else whole.with_types(types)
    number = default_bins(int(forecasts.effective_n)) if bins is None else bins
    figures = {
        "ece": probability.ece(forecasts, number),
        "ece_equal_mass": probability.ece(forecasts, number, "equal_mass"),
        "mce": probability.mce(forecasts, number),
        "squared_calibration_error_debiased": probability.squared_error_debiased(forecasts, number),
        "smooth_ece": probability.smooth_ece(forecasts),
        "brier": probability.brier(forecasts, resampler=resampler),
        "log_loss": probability.log_loss(forecasts, resampler=resampler),
        "auroc": probability.auroc(forecasts, resampler=resampler),
        "aurc": selective.aurc(forecasts, resampler=resampler),
        **{f"brier_{name}": part for name, part in probability.murphy(forecasts).items()},
    }
    return figures, probability.reliability(forecasts, number), selective.risk_coverage(forecasts)
