"""How far one judge agrees with one human label a case, under a declared set of classes.

Owns the labels' coding, the rules for undefined values and failed verdicts, and the names of the figures; the formulas
are in `contingency`, several raters in `raters`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration import contingency
from calibration.estimate import Estimate, InvalidStatisticInput, Reason, finite
from calibration.resample import DEFAULT_RESAMPLES, DEFAULT_SEED, Resampler, ratio_replicates, share
from calibration.weighted import WEIGHTED

FAILED = -1
"""Code of a judge's verdict that is missing or unreadable."""

SKEWED_PREVALENCE = 0.8
"""From this share of the larger human class on, kappa is marked as depressed by prevalence."""


def code_labels(labels: Sequence[object], classes: Sequence[object], what: str) -> NDArray[np.int64]:
    """Numbers 0..K-1 of labels in the declared order of `classes`; None becomes -1, anything else is refused."""
    number = {label: position for position, label in enumerate(classes)}
    if len(number) != len(classes):
        raise InvalidStatisticInput("a class is declared twice")
    codes = np.empty(len(labels), dtype=np.int64)
    for position, label in enumerate(labels):
        if label is None:
            codes[position] = FAILED
        elif label in number:
            codes[position] = number[label]
        else:
            raise InvalidStatisticInput(f"{what}[{position}]: {label!r} is not one of the declared classes")
    return codes


