"""Ranking many systems from pairwise verdicts: win rates, Bradley-Terry, Davidson's ties, and when neither exists."""

from __future__ import annotations

import dataclasses
import itertools
import math
import warnings
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration.estimate import Estimate, InvalidStatisticInput, Reason
from calibration.intervals import proportion, z_of
from calibration.resample import DEFAULT_SEED, FAST_RESAMPLES, Resampler

Floats = NDArray[np.float64]

DAVIDSON_ABOVE_TIES = 0.2


def win_rate(
    wins: int,
    ties: int,
    losses: int,
    *,
    both_bad: int = 0,
    level: float = 0.95,
) -> Estimate:
    """Mean credit of a side, a tie half a win, s.e. sd/sqrt(n); no comparison: null `empty`, never 0.5.

    `both_bad` verdicts count as ties and are shown on their own. `details` has all counts, the s.e. and the decided
    win rate. The two sides' rates sum to 1. For prompts with several comparisons use `win_rate_of_credits`.
    """
    if min(wins, ties, losses, both_bad) < 0:
        raise InvalidStatisticInput("counts cannot be negative")
    draws = ties + both_bad
    n = wins + draws + losses
    details: dict[str, Any] = {"wins": wins, "ties": ties, "losses": losses, "both_bad": both_bad}
    if n == 0:
        return Estimate.undefined(Reason.EMPTY, 0, "win_rate_ties_half", details=details)
    value = (wins + draws / 2) / n
    decided = proportion(wins, wins + losses).value
    details |= {"decided_win_rate": decided, "decided": wins + losses}
    if n == 1:
        return Estimate(
            value,
            None,
            None,
            1,
            "win_rate_ties_half",
            interval_reason=Reason.N_BELOW_2,
            details={**details, "se": None},
        )
    squares = wins * (1 - value) ** 2 + losses * value**2 + draws * (0.5 - value) ** 2
    se = math.sqrt(squares / (n - 1) / n)
    details["se"] = se
    if se == 0:
        return Estimate(
            value, None, None, n, "win_rate_ties_half", interval_reason=Reason.ZERO_VARIANCE, details=details
        )
    half = z_of(level) * se
    return Estimate(
        value,
        max(0.0, value - half),
        min(1.0, value + half),
        n,
        "win_rate_ties_half",
        level=level,
        details=details,
    )


def win_rate_of_credits(credits_: Sequence[float], prompts: Sequence[Hashable]) -> Estimate:
    """Win rate from the credit (1, 0.5, 0) of each comparison, clustered by prompt."""
    from calibration.paired import clustered_mean

    if any(credit not in (0, 0.5, 1) for credit in credits_):
        raise InvalidStatisticInput("credits are 1, 0.5 or 0")
    return clustered_mean(np.asarray(credits_, dtype=np.float64), prompts)


def _matrices(wins: ArrayLike, ties: ArrayLike | None) -> tuple[Floats, Floats]:
    won = np.asarray(wins, dtype=np.float64)
    drawn = np.zeros_like(won) if ties is None else np.asarray(ties, dtype=np.float64)
    if won.ndim != 2 or won.shape[0] != won.shape[1] or drawn.shape != won.shape:
        raise InvalidStatisticInput("wins and ties are square matrices of one size")
    if np.any(won < 0) or np.any(drawn < 0) or not np.allclose(drawn, drawn.T):
        raise InvalidStatisticInput("wins and ties are counts, and ties are symmetric")
    return won, drawn


def connected(wins: ArrayLike, ties: ArrayLike | None = None) -> bool:
    """Whether strengths exist: wins (ties both ways) join all systems in both directions (Ford 1957)."""
    won, drawn = _matrices(wins, ties)
    if won.shape[0] < 2:
        return bool(won.shape[0] == 1)
    from scipy.sparse.csgraph import connected_components

    graph = ((won + drawn) > 0).astype(np.int8)
    np.fill_diagonal(graph, 0)
    return int(connected_components(graph, directed=True, connection="strong")[0]) == 1


