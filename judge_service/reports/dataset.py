"""From cases, labels and judgments to arrays: the only bridge between the service's records and `calibration`.

Owns what a report is made of and how a case, a person's label and each judge's judgment line up. Computes nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.weighted import design_weights, effective_size
from judge_service.domain.calibration_set import Label, Split, drawn_with
from judge_service.domain.case import Case
from judge_service.domain.judge import ConfidenceSource, Judge, OrderPolicy
from judge_service.domain.judgment import Judgment
from judge_service.domain.outcome import Outcome
from judge_service.errors import FieldProblem, InvalidInput
from rubrics.model import Rubric
from rubrics.records import Order

_PROBABILITIES = (ConfidenceSource.TOKEN_PROBABILITY, ConfidenceSource.CLASSIFIER)


@dataclass(frozen=True, slots=True)
class LabelledItem:
    """A case with a person's label in the rubric's label set (None: not labelled) and their note.

    `votes` are the blind labels of single annotators behind the label, by annotator. `given` is every label of the
    case under the rubric, those that have no part in the final one included.
    """

    case: Case
    label: str | None
    note: str | None = None
    votes: Mapping[str, str] = field(default_factory=dict)
    split: Split | None = None
    given: tuple[Label, ...] = ()

    @property
    def chance(self) -> float | None:
        """The probability with which the case was drawn for labelling: stored with a label, else in the metadata."""
        stored = [label.probability for label in self.given if label.probability is not None]
        return min(stored) if stored else drawn_with(self.case.metadata)


@dataclass(frozen=True, slots=True)
class JudgeColumn:
    """One judge's judgments over the items of a dataset, in their order; None where there is none.

    `calls` counts the requests behind judgments that were read without them, by judgment id; None: they hold their own.
    """

    judge: Judge
    judgments: tuple[Judgment | None, ...]
    calls: Mapping[str, int] | None = None

    @property
    def n_calls(self) -> int:
        """Requests behind the judgments."""
        made = [judgment for judgment in self.judgments if judgment is not None]
        if self.calls is None:
            return sum(len(judgment.calls) for judgment in made)
        return sum(self.calls.get(judgment.id, 0) for judgment in made)

    @property
    def baseline(self) -> bool:
        """True for a judge without a model."""
        return self.judge.backend == "baseline"

    @property
    def binary(self) -> bool:
        """True when the judge used two labels at most, so that the probability of one is the rest of the other."""
        used = {judgment.label for judgment in self.judgments if judgment is not None and judgment.label is not None}
        return len(used) <= 2

    @property
    def probabilistic(self) -> bool:
        """True when every confidence is a probability of a label."""
        given = [j.confidence for j in self.judgments if j is not None and j.confidence is not None]
        return bool(given) and all(confidence.source in _PROBABILITIES for confidence in given)

    @property
    def single_order(self) -> bool:
        """True when each pair was asked in one order only."""
        return self.judge.order_policy in (OrderPolicy.SINGLE_AB, OrderPolicy.SINGLE_BA, OrderPolicy.SINGLE_DRAWN)


@dataclass(frozen=True)
class Dataset:
    """What one report compares: the same cases for all judges, with the labels they are held against.

    `source` says in one sentence where cases and labels come from and who labelled them under which condition.
    """

    rubric: Rubric[Any]
    name: str
    source: str
    items: tuple[LabelledItem, ...]
    columns: tuple[JudgeColumn, ...]

    @cached_property
    def labelled(self) -> tuple[int, ...]:
        """Positions of the items that carry a label."""
        return tuple(i for i, item in enumerate(self.items) if item.label is not None)

    @cached_property
    def human(self) -> list[str]:
        """The labels, over `labelled`."""
        return [item.label for item in self.items if item.label is not None]

    @cached_property
    def groups(self) -> list[str]:
        """The unit of independence of each labelled item: its group, or the item alone."""
        units = self.units
        return [units[i] for i in self.labelled]

    @cached_property
    def units(self) -> list[str]:
        """The unit of independence of every item."""
        cases = [item.case for item in self.items]
        return [f"case {case.id}" if case.group is None else f"group {case.group}" for case in cases]

    @cached_property
    def weights(self) -> NDArray[np.float64] | None:
        """One over the probability with which each labelled item was drawn, scaled to mean 1; None where all are equal.

        An item that nobody drew counts as drawn for certain.
        """
        chances = [self.items[i].chance for i in self.labelled]
        return design_weights([1.0 if chance is None else chance for chance in chances])

    @property
    def effective_n(self) -> float:
        """How many evenly drawn labelled cases would be as sure (Kish); their number where all count the same."""
        return effective_size(len(self.labelled), self.weights)

    @cached_property
    def lengths(self) -> tuple[list[int], list[int]]:
        """Words of the two responses of each labelled pair: runs of characters without white space."""
        inputs = [self.rubric.case_model.model_validate(self.items[i].case.input) for i in self.labelled]
        return (
            [len(str(getattr(case, "response_a", "")).split()) for case in inputs],
            [len(str(getattr(case, "response_b", "")).split()) for case in inputs],
        )

    def predicted(self, column: JudgeColumn) -> list[str | None]:
        """The judge's label over `labelled`; None where the case did not end in a verdict."""
        found = [column.judgments[i] for i in self.labelled]
        return [judgment.label if judgment is not None else None for judgment in found]

    def confidences(self, column: JudgeColumn) -> list[float | None]:
        """The raw confidence of the chosen verdict, over `labelled`; None where there is none."""
        found = [column.judgments[i] for i in self.labelled]
        return [
            judgment.confidence.value if judgment is not None and judgment.confidence is not None else None
            for judgment in found
        ]

    def failures(self, column: JudgeColumn) -> list[str | None]:
        """How each labelled case failed to give a verdict (`outcome` or `outcome:reason`); None where it gave one."""
        return [ending(column.judgments[i]) for i in self.labelled]

    def usable(self, column: JudgeColumn) -> list[bool]:
        """Where each labelled case ended in valid output: a verdict, or a pair whose orders disagree."""
        return [why is None or why == Outcome.INCONSISTENT.value for why in self.failures(column)]

    def scores(self, column: JudgeColumn, positive: str) -> list[float | None]:
        """A number for "is `positive`" over `labelled`: its probability where the judge gives one, else the score.

        The probability is known for a token probability or a classifier with two labels: that of the other label is
        the rest.
        """
        names = self.rubric.scale.names
        values: list[float | None] = []
        for i in self.labelled:
            judgment = column.judgments[i]
            if judgment is None or judgment.label is None:
                values.append(None)
                continue
            confidence = judgment.confidence
            if confidence is None or confidence.source not in _PROBABILITIES:
                values.append(judgment.score)
            elif judgment.label == positive:
                values.append(confidence.value)
            else:
                values.append(1 - confidence.value if len(names) == 2 or column.binary else None)
        return values

    def probabilities_a(self, column: JudgeColumn) -> tuple[list[float | None], list[float | None]]:
        """P(A is better) of each order over `labelled`, a tie counted half; None without probabilities."""
        found = [column.judgments[i] for i in self.labelled]
        return [chance_of_a(j, "AB") for j in found], [chance_of_a(j, "BA") for j in found]

    def repeats(self, column: JudgeColumn) -> list[list[str | None]]:
        """The votes of the judge's own repeats over `labelled`, None for one that could not be counted."""
        rows: list[list[str | None]] = []
        for i in self.labelled:
            judgment = column.judgments[i]
            votes = judgment.votes if judgment is not None and not column.judge.panel else None
            cast: list[str | None] = []
            if votes is not None:
                cast = [label for label, count in sorted(votes.counts.items()) for _ in range(count)]
                cast += [None] * (votes.asked - len(cast))
            rows.append(cast)
        return rows

    def narrowed(self, key: str, value: object) -> "Dataset":
        """The part whose metadata `key` (or `group`, `split`) has this value, judges included."""
        return self.only([i for i, item in enumerate(self.items) if slice_of(item, key) == str(value)])

    def positions(self, condition: str, field: str) -> list[int]:
        """Items of which `KEY=VALUE` is true: of a metadata key, or `group` or `split`; several keys as in `slice_of`.

        Raises InvalidInput naming `field` when it is written otherwise, or true of no item.
        """
        key, value = key_value(condition, field)
        found = [i for i, item in enumerate(self.items) if slice_of(item, key) == value]
        if not found:
            raise InvalidInput(
                f"{field}: no case has {condition}.", fields=[FieldProblem(field, f"no case has {condition}")]
            )
        return found

    def only(self, kept: Sequence[int]) -> "Dataset":
        """The items at these positions, judges included."""
        return replace(
            self,
            items=tuple(self.items[i] for i in kept),
            columns=tuple(
                replace(column, judgments=tuple(column.judgments[i] for i in kept)) for column in self.columns
            ),
        )

    def slices(self, key: str) -> list[str]:
        """The values of a metadata key (or `group`, `split`) over the labelled items, sorted."""
        found = {slice_of(self.items[i], key) for i in self.labelled}
        return sorted(value for value in found if value is not None)

    def orders(self, column: JudgeColumn, only_labelled: bool = False) -> tuple[list[str | None], list[str | None]]:
        """What each presentation order of a pair stands for (`A`, `B`, `tie`, None), over all or labelled items."""
        chosen = self.labelled if only_labelled else range(len(self.items))
        ab: list[str | None] = []
        ba: list[str | None] = []
        for i in chosen:
            judgment = column.judgments[i]
            ab.append(answer_in(judgment, "AB"))
            ba.append(answer_in(judgment, "BA"))
        return ab, ba


