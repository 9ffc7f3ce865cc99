"""From a statistic's name and a reference case's input to what the product computes for it.

Each adapter returns named results: an Estimate for a figure, `Interval` for the ends of one, plain values for counts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from calibration import corrected, power, probability, ranking, recalibrate, repeats, scores, selective, tests
from calibration.agreement import Agreement, PairedLabels
from calibration.annotator_test import alternative_annotator_test
from calibration.bias import length_preference, length_regression, self_preference
from calibration.confidence import Forecasts
from calibration.duplicates import BandCurve, jaccard, near_duplicates, shingles
from calibration.estimate import Estimate
from calibration.intervals import bonett_price, mean_t, proportion
from calibration.paired import clustered_error, paired_delta_by_slice
from calibration.position import order_policies, position_sensitivity
from calibration.raters import ac1, alpha, fleiss_kappa, votes
from calibration.resample import Resampler, enumerate_means
from calibration.selection import pareto_front
from calibration.splits import leakage

Input = dict[str, Any]
Results = dict[str, Any]
Adapter = Callable[[Input], Results]


@dataclasses.dataclass(frozen=True)
class Interval:
    """The ends of an estimate's interval, as a result of their own."""

    estimate: Estimate


ADAPTERS: dict[str, Adapter] = {}


def adapter(*names: str) -> Callable[[Adapter], Adapter]:
    def register(function: Adapter) -> Adapter:
        for name in names:
            ADAPTERS[name] = function
        return function

    return register


def _agreement(given: Input) -> Agreement:
    return Agreement(PairedLabels.from_table(given["table_rows_rater1_cols_rater2"], ordered=True))


@adapter("raw_agreement")
def _raw(given: Input) -> Results:
    return {"raw": _agreement(given).raw()}


@adapter("cohen_kappa")
def _kappa(given: Input) -> Results:
    return {"kappa": _agreement(given).kappa()}


@adapter("kappa_se")
def _kappa_se(given: Input) -> Results:
    return {"kappa_se": _agreement(given).kappa_se()}


@adapter("gwet_ac1")
def _ac1(given: Input) -> Results:
    return {"ac1": _agreement(given).ac()}


@adapter("krippendorff_alpha_nominal")
def _alpha_nominal(given: Input) -> Results:
    table = PairedLabels.from_table(given["table_rows_rater1_cols_rater2"])
    by_units = alpha([list(table.judge.tolist()), list(table.human.tolist())])
    by_table = Agreement(table).alpha()
    assert by_table.value is None or abs(by_table.value - by_units.value) < 1e-12
    return {"alpha_nominal": by_table}


@adapter("gwet_ac2")
def _ac2(given: Input) -> Results:
    return {f"ac2_{weights}": _agreement(given).ac(weights) for weights in ("linear", "quadratic")}


@adapter("cohen_kappa_weighted")
def _weighted(given: Input) -> Results:
    agreement = _agreement(given)
    return {
        "unweighted": agreement.kappa(),
        "linear": agreement.kappa("linear"),
        "quadratic": agreement.kappa("quadratic"),
    }


@adapter("krippendorff_alpha")
def _alpha(given: Input) -> Results:
    ratings = given["raters_by_units"]
    return {
        **{metric: alpha(ratings, metric) for metric in ("nominal", "ordinal", "interval", "ratio")},
        "alpha": alpha(ratings),
    }


@adapter("gwet_ac1_multirater_missing")
def _ac1_raters(given: Input) -> Results:
    estimate = ac1(given["raters_by_units"])
    return {"ac1": estimate, **estimate.details}


@adapter("fleiss_kappa")
def _fleiss(given: Input) -> Results:
    return {"kappa": fleiss_kappa(given["units_by_category_counts"])}


def _labelled(given: Input) -> Agreement:
    return Agreement(PairedLabels.of(given["judge"], given["human"], given["classes"]))


@adapter("mcc")
def _mcc(given: Input) -> Results:
    return {"mcc": _labelled(given).mcc()}


