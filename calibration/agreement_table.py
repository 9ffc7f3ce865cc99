"""One row of figures for each group of cases, judge and strategy, from verdicts given in one or both orders.

Owns the join of verdicts with labelled pairs and the conventions of those figures. Percentages are on 0..100, kappas
plain. Reads no file and knows no column name of one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration import contingency
from calibration.estimate import Estimate, InvalidStatisticInput, Reason
from calibration.resample import DEFAULT_RESAMPLES, DEFAULT_SEED, Resampler, ratio_replicates, share

Codes = NDArray[np.int8]

A, B, TIE, NULL, MISSING = range(5)
"""What an order's verdict stands for: a response, a tie, an unreadable verdict, or no verdict at all."""

_RESPONSE_CODES: dict[str | None, int] = {"A": A, "B": B, "tie": TIE, None: NULL}
_STATES = 5
_ORDERS = ("AB", "BA")
_VERDICTS = ("first", "second", "tie", None)


class ConflictingVerdicts(InvalidStatisticInput):
    """The same case, judge, strategy and order has two different verdicts."""


@dataclasses.dataclass(frozen=True, slots=True)
class LabelledPair:
    """A case with two responses and its human label (`A`, `B` or `tie`).

    `group` is the slice a row is made for; `cluster` names cases that are not independent (None: the case alone).
    """

    id: str
    group: str
    human: str
    cluster: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class OrderedVerdict:
    """One recorded verdict by position: `first`, `second`, `tie`, or None when it could not be read.

    With order `BA` the response shown first is B. `line` is where it was recorded, for messages.
    """

    case_id: str
    judge: str
    strategy: str
    order: str
    verdict: str | None
    line: int = 0

    @property
    def response(self) -> str | None:
        """The response the verdict stands for."""
        if self.verdict == "first":
            return self.order[0]
        if self.verdict == "second":
            return self.order[1]
        return self.verdict


@dataclasses.dataclass(frozen=True)
class JoinedVerdicts:
    """Verdicts beside the labelled pairs they belong to.

    `responses[(judge, strategy)]` has shape (pairs, 2), the codes of orders AB and BA; `unjoined` are the verdicts that
    join no case, `repeated` the number of lines that say the same thing again. Neither is counted in a row.
    """

    pairs: tuple[LabelledPair, ...]
    responses: dict[tuple[str, str], Codes]
    unjoined: tuple[OrderedVerdict, ...]
    repeated: int


def join_verdicts(pairs: Iterable[LabelledPair], verdicts: Iterable[OrderedVerdict]) -> JoinedVerdicts:
    """Join by case id.

    Raises `InvalidStatisticInput` for an unknown label, order or verdict and for a repeated case id, and
    `ConflictingVerdicts` (naming both lines) when one case, judge, strategy and order has two different verdicts.
    """
    cases = tuple(pairs)
    positions: dict[str, int] = {}
    for position, pair in enumerate(cases):
        if pair.human not in ("A", "B", "tie"):
            raise InvalidStatisticInput(f"case {pair.id!r}: human label {pair.human!r} is not A, B or tie")
        if positions.setdefault(pair.id, position) != position:
            raise InvalidStatisticInput(f"case id {pair.id!r} occurs twice")
    responses: dict[tuple[str, str], Codes] = {}
    lines: dict[tuple[str, str], NDArray[np.int64]] = {}
    unjoined: list[OrderedVerdict] = []
    repeated = 0
    for verdict in verdicts:
        if verdict.order not in _ORDERS:
            raise InvalidStatisticInput(f"line {verdict.line}: order {verdict.order!r} is not AB or BA")
        if verdict.verdict not in _VERDICTS:
            raise InvalidStatisticInput(
                f"line {verdict.line}: verdict {verdict.verdict!r} is not first, second, tie or null"
            )
        found = positions.get(verdict.case_id)
        if found is None:
            unjoined.append(verdict)
            continue
        key = (verdict.judge, verdict.strategy)
        if key not in responses:
            responses[key] = np.full((len(cases), 2), MISSING, dtype=np.int8)
            lines[key] = np.zeros((len(cases), 2), dtype=np.int64)
        column = _ORDERS.index(verdict.order)
        code = _RESPONSE_CODES[verdict.response]
        before = responses[key][found, column]
        if before == MISSING:
            responses[key][found, column] = code
            lines[key][found, column] = verdict.line
        elif before == code:
            repeated += 1
        else:
            raise ConflictingVerdicts(
                f"lines {lines[key][found, column]} and {verdict.line} give different verdicts for case "
                f"{verdict.case_id!r}, judge {verdict.judge!r}, strategy {verdict.strategy!r}, order {verdict.order}"
            )
    return JoinedVerdicts(cases, responses, tuple(unjoined), repeated)