def key_value(text: str, field: str) -> tuple[str, str]:
    """Both sides of `KEY=VALUE`, trimmed. Raises InvalidInput naming `field` when it is written otherwise."""
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        message = f"{text!r} is not KEY=VALUE"
        raise InvalidInput(f"{field}: {message}.", fields=[FieldProblem(field, message)])
    return key.strip(), value.strip()


def answer_in(judgment: Judgment | None, order: Order) -> str | None:
    """The answer that a pair's verdict in this order stands for, from the judgment's record; None without one."""
    if judgment is None or judgment.record is None:
        return None
    reading = judgment.record.get(order.lower())
    return reading.get("verdict") if isinstance(reading, Mapping) else None


def chance_of_a(judgment: Judgment | None, order: Order) -> float | None:
    """P(A is better) in this order, a tie counted half; None where the order has no probabilities."""
    if judgment is None or judgment.record is None:
        return None
    reading = judgment.record.get(order.lower())
    shares = reading.get("probabilities") if isinstance(reading, Mapping) else None
    if not isinstance(shares, Mapping):
        return None
    chance = shares.get("first" if order == "AB" else "second", 0.0) + shares.get("tie", 0.0) / 2
    return min(max(float(chance), 0.0), 1.0)


def ending(judgment: Judgment | None) -> str | None:
    """How a case ended without a verdict: `not_judged`, `outcome` or `outcome:reason`; None for a verdict."""
    if judgment is None:
        return "not_judged"
    if judgment.label is not None:
        return None
    return judgment.outcome.value if judgment.reason is None else f"{judgment.outcome.value}:{judgment.reason.value}"


