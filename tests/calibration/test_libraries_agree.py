"""The same numbers by independent libraries, on random inputs without degenerate cases."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from sklearn import metrics
from statsmodels.stats import contingency_tables, inter_rater, proportion
from statsmodels.stats.multitest import multipletests

from calibration import intervals, paired, probability, raters, recalibrate, tests
from calibration.agreement import Agreement, PairedLabels
from calibration.confidence import Forecasts
from calibration.ranking import bradley_terry, davidson

CLASSES = (0, 1, 2)


@pytest.fixture(params=range(5))
def chance(request: pytest.FixtureRequest) -> np.random.Generator:
    return np.random.default_rng(request.param)


def test_agreement(chance: np.random.Generator) -> None:
    human = chance.integers(0, 3, 80)
    judge = np.where(chance.random(80) < 0.6, human, chance.integers(0, 3, 80))
    found = Agreement(PairedLabels.of(judge.tolist(), human.tolist(), CLASSES, ordered=True))
    for weights in (None, "linear", "quadratic"):
        assert found.kappa(weights).value == pytest.approx(metrics.cohen_kappa_score(judge, human, weights=weights))
    assert found.mcc().value == pytest.approx(metrics.matthews_corrcoef(human, judge))
    assert found.balanced_accuracy().value == pytest.approx(metrics.balanced_accuracy_score(human, judge))
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(human, judge, average="macro", zero_division=0)
    macro = found.macro()
    assert [macro[f"macro_{name}"].value for name in ("precision", "recall", "f1")] == pytest.approx(
        [precision, recall, f1]
    )
    theirs = inter_rater.cohens_kappa(found.table)
    assert found.kappa_se().value == pytest.approx(theirs.std_kappa)
    counts = chance.multinomial(5, [0.2, 0.5, 0.3], size=20)
    assert raters.fleiss_kappa(counts).value == pytest.approx(inter_rater.fleiss_kappa(counts))


def test_intervals_and_tests(chance: np.random.Generator) -> None:
    n = int(chance.integers(5, 200))
    k = int(chance.integers(0, n + 1))
    assert intervals.wilson(k, n) == pytest.approx(proportion.proportion_confint(k, n, method="wilson"), abs=1e-9)
    assert intervals.clopper_pearson(k, n) == pytest.approx(
        proportion.proportion_confint(k, n, method="beta"), abs=1e-9
    )
    m = int(chance.integers(5, 200))
    j = int(chance.integers(0, m + 1))
    mine = intervals.newcombe(k, n, j, m)
    theirs = proportion.confint_proportions_2indep(k, n, j, m, method="newcomb", compare="diff")
    assert (mine.low, mine.high) == pytest.approx(theirs, abs=1e-9)
    b, c = int(chance.integers(1, 30)), int(chance.integers(1, 30))
    table = [[10, b], [c, 10]]
    assert tests.mcnemar(b, c).value == pytest.approx(contingency_tables.mcnemar(table, exact=True).pvalue)
    plain = contingency_tables.mcnemar(table, exact=False, correction=False)
    assert tests.mcnemar(b, c, form="chi2").value == pytest.approx(plain.pvalue)
    p_values = chance.random(6)
    assert tests.holm(p_values.tolist()) == pytest.approx(multipletests(p_values, method="holm")[1].tolist())


def test_clustered_error(chance: np.random.Generator) -> None:
    groups = chance.integers(0, 12, 60)
    values = chance.normal(size=60) + groups / 6
    theirs = sm.OLS(values, np.ones(60)).fit(cov_type="cluster", cov_kwds={"groups": groups, "use_correction": False})
    mine = paired.clustered_error(values, groups.tolist())
    assert mine.clustered == pytest.approx(float(theirs.bse[0]))
    single = paired.clustered_error(values, list(range(60)))
    assert single.design_effect == pytest.approx(1)
    assert single.icc is None


def test_probability(chance: np.random.Generator) -> None:
    confidence = chance.random(120).round(3)
    correct = (chance.random(120) < confidence).astype(int)
    found = Forecasts.of(confidence, correct)
    assert probability.brier(found).value == pytest.approx(metrics.brier_score_loss(correct, confidence))
    assert probability.log_loss(found).value == pytest.approx(metrics.log_loss(correct, confidence))
    assert probability.auroc(found).value == pytest.approx(metrics.roc_auc_score(correct, confidence))
    inside = Forecasts.of(confidence.clip(0.02, 0.98), correct)
    logits = np.log(inside.confidence / (1 - inside.confidence))
    theirs = sm.Logit(correct, sm.add_constant(logits)).fit(disp=0)
    mine = recalibrate.fit_logistic(inside).parameters
    assert [mine["intercept"], mine["slope"]] == pytest.approx(theirs.params.tolist(), abs=1e-6)


def test_bradley_terry_as_a_regression_of_differences(chance: np.random.Generator) -> None:
    k = 4
    wins = chance.integers(1, 12, (k, k))
    np.fill_diagonal(wins, 0)
    rows, outcomes = [], []
    for i in range(k):
        for j in range(i + 1, k):
            row = np.zeros(k)
            row[i], row[j] = 1, -1
            rows.append(row)
            outcomes.append([wins[i, j], wins[j, i]])
    fit = sm.GLM(np.array(outcomes), np.array(rows)[:, 1:], family=sm.families.Binomial()).fit(tol=1e-12)
    strengths = np.concatenate([[0.0], fit.params])
    strengths -= strengths.mean()
    names = [str(i) for i in range(k)]
    mine = bradley_terry(names, wins)
    assert [mine.log_strength[name].value for name in names] == pytest.approx(strengths.tolist(), abs=1e-7)
    without = davidson(names, wins, np.zeros((k, k)))
    assert without.tie_parameter == 0
    assert without.log_strength["0"].value == pytest.approx(mine.log_strength["0"].value)