COUNTS = (
    "flips",
    "flips_to_first",
    "flips_to_second",
    "verdicts_first",
    "verdicts_second",
    "verdicts_tie",
    "verdicts_null",
    "n_missing",
)
"""Counts of a row. `n_missing` counts the orders without any verdict, among the orders that were judged at all."""

PERCENTAGES = (
    "accuracy_AB",
    "accuracy_BA",
    "accuracy",
    "both_correct",
    "positional_agreement",
    "positional_agreement_parsed",
    "flip_rate",
    "folded_correct",
    "folded_incorrect",
    "folded_undecided",
)
KAPPAS = ("kappa_AB", "kappa_BA", "kappa_between_orders")


@dataclasses.dataclass(frozen=True)
class AgreementRow:
    """The figures of one group, judge and strategy: `counts` (see COUNTS) and `estimates` (see PERCENTAGES, KAPPAS).

    Percentages and their intervals are on 0..100. The counts of flips are estimates too: their intervals are in cases.
    `flags` holds `single_order` when only one order was judged; flips are then null, not 0.
    """

    group: str
    judge: str
    strategy: str
    n: int
    counts: dict[str, int | None]
    estimates: dict[str, Estimate]
    flags: tuple[str, ...] = ()

    def value(self, name: str) -> float | None:
        """A figure by its name; counts too. KeyError for a name that is no figure."""
        return self.counts[name] if name in self.counts else self.estimates[name].value

    def to_dict(self) -> dict[str, Any]:
        """A flat JSON object: every figure by name, and under `estimates` each with n, interval, method, reason."""
        return {
            "group": self.group,
            "judge": self.judge,
            "strategy": self.strategy,
            "n": self.n,
            **{name: self.estimates[name].value for name in PERCENTAGES},
            **self.counts,
            **{name: self.estimates[name].value for name in KAPPAS},
            "flags": list(self.flags),
            "estimates": {name: estimate.to_dict() for name, estimate in self.estimates.items()},
        }


def agreement_table(
    joined: JoinedVerdicts, *, resamples: int = DEFAULT_RESAMPLES, seed: int = DEFAULT_SEED
) -> tuple[AgreementRow, ...]:
    """One row for each (group, judge, strategy) that has a verdict, sorted by these names.

    All cases of the group are in every denominator, judged or not. The rows of a group use the same resamples, so
    their differences are paired.
    """
    members: dict[str, list[int]] = {}
    for position, pair in enumerate(joined.pairs):
        members.setdefault(pair.group, []).append(position)
    human = np.array([_RESPONSE_CODES[pair.human] for pair in joined.pairs], dtype=np.int8)
    rows = []
    for group in sorted(members):
        chosen = np.array(members[group])
        clusters = [joined.pairs[i].cluster or f"case {joined.pairs[i].id}" for i in chosen]
        resampler = Resampler(len(chosen), clusters, resamples=resamples, seed=seed)
        for judge, strategy in sorted(joined.responses):
            codes = joined.responses[judge, strategy][chosen]
            if np.any(codes != MISSING):
                rows.append(_row((group, judge, strategy), human[chosen], codes, resampler))
    return tuple(rows)