@dataclasses.dataclass(frozen=True, eq=False)
class PairedLabels:
    """A judge's and a human's label for the same cases, coded by the declared classes.

    `judge` may hold -1 (no usable verdict: stays in the denominators and counts as not agreeing); `human` never does.
    `ordered` says that the classes are in a meaningful order.
    """

    classes: tuple[str, ...]
    judge: NDArray[np.int64]
    human: NDArray[np.int64]
    groups: tuple[Hashable, ...] | None = None
    ordered: bool = False
    unlabelled: int = 0

    @classmethod
    def of(
        cls,
        judge: Sequence[object],
        human: Sequence[object],
        classes: Sequence[object],
        *,
        groups: Sequence[Hashable] | None = None,
        ordered: bool = False,
    ) -> PairedLabels:
        """From labels. The judge's None is a failed verdict; a case whose human label is None is left out, counted."""
        if len(judge) != len(human) or (groups is not None and len(groups) != len(human)):
            raise InvalidStatisticInput("judge, human and groups must have one entry for each case")
        human_codes = code_labels(human, classes, "human")
        judge_codes = code_labels(judge, classes, "judge")
        kept = human_codes != FAILED
        return cls(
            tuple(str(label) for label in classes),
            judge_codes[kept],
            human_codes[kept],
            None if groups is None else tuple(group for group, keep in zip(groups, kept, strict=True) if keep),
            ordered,
            int((~kept).sum()),
        )

    @classmethod
    def from_table(
        cls, table: ArrayLike, classes: Sequence[object] | None = None, *, ordered: bool = False
    ) -> PairedLabels:
        """From counts, rows the judge's class and columns the human's, K x K."""
        counts = np.asarray(table)
        if counts.ndim != 2 or counts.shape[0] != counts.shape[1] or np.any(counts < 0):
            raise InvalidStatisticInput("a table of agreement is square and holds counts")
        k = counts.shape[0]
        cells = np.repeat(np.arange(k * k), counts.ravel().astype(np.int64))
        names = tuple(str(label) for label in (range(k) if classes is None else classes))
        if len(names) != k:
            raise InvalidStatisticInput(f"{len(names)} classes declared for a {k} x {k} table")
        return cls(names, cells // k, cells % k, None, ordered)

    def __len__(self) -> int:
        return len(self.human)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Where the judge gave a usable verdict."""
        return np.asarray(self.judge != FAILED)

    def resampler(self, *, resamples: int = DEFAULT_RESAMPLES, seed: int = DEFAULT_SEED) -> Resampler:
        """A bootstrap over the cases or, where given, their groups."""
        return Resampler(len(self), self.groups, resamples=resamples, seed=seed)


class Agreement:
    """Every figure of agreement of one judge, with intervals when a `resampler` over the same cases is given.

    The resampled tables are computed once and shared, so intervals of different figures are of the same resamples.
    Without a resampler only Wilson intervals are given; the others say `not_estimated`. `interval` names the kind of
    bootstrap interval: `percentile` (default) or `bca` (bias-corrected and accelerated, Efron 1987).

    Where the resampler has weights, figures are those of the table of weights (methods begin with `hajek`); alpha and
    the analytic error of kappa, which rest on the number of cases, are null `unequal_probabilities`.
    """

    def __init__(
        self, labels: PairedLabels, resampler: Resampler | None = None, *, interval: str = "percentile"
    ) -> None:
        if resampler is not None and resampler.n_cases != len(labels):
            raise InvalidStatisticInput("the resampler is not over these cases")
        if interval not in ("percentile", "bca"):
            raise InvalidStatisticInput(f"unknown interval {interval!r}: percentile or bca")
        self.labels = labels
        self.resampler = resampler
        self._bca = interval == "bca"

    @functools.cached_property
    def counts(self) -> NDArray[np.int64]:
        """Counts of shape (K + 1, K): judge's class by human class, the last row the failed verdicts."""
        k = len(self.labels.classes)
        table = np.zeros((k + 1, k), dtype=np.int64)
        rows = np.where(self.labels.judge == FAILED, k, self.labels.judge)
        np.add.at(table, (rows, self.labels.human), 1)
        return table

    @property
    def weights(self) -> NDArray[np.float64] | None:
        """One over the probability of each case, scaled to mean 1; None where all count alike."""
        if self.resampler is None or self.resampler.weights is None or not len(self.labels):
            return None
        return self.resampler.weights / float(self.resampler.weights.mean())

    @functools.cached_property
    def masses(self) -> NDArray[np.float64]:
        """`counts` with each case by its weight: what figures are computed from."""
        weights = self.weights
        if weights is None:
            return self.counts.astype(np.float64)
        k = len(self.labels.classes)
        table = np.zeros((k + 1, k))
        np.add.at(table, (np.where(self.labels.judge == FAILED, k, self.labels.judge), self.labels.human), weights)
        return table

    @property
    def table(self) -> NDArray[np.float64]:
        """The K x K table of the usable verdicts, by weight where cases have weights."""
        return self.masses[:-1]

    @functools.cached_property
    def _resampled(self) -> NDArray[np.float64] | None:
        if self.resampler is None or len(self.labels) == 0:
            return None
        k = len(self.labels.classes)
        rows = np.where(self.labels.judge == FAILED, k, self.labels.judge)
        return self.resampler.cell_sums(rows * k + self.labels.human, (k + 1) * k).reshape(-1, k + 1, k)

    @functools.cached_property
    def _resampled_usable(self) -> NDArray[np.float64] | None:
        return None if self._resampled is None else np.ascontiguousarray(self._resampled[:, :-1, :])

    def raw(self) -> Estimate:
        """Share of all expected cases on which judge and human give the same label; a failed verdict does not agree."""
        return self._with_failures(share(self.labels.judge == self.labels.human, None, self.resampler))

    def raw_valid(self) -> Estimate:
        """The same share over the usable verdicts only; shown beside `raw`, never instead of it."""
        return share(self.labels.judge == self.labels.human, self.labels.known, self.resampler)

    def valid_rate(self) -> Estimate:
        """Share of the expected cases with a usable verdict."""
        return share(self.labels.known, None, self.resampler)

    def within_one(self) -> Estimate:
        """Share of all expected cases at most one step apart; null `not_ordered` for classes without an order."""
        if not self.labels.ordered:
            return Estimate.undefined(Reason.NOT_ORDERED, len(self.labels), "within_one_step")
        near = self.labels.known & (np.abs(self.labels.judge - self.labels.human) <= 1)
        return self._with_failures(share(near, None, self.resampler))

    def kappa(self, weights: str | None = None, *, one_class: str = "null") -> Estimate:
        """Cohen's kappa over the usable verdicts; `weights` None, `linear` or `quadratic` (ordered classes only).

        Both sides constant with one class: null `one_class` (default), or 1 without an interval where `one_class` is
        `one`, as some tools count it. One side constant: 0 by formula, flag `constant_rater`.
        """
        if one_class not in ("null", "one"):
            raise InvalidStatisticInput(f"unknown rule {one_class!r} for one class: null or one")
        name = "cohen_kappa" if weights is None else f"cohen_kappa_{weights}"
        if weights is not None and not self.labels.ordered:
            return Estimate.undefined(Reason.NOT_ORDERED, int(self.table.sum()), name)
        estimate = self._of_table(lambda tables: contingency.cohen(tables, weights), name)
        if one_class == "one" and estimate.undefined_reason is Reason.ONE_CLASS:
            return Estimate.point(1.0, estimate.n, f"{name}/one_class_is_one", flags=("one_class",))
        return estimate

    def kappa_failures_wrong(self) -> Estimate:
        """Cohen's kappa with failed verdicts as a class of their own that no human used: the end with all wrong."""
        k = len(self.labels.classes)

        def squared(counts: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.concatenate([counts, np.zeros((*counts.shape[:-2], k + 1, 1))], axis=-1)

        return self._figure(
            squared(self.masses),
            None if self._resampled is None else squared(self._resampled),
            contingency.cohen,
            "cohen_kappa_failures_wrong",
        )

    def kappa_se(self) -> Estimate:
        """Large-sample standard error of kappa (Fleiss, Cohen & Everitt 1969): a cross-check of the bootstrap."""
        kappa = self.kappa()
        n = kappa.n
        if kappa.undefined_reason is not None:
            return Estimate.undefined(kappa.undefined_reason, n, "kappa_se_analytic")
        if self.weights is not None:
            return Estimate.undefined(Reason.UNEQUAL_PROBABILITIES, n, "kappa_se_analytic")
        p = self.table / n
        rows, columns = p.sum(axis=1), p.sum(axis=0)
        chance = float(rows @ columns)
        observed = float(np.trace(p))
        value = (observed - chance) / (1 - chance)
        diagonal = float((np.diag(p) * (1 - (rows + columns) * (1 - value)) ** 2).sum())
        cross = p * (columns[:, None] + rows[None, :]) ** 2
        off = (1 - value) ** 2 * float(cross.sum() - np.trace(cross))
        variance = (diagonal + off - (value - chance * (1 - value)) ** 2) / (n * (1 - chance) ** 2)
        return Estimate.point(math.sqrt(max(0.0, variance)), n, "kappa_se_analytic")

    def ac(self, weights: str | None = None) -> Estimate:
        """Gwet's AC1 (weights None) or AC2 over the declared classes; high for skewed classes by construction."""
        name = "gwet_ac1" if weights is None else f"gwet_ac2_{weights}"
        if weights is not None and not self.labels.ordered:
            return Estimate.undefined(Reason.NOT_ORDERED, int(self.table.sum()), name)
        return self._of_table(lambda tables: contingency.gwet(tables, weights), name, at_least=1)

    def alpha(self, metric: str = "nominal") -> Estimate:
        """Krippendorff's alpha of judge and human as two raters; `metric` nominal, or ordinal for ordered classes."""
        from calibration.raters import distances

        name = f"krippendorff_alpha_{metric}"
        if metric != "nominal" and not self.labels.ordered:
            return Estimate.undefined(Reason.NOT_ORDERED, int(self.table.sum()), name)
        if metric not in ("nominal", "ordinal"):
            raise InvalidStatisticInput("labels have the metrics nominal and ordinal; numbers are for raters.alpha")
        if self.weights is not None:
            return Estimate.undefined(Reason.UNEQUAL_PROBABILITIES, int(self.counts[:-1].sum()), name)

        def formula(tables: NDArray[np.float64]) -> NDArray[np.float64]:
            pairs = tables + np.swapaxes(tables, -2, -1)
            return contingency.alpha_from_coincidences(pairs, distances(contingency.row_sums(pairs), metric))

        return self._of_table(formula, name)

    def mcc(self) -> Estimate:
        """Matthews correlation, multi-class R_K; null `one_class` when either side uses one class only."""
        return self._of_table(contingency.gorodkin, "mcc")

    def balanced_accuracy(self) -> Estimate:
        """Mean over the human classes of the share the judge gives the same; failed verdicts do not agree."""

        def formula(counts: NDArray[np.float64]) -> NDArray[np.float64]:
            support = contingency.column_sums(counts)
            hits = np.diagonal(counts[..., :-1, :], axis1=-2, axis2=-1)
            rates = np.divide(hits, support, out=np.zeros_like(support), where=support > 0)
            ones = np.ones(support.shape[-1])
            return ratio_replicates(rates @ ones, (support > 0) @ ones)

        return self._figure(self.masses, self._resampled, formula, "balanced_accuracy", at_least=1)

    def per_class(self) -> dict[str, dict[str, Estimate]]:
        """For each class: `tpr`, `tnr`, `precision` with Wilson intervals; null where the denominator is 0.

        TPR keeps failed verdicts as misses, TNR as misses too (a failed verdict rejects nothing); precision is over the
        judge's verdicts of the class.
        """
        judge, human = self.labels.judge, self.labels.human
        rates = {}
        for code, label in enumerate(self.labels.classes):
            positive = human == code
            rates[label] = {
                "tpr": self._rate((judge == code) & positive, positive, Reason.NO_POSITIVE_LABELS),
                "tnr": self._rate(
                    (judge != code) & self.labels.known & ~positive, ~positive, Reason.NO_NEGATIVE_LABELS
                ),
                "precision": self._rate((judge == code) & positive, judge == code, Reason.EMPTY),
            }
        return rates

    def macro(self, *, failures: str = "wrong") -> dict[str, Estimate]:
        """`macro_precision`, `macro_recall`, `macro_f1`: unweighted means over the declared classes.

        A class never predicted has precision 0, one that no human used recall 0, in these figures. `failures`: `wrong`
        keeps failed verdicts as misses in the recall (default), `left_out` drops those cases.
        """
        if failures not in ("wrong", "left_out"):
            raise InvalidStatisticInput(f"unknown treatment of failures {failures!r}: wrong or left_out")
        counts = self.masses
        table, resampled = counts, self._resampled
        if failures == "left_out":
            table = counts * (np.arange(len(counts)) < len(counts) - 1)[:, None]
            if resampled is not None:
                resampled = resampled.copy()
                resampled[:, -1, :] = 0

        without = self._without_each_group(table)
        if without is not None and failures == "left_out":
            without[:, -1, :] = 0
        # Value, resampled tables and those without each group as one stack: each part is computed once.
        stack = np.concatenate([part for part in (table[None], resampled, without) if part is not None])
        drawn = 1 + (0 if resampled is None else len(resampled))
        hits = np.diagonal(stack[:, :-1, :], axis1=-2, axis2=-1)
        predicted, support = contingency.row_sums(stack)[:, :-1], contingency.column_sums(stack)
        precision = np.divide(hits, predicted, out=np.zeros_like(predicted), where=predicted > 0)
        recall = np.divide(hits, support, out=np.zeros_like(support), where=support > 0)
        total = precision + recall
        f1 = np.divide(2 * precision * recall, total, out=np.zeros_like(total), where=total > 0)
        figures = {}
        for name, each in (("macro_precision", precision), ("macro_recall", recall), ("macro_f1", f1)):
            means = each @ np.full(each.shape[1], 1 / each.shape[1])
            figures[name] = self._known(
                table,
                float(each[0].mean()),
                None if resampled is None else means[1:drawn],
                f"{name}/failures_{failures}",
                at_least=1,
                jackknife=None if without is None else means[drawn:],
            )
        return figures

    def f1(self, label: str) -> Estimate:
        """F1 of one class, failed verdicts being misses; null `one_class` where neither side uses the class."""
        if label not in self.labels.classes:
            raise InvalidStatisticInput(f"{label!r} is not one of the declared classes")
        code = self.labels.classes.index(label)

        def formula(counts: NDArray[np.float64]) -> NDArray[np.float64]:
            both = counts[..., code, :].sum(axis=-1) + counts[..., :, code].sum(axis=-1)
            return ratio_replicates(2 * counts[..., code, code], both)

        return self._figure(self.masses, self._resampled, formula, f"f1/{label}", at_least=1)

    def majority_baseline(self) -> Estimate:
        """Share of the most frequent human class: what a constant answer would reach."""
        support = self.masses.sum(axis=0)
        if support.sum() == 0:
            return share(np.zeros(0, dtype=bool))
        top = int(support.argmax())
        estimate = share(self.labels.human == top, None, self.resampler)
        return dataclasses.replace(estimate, details={**estimate.details, "class": self.labels.classes[top]})

    def headline(self) -> dict[str, Estimate]:
        """All figures by name; those that need an order only where the classes have one."""
        figures = {
            "raw_agreement": self.raw(),
            "raw_agreement_valid": self.raw_valid(),
            "valid_rate": self.valid_rate(),
            "cohen_kappa": self.kappa(),
            "cohen_kappa_failures_wrong": self.kappa_failures_wrong(),
            "gwet_ac1": self.ac(),
            "krippendorff_alpha_nominal": self.alpha(),
            "mcc": self.mcc(),
            "balanced_accuracy": self.balanced_accuracy(),
            "majority_baseline": self.majority_baseline(),
        }
        if self.labels.ordered:
            figures |= {
                "within_one": self.within_one(),
                "cohen_kappa_linear": self.kappa("linear"),
                "cohen_kappa_quadratic": self.kappa("quadratic"),
                "gwet_ac2_linear": self.ac("linear"),
                "gwet_ac2_quadratic": self.ac("quadratic"),
                "krippendorff_alpha_ordinal": self.alpha("ordinal"),
            }
        return figures

    def _rate(self, hits: NDArray[np.bool_], among: NDArray[np.bool_], reason: Reason) -> Estimate:
        if not among.any():
            return Estimate.undefined(reason, 0, "wilson", numerator=0, denominator=0)
        return share(hits, among, self.resampler)

    def _with_failures(self, estimate: Estimate) -> Estimate:
        failed = int((~self.labels.known).sum())
        return dataclasses.replace(estimate, details={**estimate.details, "failed": failed})

    def _without_each_group(self, table: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Tables without each group, for the acceleration of BCa, of the shape of `table`; None for percentiles."""
        if not self._bca or self.resampler is None:
            return None
        k = len(self.labels.classes)
        own = np.zeros((self.resampler.n_groups, k + 1, k))
        rows = np.where(self.labels.judge == FAILED, k, self.labels.judge)
        np.add.at(own, (self.resampler.codes, rows, self.labels.human), 1 if self.weights is None else self.weights)
        own = own[:, : table.shape[0], : table.shape[1]]
        if table.shape[1] > k:
            own = np.concatenate([own, np.zeros((len(own), own.shape[1], 1))], axis=-1)
        return table - own

    def _of_table(
        self, formula: Callable[[NDArray[np.float64]], NDArray[np.float64]], name: str, *, at_least: int = 2
    ) -> Estimate:
        return self._figure(self.table, self._resampled_usable, formula, name, at_least=at_least)

    def _figure(
        self,
        table: NDArray[np.float64],
        resampled: NDArray[np.float64] | None,
        formula: Callable[[NDArray[np.float64]], NDArray[np.float64]],
        name: str,
        *,
        at_least: int = 2,
    ) -> Estimate:
        without = self._without_each_group(table)
        return self._known(
            table,
            float(formula(table)) if self._counted(table).sum() >= at_least else None,
            None if resampled is None else formula(resampled),
            name,
            at_least=at_least,
            jackknife=None if without is None else formula(without),
        )

    def _known(
        self,
        table: NDArray[np.float64],
        found: float | None,
        replicates: NDArray[np.float64] | None,
        name: str,
        *,
        at_least: int,
        jackknife: NDArray[np.float64] | None = None,
    ) -> Estimate:
        """The estimate of a value that is computed already, with its reason where it is undefined."""
        counted = self._counted(table)
        n = int(counted.sum())
        details: dict[str, object] = {"table": counted, "classes": list(self.labels.classes)}
        if self.weights is not None:
            name = f"{WEIGHTED}_{name}"
            details["weighted_table"] = table
        if n < at_least:
            return Estimate.undefined(Reason.EMPTY if n == 0 else Reason.N_BELOW_2, n, name, details=details)
        value = finite(found)
        if value is None:
            return Estimate.undefined(Reason.ONE_CLASS, n, name, details=details)
        flags = self._flags(table)
        if replicates is None or self.resampler is None:
            return Estimate.point(value, n, name, flags=flags, details=details)
        return self.resampler.interval(
            value,
            replicates,
            n=n,
            method=f"{name}/{self.resampler.method}",
            flags=flags,
            details=details,
            jackknife=jackknife,
        )

    def _counted(self, table: NDArray[np.float64]) -> NDArray[np.int64]:
        """The counts behind a table of weights: of the same shape, and nothing where it has nothing."""
        if self.weights is None:
            return table.astype(np.int64)
        counts = np.zeros(table.shape, dtype=np.int64)
        rows, columns = min(len(table), len(self.counts)), min(table.shape[1], self.counts.shape[1])
        counts[:rows, :columns] = self.counts[:rows, :columns]
        return np.asarray(counts * (table > 0))

    def _flags(self, table: NDArray[np.float64]) -> tuple[str, ...]:
        flags: tuple[str, ...] = ()
        if np.count_nonzero(table.sum(axis=0)) == 1 or np.count_nonzero(table.sum(axis=1)) == 1:
            flags = ("constant_rater",)
        if table.sum(axis=0).max() >= SKEWED_PREVALENCE * table.sum():
            flags = (*flags, "skewed_prevalence")
        return flags