@adapter("balanced_accuracy")
def _balanced(given: Input) -> Results:
    return {"balanced_accuracy": _labelled(given).balanced_accuracy()}


@adapter("tpr", "tnr")
def _per_class(given: Input) -> Results:
    agreement = _labelled(given)
    support = dict(zip(agreement.labels.classes, agreement.counts.sum(axis=0).tolist(), strict=True))
    return {"per_class": {k: {"support": support[k], **rates} for k, rates in agreement.per_class().items()}}


@adapter("agreement_setups_S1_S2")
def _setups(given: Input) -> Results:
    judge = [None if verdict == "invalid" else verdict for verdict in given["judge_after_swap_rule"]]
    figures = votes(judge, given["human_votes_per_case"])
    names = {
        "judge_s1": "judge_human_with_ties_S1",
        "judge_s2": "judge_human_without_ties_S2",
        "human_s1": "human_human_with_ties",
        "human_s2": "human_human_without_ties",
    }
    return {
        names[name]: {"agree": estimate.numerator, "total": estimate.denominator, "rate": estimate}
        for name, estimate in figures.items()
    }


@adapter("alternative_annotator_test")
def _alt_test(given: Input) -> Results:
    result = alternative_annotator_test(
        given["humans_by_case"], given["judge"], epsilon=given["epsilon"], q=given.get("q", 0.05)
    )
    return {
        "p_values": [row.p_value for row in result.annotators],
        "advantage": [row.advantage for row in result.annotators],
        "rho": result.rho,
        "omega": result.omega,
    }


def _forecasts(given: Input) -> Forecasts:
    return Forecasts.of(given["confidence"], given["correct"])


@adapter("ece_equal_width", "mce", "ace_netcal")
def _equal_width(given: Input) -> Results:
    forecasts = _forecasts(given)
    results: Results = {"ece": probability.ece(forecasts, given["bins"])}
    for rule in ("right_closed", "left_closed"):
        error = probability.ece(forecasts, given["bins"], rule)
        results[rule] = {
            "ece": error,
            "mce": probability.mce(forecasts, given["bins"], rule),
            "mean_gap_over_nonempty_bins": probability.mean_gap(forecasts, given["bins"], rule),
            "nonempty_bins": error.details.get("nonempty_bins"),
        }
    return results


@adapter("ece_equal_mass")
def _equal_mass(given: Input) -> Results:
    error = probability.ece(_forecasts(given), given["bins"], "equal_mass")
    return {"equal_mass": {"ece": error, "nonempty_bins": error.details.get("nonempty_bins")}}


@adapter("debiased_squared_calibration_error")
def _debiased(given: Input) -> Results:
    debiased = probability.squared_error_debiased(_forecasts(given), given["bins"])
    return {
        "squared_plugin": probability.squared_error_plugin(_forecasts(given), given["bins"]),
        "squared_debiased": debiased,
        "singleton_bins": debiased.details.get("singleton_bins"),
    }


@adapter("ece_expected_under_perfect_calibration")
def _expected_ece(given: Input) -> Results:
    return {"expected_ece": probability.expected_ece(given["confidence"], given["bins"])}


@adapter("reliability_diagram")
def _reliability(given: Input) -> Results:
    return {"table": probability.reliability(_forecasts(given), given["bins"])}


@adapter("brier")
def _brier(given: Input) -> Results:
    return {"brier": probability.brier(_forecasts(given))}


@adapter("brier_decomposition")
def _murphy(given: Input) -> Results:
    forecasts = _forecasts(given)
    return {"murphy": {"brier": probability.brier(forecasts), **probability.murphy(forecasts)}}


@adapter("log_loss")
def _log_loss(given: Input) -> Results:
    return {"log_loss": probability.log_loss(_forecasts(given))}


def _vector_input(given: Input) -> tuple[Any, Any, Any]:
    return given["probabilities"], given["classes"], given["human"]