def agreement_row(
    human: Sequence[str],
    ab: Sequence[str | None],
    ba: Sequence[str | None],
    *,
    group: str = "all",
    judge: str = "judge",
    strategy: str = "default",
    clusters: Sequence[str] | None = None,
    resamples: int = DEFAULT_RESAMPLES,
    seed: int = DEFAULT_SEED,
    resampler: Resampler | None = None,
) -> AgreementRow:
    """A row from three arrays over the same cases: human label and what each order's verdict stands for.

    Responses are `A`, `B`, `tie` or None (unreadable). An empty `ab` or `ba` means that this order was not judged.
    `resampler` takes the place of `clusters`, `resamples` and `seed`.
    """
    n = len(human)
    codes = np.full((n, 2), MISSING, dtype=np.int8)
    try:
        for column, responses in enumerate((ab, ba)):
            if len(responses) not in (0, n):
                raise InvalidStatisticInput(
                    f"{len(responses)} verdicts given for {n} labels in order {_ORDERS[column]}"
                )
            codes[: len(responses), column] = [_RESPONSE_CODES[response] for response in responses]
        labels = np.array([_RESPONSE_CODES[label] for label in human], dtype=np.int8)
    except KeyError as unknown:
        raise InvalidStatisticInput(f"{unknown.args[0]!r} is not A, B or tie") from unknown
    if np.any(labels == NULL):
        raise InvalidStatisticInput("a human label is missing")
    if resampler is None:
        resampler = Resampler(n, clusters, resamples=resamples, seed=seed)
    elif resampler.n_cases != n:
        raise InvalidStatisticInput("the resampler is not over these cases")
    return _row((group, judge, strategy), labels, codes, resampler)


def _row(names: tuple[str, str, str], human: Codes, codes: Codes, resampler: Resampler) -> AgreementRow:
    n = len(human)
    ab, ba = codes[:, 0], codes[:, 1]
    if not resampler.has_kinds:
        resampler = resampler.with_types((human.astype(np.int64) * _STATES + ab) * _STATES + ba)
    judged = [bool(np.any(codes[:, column] != MISSING)) for column in (0, 1)]
    both = all(judged)
    replicates = _Replicates(human, ab, ba, resampler)
    right_ab, right_ba = ab == human, ba == human
    answered_ab, answered_ba = ab < NULL, ba < NULL
    opposite = ((ab == A) & (ba == B)) | ((ab == B) & (ba == A))
    first = (ab == A).astype(int) + (ba == B)
    second = (ab == B).astype(int) + (ba == A)
    flips = {"flips": opposite, "flips_to_first": opposite & (ab == A), "flips_to_second": opposite & (ab == B)}
    counts: dict[str, int | None] = {
        **{name: int(hits.sum()) if both else None for name, hits in flips.items()},
        "verdicts_first": int(first.sum()),
        "verdicts_second": int(second.sum()),
        "verdicts_tie": int((codes == TIE).sum()),
        "verdicts_null": int((codes == NULL).sum()),
        "n_missing": sum(int((codes[:, column] == MISSING).sum()) for column in (0, 1) if judged[column]),
    }
    folded = _credit(ab, human) + _credit(ba, human)
    parsed_agreement = answered_ab & (ab == ba)
    shares = {
        "accuracy_AB": (right_ab, judged[0]),
        "accuracy_BA": (right_ba, judged[1]),
        "both_correct": (right_ab & right_ba, both),
        # Two unreadable verdicts count as agreement here, as the published figures count them.
        "positional_agreement": (parsed_agreement | ((ab == NULL) & (ba == NULL)), both),
        "positional_agreement_parsed": (parsed_agreement, both),
        "flip_rate": (opposite, both),
        "folded_correct": (folded > 0, True),
        "folded_incorrect": (folded < 0, True),
        "folded_undecided": (folded == 0, True),
    }
    estimates = {
        name: replicates.share(hits).times(100) if measured else Estimate.undefined(Reason.SINGLE_ORDER, 0, "wilson")
        for name, (hits, measured) in shares.items()
    }
    estimates["accuracy"] = replicates.accuracy(judged).times(100)
    for name, column, known in (("kappa_AB", 0, answered_ab), ("kappa_BA", 1, answered_ba)):
        estimates[name] = (
            replicates.kappa(1 + column, 0, known)
            if judged[column]
            else Estimate.undefined(Reason.SINGLE_ORDER, 0, "cohen_kappa")
        )
    estimates["kappa_between_orders"] = (
        replicates.kappa(1, 2, answered_ab & answered_ba)
        if both
        else Estimate.undefined(Reason.SINGLE_ORDER, 0, "cohen_kappa")
    )
    group, judge, strategy = names
    for name, hits in flips.items():
        estimates[name] = (
            replicates.share(hits).times(n) if both else Estimate.undefined(Reason.SINGLE_ORDER, 0, "wilson")
        )
    ordered = {name: estimates[name] for name in (*PERCENTAGES, *KAPPAS, *flips)}
    return AgreementRow(group, judge, strategy, n, counts, ordered, () if both else (Reason.SINGLE_ORDER.value,))


