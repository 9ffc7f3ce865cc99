"""The contract of a rubric version: what it must state, and how its steps are asked.

Owns `Rubric`, `Ask`, `Reply` and the constraint types. A rubric never calls a model: its plan is a generator
that yields what to ask and receives replies that were already read strictly and validated. The judging core
drives it, so a rubric can be tested by feeding it replies.
"""

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from typing import Any, ClassVar, Generic, Literal, TypeVar

from pydantic import BaseModel

from rubrics.prompt import Fence
from rubrics.records import (
    CaseInput,
    DecodingModel,
    Elicitation,
    HumanLabel,
    NotApplicableReason,
    Order,
    Outcome,
    Record,
    Slot,
)

C = TypeVar("C", bound=CaseInput)


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class JsonConstraint:
    """The reply is one JSON object of this shape.

    `schema` is the prepared master schema (closed objects, everything required, no `$ref`, no `title`, all
    bounds); backends derive what their provider accepts from it. `model` validates every reply again.
    """

    model: type[DecodingModel]
    schema: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class ChoiceConstraint:
    """The reply is exactly one of these labels and nothing else."""

    choices: tuple[str, ...]


Constraint = JsonConstraint | ChoiceConstraint


@dataclass(frozen=True, slots=True)
class VerdictField:
    """Where a verdict stands in a reply, so that its token probability can be read.

    `path` are the property names from the root (empty for a choice reply); `values` the allowed labels.
    """

    path: tuple[str, ...]
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """One question to a judge model.

    `items` are the things to be decided by the id used in the reply (claims, the answers as shown, statements),
    `passages` the texts they are held against. Both repeat what the messages say, in structured form, for
    judges that are not language models (baselines, classifiers, recorded and scripted judges).
    """

    step: str
    messages: tuple[Message, ...]
    constraint: Constraint
    verdicts: Mapping[str, VerdictField]
    items: Mapping[str, str] = field(default_factory=dict)
    passages: Mapping[str, str] = field(default_factory=dict)
    question: str | None = None


@dataclass(frozen=True, slots=True)
class LabelProbabilities:
    """Token probabilities of one verdict, normalised over the allowed labels.

    `mass` is the share of raw probability that fell on allowed labels at all (0 to 1): a health signal.
    """

    values: Mapping[str, float]
    mass: float


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply that was read strictly: `value` is the validated object, or the label of a choice.

    `probabilities` holds, by the key used in `Ask.verdicts`, what could be read from token probabilities.
    """

    value: BaseModel | str
    probabilities: Mapping[str, LabelProbabilities] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """The case had nothing to judge."""

    reason: NotApplicableReason
    record: Record | None = None


@dataclass(frozen=True, slots=True)
class SlotVerdict:
    """What one order of a pair said, by position shown, with the rationale if one was asked for.

    `probabilities` are by slot (`first`, `second`, `tie`), sum 1, or None where the backend has none.
    """

    slot: Slot
    rationale: str | None
    probabilities: Mapping[Slot, float] | None
    mass: float | None = None


@dataclass(frozen=True, slots=True)
class Scored:
    """A record with its score derived by code.

    `label` is the verdict in the rubric's label set, for agreement with humans. `confidence` is the token
    probability of that label where one could be read, or the judge's own stated confidence; see the two fields.
    """

    record: Record
    score: float
    label: str
    token_confidence: float | None = None
    verbalised_confidence: float | None = None


@dataclass(frozen=True, slots=True)
class PairFold:
    """Both orders of a pair folded under an order policy, in the caller's frame.

    `verdict` is `A`, `B` or `tie`, None when the orders disagree or one failed. `ab` and `ba` keep what each
    order said; None where that order was not asked or failed. `probability_a` is the mean over
    the orders of the probability that A is better, a tie counted half.
    """

    policy: str
    outcome: Outcome
    verdict: Literal["A", "B", "tie"] | None
    ab: SlotVerdict | None
    ba: SlotVerdict | None
    probability_a: float | None = None


SinglePlan = Generator[Ask, Reply, Scored | NotApplicable]
PairPlan = Generator[Ask, Reply, SlotVerdict | NotApplicable]


@dataclass(frozen=True, slots=True)
class Label:
    """One value of a rubric's label set, with what it means to a person."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class Scale:
    """The label set in its declared order, and what the score means.

    `ordered` says whether distances between labels mean anything. Scores lie in [minimum, maximum]. Raises ValueError
    for fewer than two labels, labels equal after trimming and case folding, or bounds that are no range.
    """

    labels: tuple[Label, ...]
    ordered: bool
    minimum: float
    maximum: float
    higher_is_better: bool = True

    def __post_init__(self) -> None:
        if len(self.labels) < 2:
            raise ValueError("a scale needs at least two labels")
        seen: dict[str, str] = {}
        for label in self.labels:
            key = label.name.strip().casefold()
            if not key:
                raise ValueError("a label needs a name")
            if key in seen:
                raise ValueError(f"labels {seen[key]!r} and {label.name!r} are equal after trimming and case folding")
            seen[key] = label.name
        if not (isfinite(self.minimum) and isfinite(self.maximum) and self.minimum < self.maximum):
            raise ValueError("a scale needs a finite minimum below its finite maximum")

    @property
    def names(self) -> tuple[str, ...]:
        """Label names in declared order."""
        return tuple(label.name for label in self.labels)