@adapter("brier_multiclass")
def _brier_multiclass(given: Input) -> Results:
    return {"brier": probability.brier_multiclass(*_vector_input(given))}


@adapter("log_loss_multiclass")
def _log_loss_multiclass(given: Input) -> Results:
    return {"log_loss": probability.log_loss_multiclass(*_vector_input(given))}


@adapter("top_label_correct")
def _top_label(given: Input) -> Results:
    return {"top_label_accuracy": probability.top_label_accuracy(*_vector_input(given))}


@adapter("adaptive_calibration_error")
def _ace(given: Input) -> Results:
    return {"ace": probability.ace_nixon(*_vector_input(given), given["ranges"])}


@adapter("smooth_ece")
def _smooth(given: Input) -> Results:
    return {"smece": probability.smooth_ece(_forecasts(given))}


def _fitted(
    given: Input, fit: Callable[[Forecasts], recalibrate.ConfidenceMap]
) -> recalibrate.ConfidenceMap | Estimate:
    """The map, or an estimate that says why there is none."""
    try:
        return fit(_forecasts(given))
    except recalibrate.CannotFit as refused:
        return Estimate.undefined(refused.reason, len(given["confidence"]), "recalibration")


def _calibrated(fitted: recalibrate.ConfidenceMap | Estimate, given: Input) -> list[float] | Estimate:
    return fitted if isinstance(fitted, Estimate) else fitted.apply(given["confidence"]).tolist()


@adapter("temperature_scaling")
def _temperature(given: Input) -> Results:
    fitted = _fitted(given, recalibrate.fit_temperature)
    return {
        "temperature": fitted if isinstance(fitted, Estimate) else fitted.parameters["temperature"],
        "temperature_calibrated": _calibrated(fitted, given),
    }


@adapter("platt_logistic")
def _platt(given: Input) -> Results:
    fitted = _fitted(given, recalibrate.fit_logistic)
    return {
        "logistic": fitted if isinstance(fitted, Estimate) else dict(fitted.parameters),
        "logistic_calibrated": _calibrated(fitted, given),
    }


@adapter("beta_calibration")
def _beta(given: Input) -> Results:
    fitted = _fitted(given, recalibrate.fit_beta)
    return dict.fromkeys("abc", fitted) if isinstance(fitted, Estimate) else dict(fitted.parameters)


@adapter("isotonic_regression")
def _isotonic(given: Input) -> Results:
    return {"calibrated": _calibrated(_fitted(given, recalibrate.fit_isotonic), given)}


@adapter("histogram_binning")
def _histogram(given: Input) -> Results:
    return {"calibrated": _calibrated(_fitted(given, lambda f: recalibrate.fit_histogram(f, given["bins"])), given)}


@adapter("cross_fitted_recalibration")
def _cross_fit(given: Input) -> Results:
    result = recalibrate.cross_fit(_forecasts(given), "logistic", folds=given["fold"], enforce_size=False)
    figures = ("log_loss_before", "log_loss_after", "brier_before", "brier_after")
    return {
        "out_of_fold": None if result.out_of_fold is None else result.out_of_fold.tolist(),
        **{name: getattr(result, name) for name in figures},
    }


@adapter("risk_coverage")
def _risk_coverage(given: Input) -> Results:
    return {"curve": selective.risk_coverage(_forecasts(given))}


@adapter("aurc")
def _aurc(given: Input) -> Results:
    estimate = selective.aurc(_forecasts(given))
    return {
        "aurc": estimate,
        "aurc_oracle": estimate.details.get("oracle", estimate),
        "excess_aurc": estimate.details.get("excess", estimate),
    }


@adapter("threshold_for_target_agreement")
def _lowest_threshold(given: Input) -> Results:
    found = selective.lowest_threshold(_forecasts(given), given["target_agreement"])
    return {"threshold_for_target": {"threshold": found, **found.details} if found.defined else found}