def _credit(response: Codes, human: Codes) -> NDArray[np.int64]:
    """+1 for the right verdict, -1 for the opposite response, 0 for anything else."""
    opposite = ((response == A) & (human == B)) | ((response == B) & (human == A))
    credit: NDArray[np.int64] = (response == human).astype(np.int64)
    credit[opposite] = -1
    return credit


class _Replicates:
    """Counts of the joint states (human, AB, BA) of a row, in each resample."""

    def __init__(self, human: Codes, ab: Codes, ba: Codes, resampler: Resampler) -> None:
        self._resampler = resampler
        self._columns = (human, ab, ba)
        cells = (human.astype(np.int64) * _STATES + ab) * _STATES + ba
        used, position = np.unique(cells, return_inverse=True)
        self._states = (used // _STATES**2, used // _STATES % _STATES, used % _STATES)
        onehot = np.zeros((len(human), used.size), dtype=np.float32)
        onehot[np.arange(len(human)), position] = 1
        self._counts = resampler.sums(onehot)

    def share(self, hits: NDArray[np.bool_]) -> Estimate:
        """A share of all cases: Wilson, or the cluster bootstrap when cases are grouped."""
        return share(hits, None, self._resampler)

    def accuracy(self, judged: Sequence[bool]) -> Estimate:
        """Mean accuracy over the judged orders; the orders of a case stay together when resampling."""
        orders = [side for side in (1, 2) if judged[side - 1]]
        human = self._columns[0]
        n = len(human)
        if n == 0 or not orders:
            return Estimate.undefined(Reason.EMPTY, n, "mean_of_orders")
        if len(orders) == 1:
            return self.share(self._columns[orders[0]] == human).flagged(Reason.SINGLE_ORDER.value)
        hits = [self._columns[side] == human for side in orders]
        right = sum(int(side.sum()) for side in hits)
        if right in (0, 2 * n):
            # Every resample would be the same; each case is one success or one failure, as in a single order.
            return self.share(hits[0])
        credit = (self._states[1] == self._states[0]).astype(float) + (self._states[2] == self._states[0])
        replicates = ratio_replicates(self._counts @ credit, 2 * self._counts.sum(axis=1))
        return self._resampler.interval(right / (2 * n), replicates, numerator=right, denominator=2 * n)

    def kappa(self, side: int, other: int, known: NDArray[np.bool_]) -> Estimate:
        """Cohen's kappa of two of (human, AB, BA) over the cases where both gave an answer."""
        n = int(known.sum())
        table = np.zeros((3, 3))
        np.add.at(table, (self._columns[side][known], self._columns[other][known]), 1)
        details: dict[str, object] = {"table": table.astype(int), "classes": ["A", "B", "tie"]}
        if n < 2:
            reason = Reason.EMPTY if n == 0 else Reason.N_BELOW_2
            return Estimate.undefined(reason, n, "cohen_kappa", details=details)
        value = float(contingency.cohen(table))
        if not np.isfinite(value):
            return Estimate.undefined(Reason.ONE_CLASS, n, "cohen_kappa", details=details)
        # Tables over the classes that occur: an unused class changes nothing in an unweighted kappa.
        occurring = np.flatnonzero(table.sum(axis=0) + table.sum(axis=1))
        k = occurring.size
        answered = (self._states[side] < NULL) & (self._states[other] < NULL)
        place = np.searchsorted(occurring, self._states[side]) * k + np.searchsorted(occurring, self._states[other])
        projection = np.zeros((answered.size, k * k))
        projection[np.flatnonzero(answered), place[answered]] = 1
        tables = (self._counts @ projection).reshape(-1, k, k)
        constant = np.count_nonzero(table.sum(axis=0)) == 1 or np.count_nonzero(table.sum(axis=1)) == 1
        return self._resampler.interval(
            value,
            contingency.cohen(tables),
            n=n,
            method=f"cohen_kappa/{self._resampler.method}",
            flags=("constant_rater",) if constant else (),
            details=details,
        )