@dataclasses.dataclass(frozen=True)
class Strengths:
    """Log strengths centred to mean 0, in the order of `systems`; all null with one reason when they do not exist.

    `tie_parameter` is Davidson's nu (null for Bradley-Terry). `fit_gaps` has fitted minus observed win rates of every
    compared pair, a check of transitivity.
    """

    systems: tuple[str, ...]
    log_strength: dict[str, Estimate]
    method: str
    tie_parameter: float | None = None
    undefined_reason: Reason | None = None
    fit_gaps: dict[tuple[str, str], float] = dataclasses.field(default_factory=dict, hash=False)

    def ranking(self) -> list[str]:
        """Systems from the strongest on; empty when the strengths do not exist."""
        if self.undefined_reason is not None:
            return []
        return sorted(self.systems, key=lambda name: -(self.log_strength[name].value or 0.0))


def _undefined(systems: Sequence[str], n: int, method: str, reason: Reason) -> Strengths:
    nothing = Estimate.undefined(reason, n, method)
    return Strengths(tuple(systems), dict.fromkeys(systems, nothing), method, None, reason)


def _minorise(halves: Floats, start: Floats | None = None) -> Floats:
    """Bradley-Terry strengths of a strongly connected table, by Newton steps on the concave log likelihood."""
    k = halves.shape[0]
    games = halves + halves.T
    total = halves.sum(axis=1)
    x = np.zeros(k) if start is None else start.copy()
    for _ in range(200):
        p = 1 / (1 + np.exp(x[None, :] - x[:, None]))
        gradient = total - (games * p).sum(axis=1)
        weight = games * p * (1 - p)
        # The all-equal direction is free: adding a constant to the information fixes it without moving the optimum.
        information = np.diag(weight.sum(axis=1)) - weight + 1 / k
        step = np.linalg.solve(information, gradient)
        scale = max(1.0, float(np.abs(step).max()) / 2)
        x = x + step / scale
        if np.abs(step).max() < 1e-12:
            break
    return np.asarray(x - x.mean())


def bradley_terry(systems: Sequence[str], wins: ArrayLike, ties: ArrayLike | None = None) -> Strengths:
    """Maximum-likelihood log strengths (Bradley & Terry 1952; Hunter 2004), a tie half a win each, without a prior.

    `wins[i][j]` counts wins of i over j. Not connected in both directions: null `disconnected`.
    """
    won, drawn = _matrices(wins, ties)
    n = round(float(won.sum() + drawn.sum() / 2))
    if len(systems) != len(won):
        raise InvalidStatisticInput("systems must name every row of wins")
    if n == 0:
        return _undefined(systems, 0, "bradley_terry", Reason.EMPTY)
    if not connected(won, drawn):
        return _undefined(systems, n, "bradley_terry", Reason.DISCONNECTED)
    halves = won + drawn / 2
    np.fill_diagonal(halves, 0)
    x = _minorise(halves)
    share_of_ties = float(drawn.sum() / 2) / n
    flags = ("many_ties_consider_davidson",) if share_of_ties > DAVIDSON_ABOVE_TIES else ()
    gaps = {
        (systems[i], systems[j]): float(1 / (1 + math.exp(x[j] - x[i])) - halves[i, j] / (halves[i, j] + halves[j, i]))
        for i in range(len(x))
        for j in range(i + 1, len(x))
        if halves[i, j] + halves[j, i] > 0
    }
    return Strengths(
        tuple(systems),
        {
            name: Estimate.point(float(value), n, "bradley_terry", flags=flags)
            for name, value in zip(systems, x, strict=True)
        },
        "bradley_terry",
        None,
        None,
        gaps,
    )