@adapter("threshold_with_guarantee")
def _guarantee(given: Input) -> Results:
    found = selective.guaranteed_threshold(
        _forecasts(given), given["thresholds"], given["target_agreement"], alpha=given["alpha"]
    )
    return {"rows": found.details["rows"], "chosen": found}


def _ppi(given: Input, weight: float | None) -> Estimate:
    return corrected.ppi_mean(
        given["human"],
        given["judge_on_labelled"],
        given["judge_on_unlabelled"],
        weight=weight,
        level=given["confidence"],
        enforce_size=False,
    )


def _with_raw(estimate: Estimate, lam: bool = False) -> Results:
    if not estimate.defined:
        return dict.fromkeys(("estimate", "se", "ci", "lam"), estimate)
    found = {
        "estimate": estimate.details["raw_value"],
        "se": estimate.details["se"],
        "ci": estimate.details["raw_interval"],
    }
    return found | ({"lam": estimate.details["lambda"]} if lam else {})


@adapter("classical_mean")
def _classical(given: Input) -> Results:
    alone = corrected.classical_mean(given["human"], level=given["confidence"], enforce_size=False)
    return {"classical": _with_raw(alone)}


@adapter("ppi_mean")
def _ppi_one(given: Input) -> Results:
    estimate = _ppi(given, 1.0)
    return {"ppi": _with_raw(estimate), "judge_only": estimate.details.get("judge_mean", estimate)}


@adapter("ppi_plus_plus_mean")
def _ppi_plus(given: Input) -> Results:
    return {"ppi_plus_plus": _with_raw(_ppi(given, None), lam=True)}


@adapter("rogan_gladen", "rogan_gladen_delta_se", "rogan_gladen_adjusted_ci")
def _rogan_gladen(given: Input) -> Results:
    errors = corrected.JudgeErrors(
        given["judge_pass_given_human_pass"],
        given["human_pass"],
        given["judge_fail_given_human_fail"],
        given["human_fail"],
    )
    estimate = corrected.rogan_gladen(given["judge_pass"], given["judged"], errors, enforce_size=False)
    details = estimate.details
    return {
        "corrected": estimate,
        "corrected_unclipped": details.get("raw_value", estimate),
        "delta_se": details.get("se", estimate),
        "adjusted_ci_95": Interval(estimate),
        **{name: details.get(name) for name in ("raw_rate", "sensitivity", "specificity", "youden")},
    }


@adapter("wilson_ci")
def _wilson(given: Input) -> Results:
    estimate = proportion(given["successes"], given["n"], level=given["confidence"])
    return {"estimate": estimate, "wilson": Interval(estimate)}


@adapter("clopper_pearson_ci")
def _clopper_pearson(given: Input) -> Results:
    exact = proportion(given["successes"], given["n"], level=given["confidence"], method="clopper_pearson")
    return {"clopper_pearson": Interval(exact)}


def _discordant(given: Input) -> tuple[int, int]:
    return given["only_first_right"], given["only_second_right"]


@adapter("mcnemar_exact")
def _mcnemar(given: Input) -> Results:
    return {"exact_p": tests.mcnemar(*_discordant(given))}


@adapter("mcnemar_chi2")
def _mcnemar_chi2(given: Input) -> Results:
    plain = tests.mcnemar(*_discordant(given), form="chi2")
    corrected_form = tests.mcnemar(*_discordant(given), form="chi2_corrected")
    return {
        "chi2": plain.details.get("statistic", plain),
        "chi2_p": plain,
        "chi2_cc": corrected_form.details.get("statistic", corrected_form),
    }


def _cases(given: Input) -> int:
    return sum(given[name] for name in ("both_right", "only_first_right", "only_second_right", "both_wrong"))


@adapter("paired_difference")
def _paired_difference(given: Input) -> Results:
    b, c = _discordant(given)
    n = _cases(given)
    differences = np.repeat([1.0, -1.0, 0.0], [b, c, n - b - c])
    # The simple standard error divides by n where the sample variance divides by n - 1.
    se = mean_t(differences).details["se"] * np.sqrt((n - 1) / n)
    return {"difference": bonett_price(b, c, n), "wald_se": float(se)}


