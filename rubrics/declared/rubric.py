"""A declared rubric at work: one step that asks every criterion, and the score that code computes from the answers.

Owns the decoding model, the record and the overall score. The declaration's own rules are checked elsewhere.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import isclose
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model, model_validator

from rubrics.declared.declaration import CANNOT_SAY, Criterion, Declaration, Input, visible
from rubrics.identity import behaviour, digest
from rubrics.model import (
    Ask,
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
    VerdictField,
)
from rubrics.prompt import Fence, disarm, render
from rubrics.records import CaseInput, DecodingModel, Elicitation, HumanLabel, NotApplicableReason, Outcome, Record
from rubrics.schema import json_constraint
from rubrics.texts import Passage, is_blank, numbered

RATIONALE_LENGTH = 240
PASS_AT = 0.5
"""The overall score from which several criteria together are `pass`, where the declaration names none."""

_PACKAGE = "rubrics.declared"
_STEP = "judge"
_CASE_FIELDS: Mapping[Input, Any] = {
    "question": (Annotated[str, AfterValidator(visible)], ...),
    "contexts": (tuple[Passage, ...], ...),
    "answer": (str, ...),
    "reference": (Annotated[str, AfterValidator(visible)], ...),
}


def overall(scores: Iterable[tuple[float, float]]) -> float:
    """The mean of (score, weight) pairs by weight. Exact before one rounding, so equal scores x give x.

    Raises ZeroDivisionError when the weights sum to zero, which no declaration does.
    """
    pairs = [(Fraction(score), Fraction(weight)) for score, weight in scores]
    return float(sum(score * weight for score, weight in pairs) / sum(weight for _, weight in pairs))


class CriterionResult(BaseModel):
    """One criterion as it was answered: the raw `level` or `label`, and its score from 0 to 1.

    `normalised` is null for labels without scores; with `weight` 0 a criterion is reported and not scored.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    rationale: str
    level: int | None = None
    label: str | None = None
    normalised: float | None = Field(default=None, ge=0, le=1)
    weight: float = Field(ge=0)

    @model_validator(mode="after")
    def _one_answer(self) -> "CriterionResult":
        if (self.level is None) == (self.label is None):
            raise ValueError("a criterion has either a level or a label")
        if self.normalised is None and self.weight > 0:
            raise ValueError("a criterion that counts has a score")
        return self


class DeclaredRecord(Record):
    """Every criterion by name, and their mean by weight."""

    outcome: Literal[Outcome.SCORED] = Outcome.SCORED
    criteria: dict[str, CriterionResult]
    overall: float = Field(ge=0, le=1)

    @property
    def score(self) -> float:
        """The mean of the criteria's scores by weight."""
        return self.overall

    @model_validator(mode="after")
    def _computed(self) -> "DeclaredRecord":
        if not isclose(self.overall, _overall_of(self.criteria.values()), abs_tol=1e-12):
            raise ValueError("the overall score is not the mean of the criteria by weight")
        return self


def _overall_of(results: Iterable[CriterionResult]) -> float:
    return overall((one.normalised, one.weight) for one in results if one.normalised is not None and one.weight > 0)


