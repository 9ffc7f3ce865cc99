"""Exact tests of paired verdicts and corrections for several tests.

Owns p-values and e-values; differences and their intervals are in `intervals`. A p-value is an Estimate without an
interval. Tests never decide: the caller compares with its own alpha.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from calibration.estimate import Estimate, InvalidStatisticInput, Reason


def binomial_test(
    successes: int, n: int, share: float = 0.5, *, alternative: Literal["two-sided", "less", "greater"] = "two-sided"
) -> Estimate:
    """Exact binomial p-value against `share`; n = 0: null `empty`. `alternative`: two-sided, greater or less."""
    if not 0 <= successes <= n:
        raise InvalidStatisticInput(f"{successes} successes of {n} is not a count")
    if n == 0:
        return Estimate.undefined(Reason.EMPTY, 0, "exact_binomial")
    from scipy.stats import binomtest

    p = float(binomtest(successes, n, share, alternative=alternative).pvalue)
    return Estimate.point(min(1.0, p), n, "exact_binomial", details={"successes": successes, "share": share})


def sign_test(b: int, c: int, *, mid_p: bool = False) -> Estimate:
    """Two-sided sign test of b against c, equal to the exact McNemar test; b + c = 0: null `no_discordant_pairs`.

    The default is the exact p-value. `mid_p` counts the observed table by half: less conservative, not guaranteed.
    """
    if b < 0 or c < 0:
        raise InvalidStatisticInput("discordant counts cannot be negative")
    n = b + c
    method = "sign_test_mid_p" if mid_p else "sign_test_exact"
    if n == 0:
        return Estimate.undefined(Reason.NO_DISCORDANT_PAIRS, 0, method)
    from scipy.stats import binom

    smaller = min(b, c)
    p = min(1.0, 2 * float(binom.cdf(smaller, n, 0.5)))
    if mid_p:
        # With b = c the doubled tail already exceeds 1, so the half of the observed table is taken from 1.
        p -= float(binom.pmf(smaller, n, 0.5))
    return Estimate.point(p, n, method, details={"b": b, "c": c})


def mcnemar(b: int, c: int, *, form: str = "exact") -> Estimate:
    """McNemar's test of paired verdicts with `b` and `c` discordant cases (1947); none: null `no_discordant_pairs`.

    `form`: `exact` (default), `mid_p`, `chi2`, `chi2_corrected` (continuity). The chi-square forms carry the flag
    `few_discordant_pairs` below b + c = 25 and the statistic in `details.statistic`.
    """
    if form in ("exact", "mid_p"):
        return sign_test(b, c, mid_p=form == "mid_p")
    if form not in ("chi2", "chi2_corrected"):
        raise InvalidStatisticInput(f"unknown form {form!r}: exact, mid_p, chi2 or chi2_corrected")
    if b < 0 or c < 0:
        raise InvalidStatisticInput("discordant counts cannot be negative")
    n = b + c
    method = f"mcnemar_{form}"
    if n == 0:
        return Estimate.undefined(Reason.NO_DISCORDANT_PAIRS, 0, method)
    from scipy.stats import chi2

    distance = abs(b - c)
    statistic = (max(0, distance - 1) if form == "chi2_corrected" else distance) ** 2 / n
    return Estimate.point(
        float(chi2.sf(statistic, 1)),
        n,
        method,
        flags=("few_discordant_pairs",) if n < 25 else (),
        details={"statistic": statistic, "b": b, "c": c},
    )


def holm(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """P-values adjusted by Holm's step-down (1979), in the order given. A null stays null and is not counted."""
    return _adjusted(p_values, "holm")


def benjamini_yekutieli(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """P-values adjusted for the false discovery rate under any dependence (Benjamini & Yekutieli 2001)."""
    return _adjusted(p_values, "fdr_by")


def _adjusted(p_values: Sequence[float | None], method: str) -> tuple[float | None, ...]:
    known = [position for position, p in enumerate(p_values) if p is not None]
    values = np.array([p_values[position] for position in known], dtype=np.float64)
    if values.size and not np.all((values >= 0) & (values <= 1)):
        raise InvalidStatisticInput("p-values lie between 0 and 1")
    adjusted: list[float | None] = [None] * len(p_values)
    if len(known) == 1:
        # One comparison needs no adjustment, and the library collects garbage at every call.
        adjusted[known[0]] = float(values[0])
    elif known:
        from statsmodels.stats.multitest import multipletests

        for position, p in zip(known, multipletests(values, method=method)[1], strict=True):
            adjusted[position] = float(p)
    return tuple(adjusted)


def e_value(b: int, c: int) -> Estimate:
    """Anytime-valid sign test: evidence against equal chances, 2^n B(1+b, 1+c) (uniform mixture; Ville 1939).

    Alarm when the value reaches 1/alpha. Valid for a stream of fresh cases only, not for anchors run again. Very large
    evidence is capped at the largest float, with the flag `capped`.
    """
    if b < 0 or c < 0:
        raise InvalidStatisticInput("discordant counts cannot be negative")
    n = b + c
    log_value = n * math.log(2) + math.lgamma(1 + b) + math.lgamma(1 + c) - math.lgamma(2 + n)
    capped = log_value > 700
    return Estimate.point(
        math.exp(min(log_value, 700)),
        n,
        "anytime_valid_sign_test",
        flags=("capped",) if capped else (),
        details={"b": b, "c": c},
    )