@adapter("paired_difference_ci")
def _paired_ci(given: Input) -> Results:
    return {"bonett_price": Interval(bonett_price(*_discordant(given), _cases(given), level=given["confidence"]))}


@adapter("holm")
def _holm(given: Input) -> Results:
    return {"holm": list(tests.holm(given["p_values"]))}


@adapter("benjamini_yekutieli")
def _by(given: Input) -> Results:
    return {"by": list(tests.benjamini_yekutieli(given["p_values"]))}


@adapter("clustered_standard_error", "design_effect", "icc")
def _clustered(given: Input) -> Results:
    error = clustered_error(given["per_case_difference"], given["group"])
    return {
        "mean": error.mean,
        "clustered_se": error.clustered,
        "naive_se": error.naive,
        "design_effect": error.design_effect,
        "icc_anova": error.icc,
    }


@adapter("paired_bootstrap")
def _bootstrap(given: Input) -> Results:
    values = given["per_case_difference"]
    means = enumerate_means(values)
    resampler = Resampler(len(values))
    drawn = resampler.sums(np.array(values, dtype=float)[:, None])[:, 0] / len(values)
    assert abs(drawn.std() / means.std() - 1) < 0.03
    ends = np.quantile(means.round(12), [0.025, 0.975], method="inverted_cdf")
    assert np.abs(np.quantile(drawn, [0.025, 0.975]) - ends).max() <= 1 / len(values) + 1e-9
    return {"mean": float(np.mean(values)), "bootstrap_se": float(means.std()), "percentile_95": ends.tolist()}


@adapter("anytime_valid_sign_test")
def _sequential(given: Input) -> Results:
    evidence = tests.e_value(*_discordant(given))
    return {"e_value": evidence, "reject": evidence.value >= 1 / given["alpha"]}


@adapter("mcnemar_sample_size")
def _sample_size(given: Input) -> Results:
    found = power.labels_for_difference(
        given["p_only_first_right"], given["p_only_second_right"], alpha=given["alpha"], power=given["power"]
    )
    return {"n": found, **found.details}


@adapter("labels_for_half_width")
def _half_width(given: Input) -> Results:
    found = power.labels_for_half_width(given["p"], given["half_width"], level=given["confidence"])
    return {"n": found, **found.details}


@adapter("jaccard_word_shingles")
def _jaccard(given: Input) -> Results:
    sets = [shingles(text, given["shingle_words"]) for text in given["texts"]]
    return {"jaccard": [[jaccard(a, b) for b in sets] for a in sets]}


@adapter("near_duplicate_clusters")
def _clusters(given: Input) -> Results:
    found = near_duplicates(given["texts"], threshold=given["threshold"], shingle_words=given["shingle_words"])
    return {"clusters": list(found.group)}


@adapter("lsh_detection_probability")
def _lsh(given: Input) -> Results:
    curve = BandCurve(given["bands"], given["rows"])
    return {
        "detect": curve.detection(given["similarity"]),
        "half_point": curve.half_point,
        "approx_threshold": curve.approximate_threshold,
    }


@adapter("split_leakage")
def _leakage(given: Input) -> Results:
    found = leakage(given["group"], given["split"])
    return {"leaking_groups": list(found.groups), "ok": found.ok}


def _orders(given: Input) -> tuple[list[str | None], list[str | None]]:
    ab, ba = ([None if v == "invalid" else v for v in given[name]] for name in ("order_ab", "order_ba"))
    return ab, ba