class DeclaredRubric(Rubric[CaseInput]):
    """A rubric built from a declaration; `declared_rubric` makes one. Equal declarations have equal content hashes."""

    declaration: ClassVar[Declaration]
    reply_model: ClassVar[type[DecodingModel]]
    record_model = DeclaredRecord
    steps: ClassVar[Mapping[str, str]] = {_STEP: "Which level or label does each criterion deserve?"}

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of the declaration and of what it asks and computes on its examples."""
        return digest({"declaration": self.declaration.model_dump(mode="json"), "behaviour": list(behaviour(self))})

    def nothing_to_judge(self, case: CaseInput) -> NotApplicable | None:
        """A blank answer, or contexts of which none holds text."""
        given = case.model_dump()
        if is_blank(given["answer"]):
            return NotApplicable(NotApplicableReason.EMPTY_ANSWER)
        if "contexts" in given and all(is_blank(one["text"]) for one in given["contexts"]):
            return NotApplicable(NotApplicableReason.EMPTY_CONTEXT)
        return None

    def plan(self, case: CaseInput, fence: Fence, elicitation: Elicitation = "reasoned") -> SinglePlan:
        """One call that asks every criterion."""
        nothing = self.nothing_to_judge(case)
        if nothing is not None:
            return nothing
        reply = yield self._ask(case, fence)
        if not isinstance(reply.value, self.reply_model):
            raise TypeError("the step is answered by the declared reply model")
        said = reply.value.model_dump()
        results = {one.name: _result(one, said[one.name]) for one in self.declaration.criteria}
        record = DeclaredRecord(criteria=results, overall=_overall_of(results.values()))
        label, confidence = self._label(record), None
        if len(results) == 1:
            read = reply.probabilities.get(self.declaration.criteria[0].name)
            confidence = None if read is None else min(max(read.values.get(label, 0.0), 0.0), 1.0)
        return Scored(record=record, score=record.overall, label=label, token_confidence=confidence)

    def _label(self, record: DeclaredRecord) -> str:
        if len(record.criteria) == 1:
            (only,) = record.criteria.values()
            return str(only.level) if only.label is None else only.label
        return "pass" if record.overall >= _pass_at(self.declaration) else "fail"

    def _ask(self, case: CaseInput, fence: Fence) -> Ask:
        declaration = self.declaration
        passages: dict[str, str] = {}
        blocks: list[str] = []
        for name in declaration.inputs:
            value = getattr(case, name)
            if name == "contexts":
                shown = {key: passage.shown for key, passage in numbered("ctx", value).items()}
                blocks.extend(fence.block(key, text) for key, text in shown.items())
                passages.update(shown)
            else:
                blocks.append(fence.block(name, value))
        if "reference" in declaration.inputs:
            passages["reference"] = str(getattr(case, "reference"))  # noqa: B009  # a field of some case models only
        criteria = [
            {
                "name": one.name,
                "text": disarm(one.text),
                "choices": [{"shown": each.shown, "description": disarm(each.description)} for each in one.choices],
            }
            for one in declaration.criteria
        ]
        return Ask(
            step=_STEP,
            messages=(
                Message("system", render(_PACKAGE, "system.md.j2", criteria=criteria)),
                Message("user", render(_PACKAGE, "judge.md.j2", blocks=blocks)),
            ),
            constraint=json_constraint(self.reply_model),
            verdicts={one.name: _verdict(one) for one in declaration.criteria},
            items={one.name: str(getattr(case, "answer")) for one in declaration.criteria},  # noqa: B009
            passages=passages,
            question=getattr(case, "question", None),
        )

    def sample_constraints(self) -> Mapping[str, Constraint]:
        """The one reply, which is the same for every case."""
        return {_STEP: json_constraint(self.reply_model)}


def declared_rubric(declaration: Declaration) -> DeclaredRubric:
    """The rubric that `declaration` states. Raises UnportableSchema when some judge could not be held to its reply."""
    case_fields = {name: _CASE_FIELDS[name] for name in declaration.inputs}
    reply_fields: dict[str, Any] = {one.name: (_reply_part(one), ...) for one in declaration.criteria}
    scale = _scale(declaration)
    said: Any = Literal[(*scale.names, CANNOT_SAY)]
    texts = " ".join(one.text for one in declaration.criteria)
    stated: dict[str, Any] = {
        "__module__": __name__,
        "__doc__": DeclaredRubric.__doc__,
        "declaration": declaration,
        "name": declaration.name,
        "version": declaration.version,
        "title": declaration.title or declaration.name,
        "question": texts,
        "case_model": create_model("DeclaredCase", __base__=CaseInput, **case_fields),
        "reply_model": create_model("DeclaredReply", __base__=DecodingModel, **reply_fields),
        "label_model": create_model("DeclaredHumanLabel", __base__=HumanLabel, label=(said, ...)),
        "scale": scale,
        "rules": _rules(declaration),
        "examples": tuple(_example(declaration, quality) for quality in ("good", "bad")),
    }
    made: DeclaredRubric = type("DeclaredRubric", (DeclaredRubric,), stated)()
    json_constraint(made.reply_model)
    return made


def _reply_part(criterion: Criterion) -> type[DecodingModel]:
    fields: dict[str, Any] = {
        "rationale": (Annotated[str, Field(max_length=RATIONALE_LENGTH)], ...),
        _answer(criterion): (Literal[criterion.values], ...),
    }
    return create_model("CriterionReply", __base__=DecodingModel, **fields)


def _answer(criterion: Criterion) -> Literal["level", "label"]:
    return "label" if criterion.levels is None else "level"


def _verdict(criterion: Criterion) -> VerdictField:
    return VerdictField((criterion.name, _answer(criterion)), tuple(map(str, criterion.values)))


def _result(criterion: Criterion, said: Mapping[str, Any]) -> CriterionResult:
    answer = said[_answer(criterion)]
    return CriterionResult(**said, normalised=criterion.normalised(answer), weight=criterion.weight)


def _pass_at(declaration: Declaration) -> float:
    return PASS_AT if declaration.pass_at is None else declaration.pass_at


def _scale(declaration: Declaration) -> Scale:
    if len(declaration.criteria) > 1:
        limit = _pass_at(declaration)
        labels = (Label("fail", f"Overall below {limit}."), Label("pass", f"Overall {limit} or more."))
        return Scale(labels, True, 0.0, 1.0)
    (only,) = declaration.criteria
    scores = [only.normalised(value) or 0.0 for value in only.values]
    names = map(str, only.values)
    named = tuple(Label(name, each.description) for name, each in zip(names, only.choices, strict=True))
    rising = all(low < high for low, high in pairwise(scores))
    return Scale(named, rising, 0.0, 1.0)


def _rules(declaration: Declaration) -> Rules:
    nothing = {"empty_answer": "The answer holds nothing visible. No call."}
    if "contexts" in declaration.inputs:
        nothing["empty_context"] = "There is no context, or only blank ones. No call."
    weights = ", ".join(f"{one.name} {one.weight:g}" for one in declaration.criteria)
    return Rules(
        score="Each level becomes (level - lowest) / (highest - lowest), each label its declared score; the score is "
        f"their mean by weight ({weights}). A criterion of weight 0 is reported, not scored.",
        nothing_to_judge=nothing,
        length_policy="Length counts only where a criterion says so.",
    )


def _example(declaration: Declaration, quality: Literal["good", "bad"]) -> Example:
    texts: Mapping[Input, Any] = {
        "question": "Where does the ferry start?",
        "contexts": ["The ferry starts at the north pier {{ daily }}."],
        "answer": "It starts at the north pier.",
        "reference": "At the north pier.",
    }
    reply = {}
    for one in declaration.criteria:
        ranked = sorted(one.values, key=lambda value, one=one: one.normalised(value) or 0.0)
        reply[one.name] = {"rationale": "As described.", _answer(one): ranked[-1 if quality == "good" else 0]}
    return Example({name: texts[name] for name in declaration.inputs}, (reply,), quality)