def slice_of(item: LabelledItem, key: str) -> str | None:
    """The value of a metadata key as text, None without one; several keys are joined by commas, as are their values.

    `group` and `split` are keys too, unless the metadata has them itself.
    """
    if "," in key:
        values = [slice_of(item, part.strip()) for part in key.split(",")]
        return None if None in values else ",".join(str(value) for value in values)
    if key in item.case.metadata:
        value = item.case.metadata[key]
        return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    if key == "group":
        return item.case.group
    if key == "split" and item.split is not None:
        return item.split.value
    return None


def line_up(
    cases: Sequence[Case], judgments: Iterable[Judgment], judge: Judge, calls: Mapping[str, int] | None = None
) -> JudgeColumn:
    """This judge's judgments in the order of `cases`.

    Not by the name in them: judges that are configured alike share their judgments, which name whoever came first.
    """
    by_case = {judgment.case_id: judgment for judgment in judgments}
    return JudgeColumn(judge, tuple(by_case.get(case.id) for case in cases), calls)


def ended(judgments: Iterable[Judgment | None]) -> Mapping[str, int]:
    """Counts per way a case ended: every outcome, decided verdicts apart from ties, and `not_judged`."""
    counts = dict.fromkeys(("scored", "tie", "inconsistent", "not_applicable", "judge_error", "not_judged"), 0)
    for judgment in judgments:
        if judgment is None:
            counts["not_judged"] += 1
        elif judgment.outcome is Outcome.SCORED and judgment.label == "tie":
            counts["tie"] += 1
        else:
            counts[judgment.outcome.value] += 1
    return counts
