"""A rubric as a package of its own would bring it; its direction can be inverted to test the self-test."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from rubrics.model import (
    Ask,
    ChoiceConstraint,
    Constraint,
    Example,
    Label,
    Message,
    NotApplicable,
    Rubric,
    Rules,
    Scale,
    Scored,
    SinglePlan,
)
from rubrics.prompt import Fence
from rubrics.records import CaseInput, Elicitation, HumanLabel, Outcome, Record


class Text(CaseInput):
    text: str


class Verdict(Record):
    outcome: Literal[Outcome.SCORED] = Outcome.SCORED
    short: bool


class ShortLabel(HumanLabel):
    label: Literal["short", "long"]


class Brevity(Rubric[Text]):
    name: ClassVar[str] = "brevity"
    version: ClassVar[int] = 1
    title: ClassVar[str] = "Short enough"
    question: ClassVar[str] = "Is it short?"
    case_model = Text
    record_model = Verdict
    label_model = ShortLabel
    scale = Scale((Label("long", "It is long."), Label("short", "It is short.")), True, 0.0, 1.0)
    rules = Rules(score="1 if short.", nothing_to_judge={}, length_policy="Length is all.")
    steps: ClassVar[Mapping[str, str]] = {"look": "Is it short?"}
    examples: ClassVar[tuple[Example, ...]] = (
        Example({"text": "a"}, ("short",), "good"),
        Example({"text": "a" * 9}, ("long",), "bad"),
    )
    credit: ClassVar[Mapping[str, float]] = {"short": 1.0, "long": 0.0}

    def nothing_to_judge(self, case: Text) -> NotApplicable | None:
        return None

    def plan(self, case: Text, fence: Fence, elicitation: Elicitation = "reasoned") -> SinglePlan:
        reply = yield Ask(
            "look", (Message("user", fence.block("text", case.text)),), ChoiceConstraint(("short", "long")), {}
        )
        label = str(reply.value)
        return Scored(Verdict(short=label == "short"), self.credit[label], label)

    def sample_constraints(self) -> Mapping[str, Constraint]:
        return {"look": ChoiceConstraint(("short", "long"))}


class Inverted(Brevity):
    credit: ClassVar[Mapping[str, float]] = {"short": 0.0, "long": 1.0}


class OneSided(Brevity):
    examples: ClassVar[tuple[Example, ...]] = (Example({"text": "a"}, ("short",), "good"),)


NOT_A_RUBRIC: Any = "a string"
