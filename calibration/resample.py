"""Seeded bootstrap by group: one set of resamples for everything a report shows, so that differences are paired.

A resample is a vector of weights (how often each group was drawn). Statistics that are functions of sums over cases
(tables, counts, means) are computed for all resamples at once by a matrix product. Knows no statistic.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.estimate import Estimate, InvalidStatisticInput, Reason
from calibration.intervals import proportion
from calibration.weighted import WEIGHTED, weighted_share

DEFAULT_RESAMPLES = 10_000
FAST_RESAMPLES = 2_000
DEFAULT_SEED = 20_240_229
MIN_GROUPS = 10
FEW_GROUPS = 30
MAX_UNDEFINED_SHARE = 0.05

_EQUAL = 1e-12  # replicates this near each other are one value, summed in different orders
_KEEP_ELEMENTS = 128_000_000  # weights up to this number, a byte each, are kept instead of drawn again
_MAX_KIND_ELEMENTS = 16_000_000  # counts of kinds that are kept, eight bytes each
_MAX_GROUPED_KINDS = 256  # above this many kinds, adding them up by group costs more than it saves
_CHUNK_ELEMENTS = 4_000_000  # weights drawn at a time; keeps the peak low

Floats = NDArray[np.float64]
Weights = NDArray[np.uint8 | np.uint16 | np.uint32]


def group_codes(groups: Sequence[Hashable]) -> NDArray[np.int64]:
    """Number groups 0..G-1 in order of first appearance."""
    seen: dict[Hashable, int] = {}
    return np.fromiter((seen.setdefault(group, len(seen)) for group in groups), dtype=np.int64, count=len(groups))


def joint_types(*columns: Sequence[Hashable] | NDArray[np.generic]) -> NDArray[np.int64]:
    """Number the kinds of cases that agree in every one of `columns` (each with one entry a case)."""
    return group_codes(list(zip(*columns, strict=True)))


class _Draws:
    """The draws for one seed, number of resamples and number of groups: how often each group was drawn, as bytes."""

    def __init__(self, seed: int, resamples: int, n_groups: int) -> None:
        self.seed = seed
        self.resamples = resamples
        self.n_groups = n_groups
        self.asked = 0
        """How often counts by kind were asked for."""

    @property
    def worth_keeping(self) -> bool:
        """Counts by kind are drawn alone the first time, unless the counts by group are there or asked for again."""
        return self.asked > 1 or "kept" in self.__dict__

    @functools.cached_property
    def kept(self) -> tuple[Weights, ...] | None:
        """All chunks, made once; None where they would take too much memory."""
        if self.resamples * self.n_groups > _KEEP_ELEMENTS:
            return None
        return tuple(self.drawn())

    def weights(self) -> Iterator[Weights]:
        """Chunks of shape (resamples in the chunk, groups)."""
        yield from self.drawn() if self.kept is None else self.kept

    def drawn(self, kinds: NDArray[np.int64] | None = None) -> Iterator[Weights]:
        """Chunks of counts by group, or by kind of group; the draws are the same for both."""
        rng = np.random.Generator(np.random.PCG64(self.seed))
        size = self.n_groups
        width = size if kinds is None else int(kinds.max()) + 1
        step = max(1, min(self.resamples, _CHUNK_ELEMENTS // max(1, size)))
        narrow = np.uint16 if size <= 1 << 16 else np.uint32
        smallest = np.uint8 if kinds is None else np.uint32
        for start in range(0, self.resamples, step):
            rows = min(step, self.resamples - start)
            draws = rng.integers(0, size, size=(rows, size), dtype=narrow)
            counts = np.empty((rows, width), dtype=np.uint32)
            for row in range(rows):
                drawn = draws[row] if kinds is None else kinds[draws[row]]
                counts[row] = np.bincount(drawn, minlength=width)
            # Counts of a group are about Poisson with mean 1: they nearly always fit a byte.
            fits = counts.max(initial=0) <= np.iinfo(smallest).max
            yield counts.astype(smallest) if fits else counts


_in_use: weakref.WeakValueDictionary[tuple[int, int, int], _Draws] = weakref.WeakValueDictionary()
_in_use_lock = threading.Lock()


def _draws(seed: int, resamples: int, n_groups: int) -> _Draws:
    """The draws that some Resampler holds already, else new ones; they go when the last one that holds them does."""
    with _in_use_lock:
        found = _in_use.get((seed, resamples, n_groups))
        if found is None:
            found = _in_use[seed, resamples, n_groups] = _Draws(seed, resamples, n_groups)
        return found


class Resampler:
    """Draws `resamples` times G groups with replacement, from `numpy.random.Generator(PCG64(seed))`.

    `groups` names the group of each case (None: every case is its own). Two calls on one Resampler, and two Resamplers
    with equal seed, size and number of groups, use the same draws; while both live they are held in memory once.

    `types` numbers kinds of cases that no statistic will tell apart (see `joint_types`). Sums are then taken over the
    kinds: the same numbers from the same draws, much faster for many statistics of cases of few kinds.

    `weights` are one over the cases' probabilities of being here, in any unit, where these differ (`design_weights`).
    Drawing is the same with them; shares, and what else has a weighted form, count each case by its weight.
    """

    def __init__(
        self,
        n_cases: int,
        groups: Sequence[Hashable] | None = None,
        *,
        resamples: int = DEFAULT_RESAMPLES,
        seed: int = DEFAULT_SEED,
        types: NDArray[np.int64] | None = None,
        weights: Floats | None = None,
    ) -> None:
        if weights is not None and (weights.shape != (n_cases,) or not np.all(weights > 0)):
            raise InvalidStatisticInput("weights are one positive number for each case")
        if resamples < 1:
            raise InvalidStatisticInput("a bootstrap needs at least one resample")
        if groups is not None and len(groups) != n_cases:
            raise InvalidStatisticInput(f"{len(groups)} groups given for {n_cases} cases")
        self.n_cases = n_cases
        self.resamples = resamples
        self.seed = seed
        self.weights = weights
        self.codes = np.arange(n_cases, dtype=np.int64) if groups is None else group_codes(groups)
        self.n_groups = int(self.codes.max()) + 1 if n_cases else 0
        self.clustered = self.n_groups < n_cases
        self._draws = _draws(seed, resamples, self.n_groups)
        self._declare(types)

    def _declare(self, types: NDArray[np.int64] | None) -> None:
        if types is not None and types.shape != (self.n_cases,):
            raise InvalidStatisticInput("types must have one number for each case")
        self._kinds: NDArray[np.int64] | None = None
        if types is not None and self.weights is not None:
            types = joint_types(types, self.weights)
        if types is not None and self.n_cases:
            used, example, kinds = np.unique(types, return_index=True, return_inverse=True)
            few = (
                used.size <= _MAX_GROUPED_KINDS if self.clustered else used.size * self.resamples <= _MAX_KIND_ELEMENTS
            )
            if few:
                self._kinds, self._example = kinds.astype(np.int64), example

    def with_types(self, types: NDArray[np.int64]) -> Resampler:
        """The same draws, with other kinds of cases declared."""
        other = copy.copy(self)
        other.__dict__.pop("_by_kind", None)
        other._declare(types)
        return other

    @property
    def has_kinds(self) -> bool:
        """Whether the declared kinds are few enough to be used."""
        return self._kinds is not None

    def keep(self) -> None:
        """Draw at once, if memory allows: for a caller who knows that not all it will ask is of few kinds."""
        _ = self._draws.kept

    @property
    def method(self) -> str:
        """Name of the interval for an Estimate."""
        return "cluster_bootstrap_percentile" if self.clustered else "bootstrap_percentile"

    def unweighted(self) -> Resampler:
        """The same draws, every case counting once."""
        other = copy.copy(self)
        other.weights = None
        return other

    @functools.cached_property
    def _by_kind(self) -> Floats:
        """Counts of each kind of case in each resample."""
        kinds = self._kinds
        if kinds is None:
            raise InvalidStatisticInput("no kinds of cases were declared")
        self._draws.asked += 1
        if not self.clustered and (not self._draws.worth_keeping or self._draws.kept is None):
            return np.concatenate([chunk.astype(np.float64) for chunk in self._draws.drawn(kinds)])
        members = np.zeros((self.n_groups, int(kinds.max()) + 1), dtype=np.float32)
        np.add.at(members, (self.codes, kinds), 1)
        return np.concatenate([chunk @ members for chunk in self.group_weights()]).astype(np.float64)

    def _weights(self, kind: type[np.floating[Any]]) -> Iterator[NDArray[Any]]:
        for chunk in self._draws.weights():
            yield chunk.astype(kind)

    def group_weights(self) -> Iterator[NDArray[np.float32]]:
        """Chunks of shape (resamples in the chunk, groups): how often each group was drawn."""
        return self._weights(np.float32)

    def case_weights(self) -> Iterator[Weights]:
        """Chunks of shape (resamples in the chunk, cases): how often each case was drawn."""
        for chunk in self._draws.weights():
            yield chunk[:, self.codes] if self.clustered else chunk

    def sums(self, features: NDArray[np.generic]) -> Floats:
        """Sum of `features` (cases x k) over each resample, shape (resamples, k). Exact for counts below 2**24."""
        columns = np.asarray(features)
        if columns.ndim != 2 or columns.shape[0] != self.n_cases:
            raise InvalidStatisticInput(f"features must have shape ({self.n_cases}, k), not {columns.shape}")
        if self._kinds is not None:
            of_kind = columns[self._example]
            # A statistic that does tell cases of a kind apart takes the long way, with the same draws.
            if np.array_equal(of_kind[self._kinds], columns):
                return self._by_kind @ of_kind.astype(np.float64)
        if self.clustered:
            grouped = np.zeros((self.n_groups, columns.shape[1]), dtype=np.float64)
            np.add.at(grouped, self.codes, columns)
            columns = grouped
        exact = columns.dtype.kind in "biu" or bool(np.all(columns == np.round(columns)))
        kind = np.float32 if exact else np.float64
        columns = np.ascontiguousarray(columns, dtype=kind)
        return np.concatenate([chunk @ columns for chunk in self._weights(kind)]).astype(np.float64)

    def cell_sums(self, cells: NDArray[np.integer], n_cells: int) -> Floats:
        """Counts of `n_cells` cells in each resample, one cell number a case; shape (resamples, n_cells).

        With weights: the cases' weights in each cell.
        """
        used, position = np.unique(cells, return_inverse=True)
        onehot = np.zeros((self.n_cases, used.size), dtype=np.float32 if self.weights is None else np.float64)
        onehot[np.arange(self.n_cases), position] = 1 if self.weights is None else self.weights
        counts = np.zeros((self.resamples, n_cells))
        counts[:, used] = self.sums(onehot)
        return counts

    def interval(
        self,
        value: float,
        replicates: Floats,
        *,
        n: int | None = None,
        level: float = 0.95,
        method: str | None = None,
        numerator: float | None = None,
        denominator: float | None = None,
        flags: tuple[str, ...] = (),
        details: dict[str, object] | None = None,
        jackknife: Floats | None = None,
    ) -> Estimate:
        """Estimate with the percentile interval of `replicates` (NaN = undefined in that resample).

        With `jackknife`, the values without each group, the interval is BCa (Efron 1987) and its method says so.

        Under 10 groups: no interval, `too_few_groups`; under 30: flag `few_groups`. More than 5% undefined: no
        interval, `unstable_bootstrap`. All replicates equal: no interval, `zero_variance`, since a width of 0 would
        claim a certainty that no sample gives. Resamples, seed, unit and the number undefined are in `details`.
        """
        defined = replicates[np.isfinite(replicates)]
        undefined = int(replicates.size - defined.size)
        facts: dict[str, object] = {
            **(details or {}),
            "resamples": self.resamples,
            "seed": self.seed,
            "unit": "group" if self.clustered else "case",
            "groups": self.n_groups,
            "undefined_resamples": undefined,
        }
        marks = flags
        if self.resamples < DEFAULT_RESAMPLES:
            marks = (*marks, "fast_bootstrap")
        low = high = None
        reason = None
        if self.n_groups < MIN_GROUPS:
            reason = Reason.TOO_FEW_GROUPS
        elif replicates.size == 0 or undefined > MAX_UNDEFINED_SHARE * replicates.size:
            reason = Reason.UNSTABLE_BOOTSTRAP
        elif float(np.ptp(defined)) <= _EQUAL:
            reason = Reason.ZERO_VARIANCE
        else:
            tail = (1 - level) / 2
            ends = [tail, 1 - tail] if jackknife is None else _bca_levels(value, defined, jackknife, tail)
            low, high = (float(x) for x in np.quantile(defined, ends))
            if self.n_groups < FEW_GROUPS:
                marks = (*marks, "few_groups")
        return Estimate(
            value,
            low,
            high,
            self.n_cases if n is None else n,
            (method or self.method) if jackknife is None else (method or self.method).replace("percentile", "bca"),
            interval_reason=reason,
            numerator=numerator,
            denominator=denominator,
            level=level,
            flags=marks,
            details=facts,
        )


def _bca_levels(value: float, replicates: Floats, jackknife: Floats, tail: float) -> list[float]:
    """Levels of the replicates' distribution at which the BCa interval ends."""
    from scipy.stats import norm

    below = float((replicates < value).mean() + (replicates == value).mean() / 2)
    below = min(max(below, 1 / (2 * replicates.size)), 1 - 1 / (2 * replicates.size))
    shift = float(norm.ppf(below))
    left_out = jackknife[np.isfinite(jackknife)]
    deviations = left_out.mean() - left_out if left_out.size else np.zeros(1)
    spread = float((deviations**2).sum())
    acceleration = float((deviations**3).sum()) / (6 * spread**1.5) if spread > 1e-18 else 0.0
    levels = []
    for z in (float(norm.ppf(tail)), float(norm.ppf(1 - tail))):
        room = 1 - acceleration * (shift + z)
        levels.append(float(norm.cdf(shift + (shift + z) / room)) if room > 1e-9 else float(z > 0))
    return [min(levels), max(levels)]