def davidson(systems: Sequence[str], wins: ArrayLike, ties: ArrayLike) -> Strengths:
    """Bradley-Terry with ties of their own, P(tie) ~ nu sqrt(pi_i pi_j) (Davidson 1970), as a Poisson log-linear model.

    For more than 20% ties. Not connected: null `disconnected`; no tie at all: nu would be 0, use `bradley_terry`.
    """
    won, drawn = _matrices(wins, ties)
    n = round(float(won.sum() + drawn.sum() / 2))
    if n == 0:
        return _undefined(systems, 0, "davidson", Reason.EMPTY)
    if not connected(won, drawn):
        return _undefined(systems, n, "davidson", Reason.DISCONNECTED)
    if drawn.sum() == 0:
        return dataclasses.replace(bradley_terry(systems, won), method="davidson", tie_parameter=0.0)
    k = len(won)
    pairs = [(i, j) for i in range(k) for j in range(i + 1, k) if won[i, j] + won[j, i] + drawn[i, j] > 0]
    design, counts = [], []
    for number, (i, j) in enumerate(pairs):
        for side, count in ((i, won[i, j]), (j, won[j, i]), (None, drawn[i, j])):
            row = np.zeros(k + 1 + len(pairs))
            if side is None:
                row[[i, j]] = 0.5
                row[k] = 1
            else:
                row[side] = 1
            row[k + 1 + number] = 1
            design.append(row)
            counts.append(count)
    import statsmodels.api as sm

    # The first system's column is dropped: only differences of strengths are determined.
    columns = np.array(design)[:, 1:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = sm.GLM(np.array(counts), columns, family=sm.families.Poisson()).fit(maxiter=300, tol=1e-13)
    parameters = np.asarray(fit.params, dtype=np.float64)
    if not np.all(np.isfinite(parameters)):
        return _undefined(systems, n, "davidson", Reason.SEPARATION)
    x = np.concatenate([[0.0], parameters[: k - 1]])
    x -= x.mean()
    return Strengths(
        tuple(systems),
        {name: Estimate.point(float(value), n, "davidson") for name, value in zip(systems, x, strict=True)},
        "davidson",
        float(np.exp(parameters[k - 1])),
    )


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One judged pair: `credit` of the first system 1, 0.5 or 0, on `prompt`."""

    first: str
    second: str
    credit: float
    prompt: Hashable


@dataclasses.dataclass(frozen=True)
class Leaderboard:
    """Strengths with bootstrap intervals, rank intervals, and neighbours that are not separated."""

    strengths: Strengths
    rank_interval: dict[str, tuple[int, int] | None]
    not_separated: tuple[tuple[str, str], ...]


def leaderboard(
    comparisons: Sequence[Comparison], *, resamples: int = FAST_RESAMPLES, seed: int = DEFAULT_SEED
) -> Leaderboard:
    """Bradley-Terry over comparisons, resampling whole prompts; half a win for a tie.

    Neighbours in rank are not separated when the interval of their difference, at Holm's strictest level over the
    neighbours, contains 0. Resamples that are not connected are undefined and counted.
    """
    systems = sorted({name for c in comparisons for name in (c.first, c.second)})
    number = {name: i for i, name in enumerate(systems)}
    k = len(systems)
    for comparison in comparisons:
        if comparison.credit not in (0, 0.5, 1) or comparison.first == comparison.second:
            raise InvalidStatisticInput("a comparison has two systems and a credit of 1, 0.5 or 0")
    features = np.zeros((len(comparisons), k * k))
    for row, c in enumerate(comparisons):
        features[row, number[c.first] * k + number[c.second]] += c.credit
        features[row, number[c.second] * k + number[c.first]] += 1 - c.credit
    total = features.sum(axis=0).reshape(k, k)
    strengths = bradley_terry(systems, total)
    if strengths.undefined_reason is not None:
        return Leaderboard(strengths, dict.fromkeys(systems), ())
    resampler = Resampler(len(comparisons), [c.prompt for c in comparisons], resamples=resamples, seed=seed)
    start = np.array([strengths.log_strength[name].value for name in systems], dtype=np.float64)
    replicates = np.full((resamples, k), np.nan)
    for row, table in enumerate(resampler.sums(features).reshape(-1, k, k)):
        if connected(table):
            replicates[row] = _minorise(table, start)
    estimates = {
        name: resampler.interval(
            float(start[i]),
            replicates[:, i],
            method=f"bradley_terry/{resampler.method}",
            details={"prompts": resampler.n_groups},
        )
        for name, i in number.items()
    }
    strengths = dataclasses.replace(strengths, log_strength=estimates)
    ranking = strengths.ranking()
    usable = replicates[np.all(np.isfinite(replicates), axis=1)]
    ranks: dict[str, tuple[int, int] | None] = dict.fromkeys(systems)
    close: list[tuple[str, str]] = []
    if estimates[systems[0]].low is None:
        return Leaderboard(strengths, ranks, tuple(itertools.pairwise(ranking)))
    placed = (-usable).argsort(axis=1).argsort(axis=1) + 1
    for name, i in number.items():
        low, high = np.quantile(placed[:, i], [0.025, 0.975], method="inverted_cdf")
        ranks[name] = (int(low), int(high))
    tail = 0.025 / max(1, k - 1)
    for better, worse in itertools.pairwise(ranking):
        difference = usable[:, number[better]] - usable[:, number[worse]]
        if np.quantile(difference, tail) <= 0:
            close.append((better, worse))
    return Leaderboard(strengths, ranks, tuple(close))
