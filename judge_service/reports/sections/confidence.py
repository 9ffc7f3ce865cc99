"""Section: can a judge's confidence be believed? Owns which measures of calibration are shown, and the maps."""

from collections.abc import Sequence
from typing import Any

from calibration import probability
from calibration.binning import default_bins
from calibration.confidence import Forecasts
from calibration.estimate import REASON_TEXT, Reason
from calibration.headline import Headline
from calibration.probability import HEADLINE_MIN_CASES
from calibration.recalibrate import FITTERS, MIN_CASES, cross_fit, folds_of
from calibration.resample import Resampler, joint_types
from judge_service.reports.dataset import JudgeColumn
from judge_service.reports.figures import shown
from judge_service.reports.study import Study

ID = "confidence"
TITLE = "Can its confidence be believed?"

_FIGURES = {
    "ece": "ece",
    "ece_equal_mass": "ece_equal_mass",
    "mce": "mce",
    "smooth_ece": "smooth_ece",
    "squared_debiased": "squared_calibration_error_debiased",
    "brier": "brier",
    "log_loss": "log_loss",
    "auroc": "auroc",
}
_NO_SOURCE = (
    "This judge gives no token probabilities and was not asked for a confidence. Without one, no threshold can be set."
)


def build(study: Study) -> dict[str, Any]:
    """Per judge: stated confidence against agreement, and what maps would mend.

    Shape: `{n, headline_from, judges: [row]}`; the event is "the verdict equals people's label". `row`: `judge`,
    `baseline`, `measured` (false with `reason` code and `text`), `source`, `n` (cases with a confidence),
    `without`; `headline`: true from 100 cases on (below: Brier, no ECE); figures `ece`, `ece_equal_mass`, `mce`,
    `smooth_ece`, `squared_debiased`, `brier`, `log_loss`, `auroc`; `by_chance`, `by_chance_95` (ECE of a judge
    whose every confidence is true: mean, and the 95% point), `miscalibrated` (true above that point, null below 100
    cases, or that many evenly drawn ones); `murphy`: `{reliability, resolution, uncertainty}`; `bins`: list of
    `{low, high, n, mean_confidence, accuracy, accuracy_low, accuracy_high, greyed}` (Wilson; greyed under 10
    cases); `maps`: list of `{method, fitted, kept, reason, text, n_needed, ece, brier, log_loss, improvement,
    bins}`: what a map from raw to calibrated confidence reaches on cases that it was not fitted on (five folds by
    group); figures are null where it could not be fitted. `before` has `ece`, `brier` and `log_loss` of the raw
    confidence over the same cases.
    """
    return {
        "n": study.n,
        "headline_from": HEADLINE_MIN_CASES,
        "judges": [
            _row(study, column, figures) for column, figures in zip(study.labelled.columns, study.figures, strict=True)
        ],
    }


def _row(study: Study, column: JudgeColumn, figures: Headline) -> dict[str, Any]:
    source = study.source(column)
    head = {"judge": column.judge.name, "baseline": column.baseline}
    if source is None or figures.confidence is None or not figures.confidence["brier"].defined:
        text = _NO_SOURCE if source is None else "No labelled case has a verdict with a confidence."
        return {**head, "measured": False, "reason": Reason.NO_CONFIDENCE.value, "text": text, "source": None}
    found = figures.confidence
    forecasts = study.forecasts(column)
    ece = found["ece"]
    enough = forecasts.effective_n >= HEADLINE_MIN_CASES
    return {
        **head,
        "measured": True,
        "reason": None,
        "text": None,
        "source": source.value,
        "n": len(forecasts),
        "without": forecasts.missing,
        "headline": enough,
        **{name: shown(found[key]) for name, key in _FIGURES.items()},
        "by_chance": ece.details["null_mean"],
        "by_chance_95": ece.details["null_q95"],
        "miscalibrated": ece.details["miscalibrated"] if enough else None,
        "murphy": {name: found[f"brier_{name}"].value for name in ("reliability", "resolution", "uncertainty")},
        "bins": _bins(figures.reliability or []),
        # Maps have no weighted form: theirs are figures of the drawn cases.
        **_maps(study, forecasts.unweighted()),
    }


def _bins(rows: "list[dict[str, Any]] | list[dict[str, object]]") -> list[dict[str, Any]]:
    kept = []
    for row in rows:
        low, high = row["wilson95"]  # type: ignore[misc]
        rest = {name: value for name, value in row.items() if name not in ("wilson95", "bin")}
        kept.append({**rest, "accuracy_low": low, "accuracy_high": high})
    return kept


def _maps(study: Study, forecasts: Forecasts) -> dict[str, Any]:
    draws = _draws(study, forecasts)
    bins = default_bins(len(forecasts))
    before = {
        "ece": shown(probability.ece(forecasts, bins)),
        "brier": shown(probability.brier(forecasts, resampler=draws)),
        "log_loss": shown(probability.log_loss(forecasts, resampler=draws)),
    }
    # One division for all methods: it costs more than they do.
    folds = folds_of(forecasts)
    return {"before": before, "maps": [_map(study, forecasts, method, draws, bins, folds) for method in FITTERS]}


def _draws(study: Study, forecasts: Forecasts) -> Resampler | None:
    """Draws over the cases with a confidence, when they are grouped; single cases have intervals by Student's t."""
    if forecasts.groups is None or len(set(forecasts.groups)) == len(forecasts):
        return None
    chosen = study.choices
    kinds = joint_types(forecasts.confidence, forecasts.correct)
    return Resampler(len(forecasts), forecasts.groups, resamples=chosen.resamples, seed=chosen.seed, types=kinds)


def _map(
    study: Study, forecasts: Forecasts, method: str, draws: Resampler | None, bins: int, folds: Sequence[int] | None
) -> dict[str, Any]:
    row: dict[str, Any] = {"method": method, "n_needed": MIN_CASES[method]}
    empty = dict.fromkeys(("ece", "brier", "log_loss", "improvement"))
    if method == "temperature" and len(study.classes) > 2:
        text = "A temperature keeps 0.5 fixed, which is wrong for more than two labels."
        return {**row, "fitted": False, "kept": False, "reason": "more_than_two_labels", "text": text, **empty}
    result = cross_fit(forecasts, method, folds=folds, resampler=draws)
    if result.out_of_fold is None:
        reason = result.undefined_reason or Reason.EMPTY
        text = REASON_TEXT[reason]
        if reason is Reason.TOO_FEW_LABELS:
            text = f"{len(forecasts)} cases with a confidence; {MIN_CASES[method]} are needed"
        return {**row, "fitted": False, "kept": False, "reason": reason.value, "text": f"{text}.", **empty, "bins": []}
    after = Forecasts(result.out_of_fold, forecasts.correct, forecasts.missing, forecasts.positions, forecasts.groups)
    return {
        **row,
        "fitted": True,
        "kept": result.kept,
        "reason": None,
        "text": "It improves the log loss of cases that it was not fitted on."
        if result.kept
        else "It does not improve the log loss of cases that it was not fitted on: the raw confidence stays.",
        "ece": shown(probability.ece(after, bins)),
        "brier": shown(result.brier_after),
        "log_loss": shown(result.log_loss_after),
        "improvement": shown(result.improvement),
        "bins": _bins(probability.reliability(after, bins)),
    }
