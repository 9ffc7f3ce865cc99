"""How often nominal 95% intervals hold the truth, by simulation through the product's own functions.

Stated truths: a binary judge with sensitivity 0.85 and specificity 0.75 at prevalence 0.6 (agreement 0.81, kappa
0.6025), consistency of two orders 0.8, judged population of 2,000 for the corrected rates. Groups have one case.
Run: python benchmarks/coverage.py [--runs 2000] [--resamples 1000]; prints a table. Exit code 1 when an interval that
the product shows by default is outside 93-97%.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

from calibration.agreement import Agreement, PairedLabels
from calibration.corrected import JudgeErrors, ppi_mean, rogan_gladen
from calibration.estimate import Estimate
from calibration.intervals import proportion

SIZES = (50, 100, 200, 500)
PREVALENCE, SENSITIVITY, SPECIFICITY, CONSISTENCY = 0.6, 0.85, 0.75, 0.8
POPULATION = 2000
AGREEMENT = PREVALENCE * SENSITIVITY + (1 - PREVALENCE) * SPECIFICITY
PASSED = PREVALENCE * SENSITIVITY + (1 - PREVALENCE) * (1 - SPECIFICITY)
CHANCE = PASSED * PREVALENCE + (1 - PASSED) * (1 - PREVALENCE)
KAPPA = (AGREEMENT - CHANCE) / (1 - CHANCE)
BY_DEFAULT = ("agreement", "kappa", "consistency", "ppi_plus_plus", "rogan_gladen")
FIGURES = (*BY_DEFAULT, "kappa_bca", "rogan_gladen_delta")


def _judge(human: np.ndarray, chance: np.random.Generator) -> np.ndarray:
    passed = chance.random(human.size)
    return np.where(human == 1, passed < SENSITIVITY, passed >= SPECIFICITY).astype(int)


def simulate(n: int, chance: np.random.Generator, resamples: int) -> dict[str, tuple[Estimate, float]]:
    """Each figure of one drawn set of `n` labelled cases, with its truth."""
    human = (chance.random(n) < PREVALENCE).astype(int)
    judge = _judge(human, chance)
    others = _judge((chance.random(POPULATION) < PREVALENCE).astype(int), chance)
    labels = PairedLabels.of(judge.tolist(), human.tolist(), (0, 1))
    resampler = labels.resampler(resamples=resamples, seed=int(chance.integers(2**31)))
    agreement = Agreement(labels, resampler)
    # Rogan-Gladen takes its error rates from a separate set with n labels, half of each class.
    half = n // 2
    errors = JudgeErrors(
        int(chance.binomial(half, SENSITIVITY)), half, int(chance.binomial(n - half, SPECIFICITY)), n - half
    )
    passed = int(others.sum())
    return {
        "agreement": (agreement.raw(), AGREEMENT),
        "kappa": (agreement.kappa(), KAPPA),
        "kappa_bca": (Agreement(labels, resampler, interval="bca").kappa(), KAPPA),
        "consistency": (proportion(int(chance.binomial(n, CONSISTENCY)), n), CONSISTENCY),
        "ppi_plus_plus": (ppi_mean(human, judge, others), PREVALENCE),
        "rogan_gladen": (rogan_gladen(passed, POPULATION, errors), PREVALENCE),
        "rogan_gladen_delta": (rogan_gladen(passed, POPULATION, errors, interval="delta"), PREVALENCE),
    }


def main() -> int:
    """Print coverage and mean width by size; figures without an interval are counted apart."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = np.random.default_rng(options.seed)
    outside = []
    print(f"truths: agreement {AGREEMENT:.4f}, kappa {KAPPA:.4f}, consistency {CONSISTENCY}, pass rate {PREVALENCE}")
    print(f"{'n':>5s} {'figure':20s} {'covers %':>9s} {'width':>7s} {'no interval':>12s}")
    for n in SIZES:
        held = dict.fromkeys(FIGURES, 0)
        width = dict.fromkeys(FIGURES, 0.0)
        without = dict.fromkeys(FIGURES, 0)
        for _ in range(options.runs):
            for name, (estimate, truth) in simulate(n, chance, options.resamples).items():
                if estimate.low is None or estimate.high is None:
                    without[name] += 1
                    continue
                held[name] += estimate.low <= truth <= estimate.high
                width[name] += estimate.high - estimate.low
        for name in FIGURES:
            shown = options.runs - without[name]
            share = 100 * held[name] / shown if shown else float("nan")
            print(f"{n:5d} {name:20s} {share:9.1f} {width[name] / max(1, shown):7.3f} {without[name]:12d}")
            if name in BY_DEFAULT and not 93 <= share <= 97:
                outside.append(f"{name} at n = {n}: {share:.1f}%")
    print("outside 93-97%: " + ("; ".join(outside) or "none"))
    return int(bool(outside))


if __name__ == "__main__":
    sys.exit(main())