@adapter("position_consistency", "flip_rate", "preference_fairness", "first_slot_share", "primacy_recency_sign_test")
def _position(given: Input) -> Results:
    figures = position_sensitivity(*_orders(given))
    return {
        "n": len(given["order_ab"]),
        "valid_both": figures["consistency"].n,
        "consistency_valid": figures["consistency"],
        "consistency_all": figures["consistency_all"],
        "hard_flip_rate": figures["hard_flip_rate"],
        "soft_flip_rate": figures["soft_flip_rate"],
        "primacy": figures["bias_test"].details["primacy"],
        "recency": figures["bias_test"].details["recency"],
        "preference_fairness": figures["preference_fairness"],
        "bias_sign_test_p": figures["bias_test"],
        "first_slot_share": figures["first_slot_share"],
    }


@adapter("aggregation_policy_comparison")
def _policies(given: Input) -> Results:
    found = order_policies(
        *_orders(given),
        given["human"],
        prob_a_ab=given.get("prob_A_order_ab"),
        prob_a_ba=given.get("prob_A_order_ba"),
        band=given.get("tie_band", 0.05),
    )
    results: Results = {}
    for name, policy in found.items():
        results[name] = {"accuracy": policy.accuracy}
        if policy.versus_first is not None:
            results[name] |= {
                "vs_ab": policy.versus_first,
                **policy.versus_first.details,
                "mcnemar_exact_p": policy.p_value,
                "bonett_price_95": Interval(policy.versus_first),
                "vs_random": policy.versus_random,
                "vs_random_se": policy.versus_random.details["se"],
            }
    return results


@adapter("repetition_stability")
def _stability(given: Input) -> Results:
    return {"repetition_stability": repeats.repetition_stability(given["verdicts_by_case"])}


@adapter("reproducibility_rate")
def _identical(given: Input) -> Results:
    return {"all_identical_rate": repeats.all_identical_rate(given["verdicts_by_case"])}


@adapter("pairwise_repeat_agreement")
def _pairwise_repeats(given: Input) -> Results:
    return {"mean_pairwise_agreement": repeats.pairwise_repeat_agreement(given["verdicts_by_case"])}


@adapter("within_case_variance", "between_case_variance", "se_of_mean")
def _variance(given: Input) -> Results:
    figures = repeats.score_variance(given["scores_by_case"])
    return {**figures, "run_noise_share_of_single_run": figures["run_noise_share"]}


def _length_input(given: Input) -> tuple[Any, Any, Any, Any]:
    return given["judge"], given["human"], given["len_a"], given["len_b"]


@adapter("longer_preference_rate", "excess_longer_preference", "length_matched_accuracy")
def _length(given: Input) -> Results:
    figures = length_preference(*_length_input(given))
    counts = figures["excess"].details
    return {
        **figures,
        "both_decided": figures["excess"].n,
        "only_judge_longer": counts.get("only_first"),
        "only_human_longer": counts.get("only_second"),
        "mcnemar_exact_p": figures["excess_test"],
        "length_matched_n": figures["length_matched_accuracy"].n,
    }


@adapter("length_logistic_regression")
def _length_regression(given: Input) -> Results:
    found = length_regression(*_length_input(given))
    return {
        "n": found.n,
        "coef": found.coefficients,
        "se": {name: estimate.details.get("se", estimate) for name, estimate in found.coefficients.items()},
        "log_likelihood": found.log_likelihood,
    }


@adapter("equal_opportunity_bias", "excess_own_rate")
def _self_preference(given: Input) -> Results:
    figures = self_preference(given["own_side"], given["judge"], given["human"])
    return {
        **figures,
        "n_decided": figures["excess_own_rate"].n,
        "n_human_own": figures["own_when_human_own"].n,
        "n_human_other": figures["other_when_human_other"].n,
        "mcnemar_exact_p": figures["excess_test"],
    }


@adapter("faithfulness")
def _faithfulness(given: Input) -> Results:
    ok = [case["status"] == "ok" for case in given["cases"]]
    found = scores.faithfulness(
        [case["supported"] if fine else None for case, fine in zip(given["cases"], ok, strict=True)],
        [case["extracted"] if fine else None for case, fine in zip(given["cases"], ok, strict=True)],
    )
    summary = found["summary"]
    return {
        "per_case": found["per_case"],
        "mean_over_scored": summary.mean,
        "scored": summary.scored,
        "no_claims": summary.not_applicable,
        "failed": summary.failed,
        "expected": summary.expected,
        "coverage": summary.coverage,
        "mean_failures_as_zero": summary.failures_as_zero,
        "micro": found["micro"],
    }