@dataclass(frozen=True, slots=True)
class Rules:
    """A rubric's decisions in words: readable in the version, shown over API and pages."""

    score: str
    nothing_to_judge: Mapping[str, str]
    length_policy: str
    ties: str | None = None
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Example:
    """A fixed case with replies, used for documentation and to pin a version's behaviour.

    `replies` are raw JSON objects or choice labels in the order the plan asks. `order` is for pairs.
    """

    case: Mapping[str, Any]
    replies: tuple[Any, ...]
    quality: Literal["good", "bad"]
    order: Order = "AB"


class Rubric(ABC, Generic[C]):
    """A rubric version. Subclasses live in `rubrics/library/<name>_v<version>/rubric.py`.

    Instances are immutable and shared; `plan` or `plan_pair` is called once per case and order.
    """

    name: ClassVar[str]
    version: ClassVar[int]
    title: ClassVar[str]
    question: ClassVar[str]
    kind: ClassVar[Literal["single", "pairwise"]] = "single"
    elicitations: ClassVar[tuple[Elicitation, ...]] = ("reasoned",)
    case_model: ClassVar[type[CaseInput]]
    record_model: ClassVar[type[Record]]
    label_model: ClassVar[type[HumanLabel]]
    scale: ClassVar[Scale]
    rules: ClassVar[Rules]
    steps: ClassVar[Mapping[str, str]]
    """Step name -> one sentence on what it asks."""
    examples: ClassVar[tuple[Example, ...]]

    @property
    def id(self) -> str:
        """`name@version`."""
        return f"{self.name}@{self.version}"

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of everything that defines this version; see `rubrics.identity`."""
        from rubrics.identity import rubric_hash

        return rubric_hash(self)

    @abstractmethod
    def nothing_to_judge(self, case: C) -> NotApplicable | None:
        """Decide before any call whether the case has nothing to judge."""

    def plan(self, case: C, fence: Fence, elicitation: Elicitation = "reasoned") -> SinglePlan:
        """Ask what is needed for one case; return the scored record or why there is none."""
        raise TypeError(f"{self.id} judges pairs: use plan_pair")

    def plan_pair(self, case: C, order: Order, fence: Fence, elicitation: Elicitation = "reasoned") -> PairPlan:
        """Ask for one presentation order of a pair; return the verdict by position shown."""
        raise TypeError(f"{self.id} judges one answer: use plan")

    def pair_record(self, fold: PairFold) -> Record:
        """The public record of a folded pair. Raises ValueError when the fold contradicts itself."""
        raise TypeError(f"{self.id} judges one answer: it has no pair record")

    @abstractmethod
    def sample_constraints(self) -> Mapping[str, Constraint]:
        """One representative constraint per step, for compile checks, snapshots and documentation."""
