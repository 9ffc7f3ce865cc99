"""From cases, labels and judgments to arrays: the only bridge between the service's records and `calibration`.

Owns what a report is made of and how a case, a person's label and each judge's judgment line up. Computes nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judge_service.domain.case import Case
from judge_service.domain.judge import Judge
from judge_service.domain.judgment import Judgment
from judge_service.domain.outcome import Outcome
from rubrics.model import Rubric
from rubrics.records import Order


@dataclass(frozen=True, slots=True)
class LabelledItem:
    """A case with a person's label in the rubric's label set (None: not labelled) and their note."""

    case: Case
    label: str | None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class JudgeColumn:
    """One judge's judgments over the items of a dataset, in their order; None where there is none."""

    judge: Judge
    judgments: tuple[Judgment | None, ...]

    @property
    def baseline(self) -> bool:
        """True for a judge without a model."""
        return self.judge.backend == "baseline"


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

    @property
    def labelled(self) -> tuple[int, ...]:
        """Positions of the items that carry a label."""
        return tuple(i for i, item in enumerate(self.items) if item.label is not None)

    @property
    def human(self) -> list[str]:
        """The labels, over `labelled`."""
        return [item.label for item in self.items if item.label is not None]

    @property
    def groups(self) -> list[str]:
        """The unit of independence of each labelled item: its group, or the item alone."""
        units = self.units
        return [units[i] for i in self.labelled]

    @property
    def units(self) -> list[str]:
        """The unit of independence of every item."""
        cases = [item.case for item in self.items]
        return [f"case {case.id}" if case.group is None else f"group {case.group}" for case in cases]

    def predicted(self, column: JudgeColumn) -> list[str | None]:
        """The judge's label over `labelled`; None where the case did not end in a verdict."""
        found = [column.judgments[i] for i in self.labelled]
        return [judgment.label if judgment is not None else None for judgment in found]

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


def answer_in(judgment: Judgment | None, order: Order) -> str | None:
    """The answer that a pair's verdict in this order stands for, from the judgment's record; None without one."""
    if judgment is None or judgment.record is None:
        return None
    reading = judgment.record.get(order.lower())
    return reading.get("verdict") if isinstance(reading, Mapping) else None


def line_up(cases: Sequence[Case], judgments: Iterable[Judgment], judge: Judge) -> JudgeColumn:
    """This judge's judgments in the order of `cases`.

    Not by the name in them: judges that are configured alike share their judgments, which name whoever came first.
    """
    by_case = {judgment.case_id: judgment for judgment in judgments}
    return JudgeColumn(judge, tuple(by_case.get(case.id) for case in cases))


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