@adapter("g_eval_expected_score")
def _expected_score(given: Input) -> Results:
    return dict(scores.expected_score({float(s): p for s, p in given["score_token_probabilities"].items()}))


@adapter("citation_recall", "citation_precision")
def _citations(given: Input) -> Results:
    return scores.citations(
        [
            [
                scores.CitedStatement(
                    tuple(statement["citations"]), tuple(frozenset(s) for s in statement["minimal_support_sets"])
                )
                for statement in response
            ]
            for response in given["responses"]
        ]
    )


@adapter("support_levels")
def _support(given: Input) -> Results:
    return scores.support_levels(given["sentence_support"])


@adapter("refusal_precision", "refusal_recall")
def _refusals(given: Input) -> Results:
    found = scores.refusals(
        [case["should_abstain"] for case in given["cases"]], [case["refused"] for case in given["cases"]]
    )
    return {
        "refusal_precision": found["precision"],
        "refusal_recall": found["recall"],
        "over_refusal_rate": found["over_refusal_rate"],
        "n_refused": found["precision"].denominator,
        "n_should_abstain": found["recall"].denominator,
        "expected": len(given["cases"]),
    }


@adapter("paired_delta_by_slice")
def _deltas(given: Input) -> Results:
    rows = given["rows"]
    found = paired_delta_by_slice(
        [row["baseline"] for row in rows], [row["candidate"] for row in rows], [row["slice"] for row in rows]
    )
    return {
        name: {
            "n_pairs": delta.mean.n,
            "unpaired": delta.unpaired,
            "mean_delta": delta.mean,
            "se": delta.mean.details.get("se") if delta.mean.details.get("se") is not None else Interval(delta.mean),
            "ci95_t": Interval(delta.mean),
            "wins": delta.wins,
            "losses": delta.losses,
            "ties": delta.ties,
        }
        for name, delta in found.items()
    }


@adapter("cost_accuracy_pareto")
def _pareto(given: Input) -> Results:
    judges = given["judges"]
    front = pareto_front([judge["cost"] for judge in judges], [judge["accuracy"] for judge in judges])
    return {"front": [judges[i]["judge"] for i in front]}


@adapter("bradley_terry")
def _bradley_terry(given: Input) -> Results:
    found = ranking.bradley_terry(given["systems"], given["wins_row_over_col"], given.get("ties"))
    return {"log_strength": found.log_strength}


@adapter("bradley_terry_davidson_ties")
def _davidson(given: Input) -> Results:
    found = ranking.davidson(given["systems"], given["wins_row_over_col"], given["ties"])
    return {"log_strength": found.log_strength, "tie_parameter_nu": found.tie_parameter}


@adapter("comparison_graph_strongly_connected")
def _connected(given: Input) -> Results:
    systems = [str(i) for i in range(len(given["wins_row_over_col"]))]
    strengths = ranking.bradley_terry(systems, given["wins_row_over_col"], given["ties"])
    estimable = ranking.connected(given["wins_row_over_col"], given["ties"])
    reasons = {estimate.undefined_reason for estimate in strengths.log_strength.values()}
    assert reasons == ({None} if estimable else {"disconnected"})
    return {"estimable": estimable}


@adapter("win_rate_ties_half")
def _win_rate(given: Input) -> Results:
    found = ranking.win_rate(given["wins"], given["ties"], given["losses"])
    decided = proportion(given["wins"], given["wins"] + given["losses"])
    assert found.details.get("decided_win_rate") == decided.value
    return {"win_rate": found, "se": found.details.get("se"), "decided_win_rate": decided}
