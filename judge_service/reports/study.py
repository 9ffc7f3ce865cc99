"""What one judge-selection report is computed from: the cases with their judges, and what was chosen beforehand.

Owns the figures that several sections show, each computed once from one set of resamples. Knows no section.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration import raters
from calibration.agreement import Agreement, PairedLabels
from calibration.confidence import Forecasts
from calibration.estimate import Estimate
from calibration.headline import Headline, headline
from calibration.resample import DEFAULT_RESAMPLES, DEFAULT_SEED, Resampler, joint_types, share
from judge_service.domain.judge import ConfidenceSource
from judge_service.reports.choosing import Choice, choose
from judge_service.reports.dataset import Dataset, JudgeColumn
from judge_service.reports.figures import shown
from judge_service.reports.labelled_set import LabelledSet

MARGIN = 0.02
"""Difference of agreement below which two judges are as good as each other."""
TARGET = 0.9
"""Agreement that a usable threshold of confidence must reach."""
EPSILON = 0.15
"""Advantage that the annotator test grants people: skilled annotators."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What was chosen before the labels were looked at; the report states all of it.

    `floor` is the agreement (0 to 1) that a judge's lower bound must reach; None: five points under the agreement of
    two people, where that is known. `by` are the metadata keys to slice by. `families` maps a part of a model's name to
    its family, before the families that are known.
    """

    floor: float | None = None
    margin: float = MARGIN
    target: float = TARGET
    epsilon: float = EPSILON
    by: tuple[str, ...] = ()
    families: Mapping[str, str] = field(default_factory=dict)
    resamples: int = DEFAULT_RESAMPLES
    seed: int = DEFAULT_SEED


class Study:
    """One dataset under one set of choices, with everything that sections share.

    `labelled_set` says where a frozen or open set's cases come from, None for cases from elsewhere. `tuning` holds
    other cases of the same set and judges, on which policy and threshold are chosen; None: on the cases themselves.
    `probes` are the stored results of planted orders by judge (`planted.shown_result`).
    """

    def __init__(
        self,
        dataset: Dataset,
        choices: Choices | None = None,
        *,
        labelled_set: LabelledSet | None = None,
        tuning: "Study | None" = None,
        probes: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.dataset = dataset
        self.choices = choices or Choices()
        self.labelled_set = labelled_set
        self.tuning = tuning
        self.probes = probes or {}

    @cached_property
    def labelled(self) -> Dataset:
        """The labelled cases alone."""
        return self.dataset.only(self.dataset.labelled)

    @property
    def n(self) -> int:
        """Labelled cases."""
        return len(self.dataset.labelled)

    @property
    def uneven(self) -> bool:
        """True where the labelled cases were drawn with unequal probabilities, so that figures weigh them."""
        return self.labelled.weights is not None

    @property
    def pairs(self) -> bool:
        """True when two answers are compared."""
        return self.dataset.rubric.kind == "pairwise"

    @property
    def classes(self) -> tuple[str, ...]:
        """The labels of the rubric, in their order."""
        return tuple(self.dataset.rubric.scale.names)

    @cached_property
    def resampler(self) -> Resampler:
        """The draws over the labelled cases that every interval of the report uses, with the cases' weights."""
        chosen, labelled = self.choices, self.labelled
        return Resampler(
            self.n, labelled.groups, resamples=chosen.resamples, seed=chosen.seed, weights=labelled.weights
        )

    @cached_property
    def resampler_of_all(self) -> Resampler:
        """The draws over all cases, labelled or not, each counting once; `resampler` where all are labelled."""
        if self.n == len(self.dataset.items):
            return self.resampler
        chosen = self.choices
        return Resampler(len(self.dataset.items), self.dataset.units, resamples=chosen.resamples, seed=chosen.seed)

    @cached_property
    def votes(self) -> list[list[str]]:
        """The blind labels of single people behind each labelled case."""
        return [list(item.votes.values()) for item in self.labelled.items]

    @cached_property
    def ceiling(self) -> dict[str, Estimate]:
        """Agreement of two people who labelled the same case, as `raters.human_ceiling` defines it."""
        return raters.human_ceiling(self.votes, resampler=self.resampler)

    @cached_property
    def constant(self) -> dict[str, Any]:
        """What always giving the most frequent label reaches: `answer` (None without a label) and `agreement`."""
        weights = self.labelled.weights
        counts: dict[str, float] = defaultdict(float)
        for place, label in enumerate(self.labelled.human):
            counts[label] += 1.0 if weights is None else float(weights[place])
        top = max(self.classes, key=lambda label: counts[label]) if counts else None
        hits = np.array([label == top for label in self.labelled.human], dtype=bool)
        return {"answer": top, "agreement": shown(share(hits, None, self.resampler))}

    @cached_property
    def figures(self) -> tuple[Headline, ...]:
        """The headline figures of each judge over the labelled cases, in the judges' order."""
        return tuple(
            self._headline(column, agreement)
            for column, agreement in zip(self.labelled.columns, self.agreements, strict=True)
        )

    @cached_property
    def choice(self) -> Choice:
        """The order policy and threshold of each judge, and what the floors and comparisons say."""
        return choose(self)

    @cached_property
    def agreements(self) -> tuple[Agreement, ...]:
        """The agreement of each judge with people; its draws are of cases alike in labels and in both orders."""
        return tuple(self._agreement(column) for column in self.labelled.columns)

    def _agreement(self, column: JudgeColumn) -> Agreement:
        labels = self.paired(column)
        if not self.n:
            return Agreement(labels)
        orders = [one for one in self.labelled.orders(column) if any(one)] if self.pairs else []
        return Agreement(labels, self.draws(labels.judge, labels.human, *orders))

    def paired(self, column: JudgeColumn) -> PairedLabels:
        """The judge's and people's labels; `column` is one of `labelled`. A case without a verdict does not agree."""
        return PairedLabels.of(
            self.labelled.predicted(column),
            self.labelled.human,
            self.classes,
            groups=self.labelled.groups,
            ordered=self.dataset.rubric.scale.ordered,
        )

    def source(self, column: JudgeColumn) -> ConfidenceSource | None:
        """The source of most of the judge's confidences; None where it states none."""
        found = Counter(
            judgment.confidence.source
            for judgment in column.judgments
            if judgment is not None and judgment.confidence is not None
        )
        return found.most_common(1)[0][0] if found else None

    def stated(self, column: JudgeColumn) -> list[float | None]:
        """Confidences of that source over the labelled cases: two kinds are never mixed in one figure."""
        source = self.source(column)
        return [
            judgment.confidence.value
            if judgment is not None and judgment.confidence is not None and judgment.confidence.source is source
            else None
            for judgment in column.judgments
        ]

    def forecasts(self, column: JudgeColumn) -> Forecasts:
        """The judge's confidences with whether the verdict was people's; `column` is one of `labelled`."""
        said, human = self.labelled.predicted(column), self.labelled.human
        stated = [value if label is not None else None for value, label in zip(self.stated(column), said, strict=True)]
        right = [a == b for a, b in zip(said, human, strict=True)]
        return Forecasts.of(stated, right, groups=self.labelled.groups, weights=self.labelled.weights)

    def draws(self, *columns: Sequence[Any] | NDArray[np.generic]) -> Resampler:
        """The report's draws for statistics that see no more of a case than these columns: the same, but faster."""
        return self.resampler.with_types(joint_types(*columns)) if self.n else self.resampler

    def _headline(self, column: JudgeColumn, agreement: Agreement) -> Headline:
        options: dict[str, Any] = {}
        if self.source(column) is not None:
            options["confidence"] = self.stated(column)
        if self.pairs:
            ab, ba = self.labelled.orders(column)
            if column.single_order:
                # One verdict a case says nothing about position, whichever order was asked.
                ab, both = [one if one is not None else other for one, other in zip(ab, ba, strict=True)], None
            else:
                both = ba
                chance_ab, chance_ba = self.labelled.probabilities_a(column)
                if any(chance is not None for chance in chance_ab):
                    options |= {"prob_a_ab": chance_ab, "prob_a_ba": chance_ba}
            options |= {"order_ab": ab, "order_ba": both}
        return headline(agreement.labels, resampler=agreement.resampler or self.resampler, **options)