def share(
    hits: NDArray[np.bool_], known: NDArray[np.bool_] | None = None, resampler: Resampler | None = None
) -> Estimate:
    """Share of `hits` among the `known` cases (None: all): Wilson, or the cluster bootstrap when cases are grouped.

    Grouped, with all cases hits or none: Wilson over the groups as units, since no resample differs from the sample.
    With weights: Hajek's ratio, and Wilson at the effective size (`weighted_share`) or the cluster bootstrap.
    """
    among = np.ones(hits.size, dtype=bool) if known is None else known
    n, successes = int(among.sum()), int((hits & among).sum())
    if resampler is not None and resampler.weights is not None:
        return _weighted(hits, among, resampler, resampler.weights)
    if n == 0 or resampler is None or not resampler.clustered:
        return proportion(successes, n)
    groups = np.unique(resampler.codes[among]).size
    if successes in (0, n) and groups >= MIN_GROUPS:
        of_groups = proportion(groups if successes else 0, groups)
        details = {"unit": "group", "groups": groups}
        return dataclasses.replace(
            of_groups,
            n=n,
            numerator=successes,
            denominator=n,
            method="wilson_of_groups",
            flags=("few_groups",) if groups < FEW_GROUPS else (),
            details=details,
        )
    sums = resampler.sums(np.column_stack([hits & among, among]))
    return resampler.interval(
        successes / n, ratio_replicates(sums[:, 0], sums[:, 1]), n=n, numerator=successes, denominator=n
    )


def _weighted(hits: NDArray[np.bool_], among: NDArray[np.bool_], resampler: Resampler, weights: Floats) -> Estimate:
    units = resampler.codes[among] if resampler.clustered else None
    plain = weighted_share(hits[among], weights[among], units)
    sure = plain.value in (0.0, 1.0) and np.unique(resampler.codes[among]).size >= MIN_GROUPS
    if not resampler.clustered or plain.value is None or sure:
        return plain
    sums = resampler.sums(np.column_stack([(hits & among) * weights, among * weights]))
    return resampler.interval(
        plain.value,
        ratio_replicates(sums[:, 0], sums[:, 1]),
        n=plain.n,
        method=f"{WEIGHTED}_{resampler.method}",
        numerator=plain.numerator,
        denominator=plain.denominator,
        details=dict(plain.details),
    )


def ratio_replicates(numerator: Floats, denominator: Floats) -> Floats:
    """Divide, with NaN where the denominator is 0."""
    result = np.full(np.broadcast(numerator, denominator).shape, np.nan)
    np.divide(numerator, denominator, out=result, where=np.asarray(denominator) != 0)
    return result


def enumerate_means(values: Sequence[float]) -> Floats:
    """Means of all n**n equally likely resamples of `values` (n <= 7): the exact bootstrap distribution of a mean."""
    x = np.asarray(values, dtype=np.float64)
    n = x.size
    if n == 0 or n > 7:
        raise InvalidStatisticInput("the full enumeration is for 1 to 7 values")
    totals = np.zeros(1)
    for _ in range(n):
        totals = (totals[:, None] + x[None, :]).ravel()
    return np.asarray(totals / n)


def bootstrap(statistic: Callable[[NDArray[np.int64]], float], resampler: Resampler) -> Floats:
    """Replicates of any `statistic` of a list of case numbers (repeated as drawn): slow, for what is no sum over cases.

    Return NaN from `statistic` where it is undefined.
    """
    replicates = np.empty(resampler.resamples)
    position = 0
    cases = np.arange(resampler.n_cases)
    for chunk in resampler.case_weights():
        for weights in chunk:
            replicates[position] = statistic(np.repeat(cases, weights.astype(np.int64)))
            position += 1
    return replicates
