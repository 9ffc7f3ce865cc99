"""Labels from what a file or a request says: normalised to the rubric's label set and its label model.

Owns how a value becomes a label and what counts as no answer. Knows no file and no database.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from judge_service.domain.calibration_set import Label, LabelCondition
from judge_service.errors import FieldProblem, InvalidInput
from judge_service.judging.cases import field_problems
from rubrics.model import Rubric
from rubrics.registry import UnknownRubric, get_rubric

NO_ANSWER = frozenset({"", "cannot_say", "cannot say", "skip", "skipped"})
"""Values that say that there is no answer: missing data, never a class of its own."""
MOST_WORDS = 1000
"""How many spellings of labels are remembered, and how many labels that other cases may have alike."""

_PLAIN = frozenset({str, bool, type(None)})
"""Types of which no two values are equal unless they are the same: 1 is equal to 1.0 and to True."""

_FIELDS = (
    "annotator",
    "label",
    "rubric",
    "detail",
    "condition",
    "kind",
    "order_shown",
    "seconds",
    "note",
    "adjudicated",
    "created_at",
    "items",
    "probability",
)


@dataclass
class Labeller:
    """Makes labels of one set. `names` maps a file's words to the rubric's labels, before anything else is tried.

    `annotator`, `condition` and `kind` are for labels that do not say themselves. `rubric` likewise.
    """

    set_id: str
    now: datetime
    rubric: str | None = None
    annotator: str = "gold"
    condition: LabelCondition = LabelCondition.BLIND
    kind: str = "human"
    names: Mapping[str, str] = field(default_factory=dict)
    _rubrics: dict[str, Rubric[Any] | None] = field(default_factory=dict)
    _values: dict[tuple[str, str], str | None] = field(default_factory=dict)
    _details: dict[tuple[str, str | None], dict[str, Any]] = field(default_factory=dict)
    _alike: dict[tuple[tuple[str, Any], ...], dict[str, Any]] = field(default_factory=dict)

    def label(self, case_id: str, given: Mapping[str, Any]) -> Label:
        """One label. Raises InvalidInput naming the field that does not fit."""
        plain = all(type(value) in _PLAIN for value in given.values())
        # Most labels of a file say what another case's label says.
        key = (("rubric", self.rubric), *given.items()) if plain else None
        fields = None if key is None else self._alike.get(key)
        if fields is None:
            fields = self._fields(given)
            if key is not None and len(self._alike) < MOST_WORDS:
                self._alike[key] = fields
        try:
            label = Label.model_validate({**fields, "case_id": case_id})
        except ValidationError as error:
            raise InvalidInput(fields=field_problems(error)) from None
        if label.created_at.tzinfo is None:
            raise InvalidInput(fields=[FieldProblem("created_at", "needs a time zone")])
        return label

    def _fields(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What the label of any case is made of that says the same; not yet checked by the model."""
        unknown = [name for name in given if name not in _FIELDS]
        if unknown:
            raise InvalidInput(fields=[FieldProblem(name, "is no field of a label") for name in unknown])
        reference = given.get("rubric") or self.rubric
        if not isinstance(reference, str):
            raise InvalidInput(
                fields=[FieldProblem("rubric", "a label needs the rubric it answers; name it or give the set one")]
            )
        rubric = self._rubric(reference)
        value = self._known_value(given.get("label"), rubric)
        detail = given.get("detail")
        if detail in (None, "", {}):
            detail = self._detail(rubric, value)
        elif isinstance(detail, Mapping):
            detail = _checked(rubric, detail, value)
        else:
            raise InvalidInput(fields=[FieldProblem("detail", "must be an object")])
        return {
            "set_id": self.set_id,
            "rubric": reference if rubric is None else rubric.id,
            "annotator": _text(given.get("annotator")) or self.annotator,
            "label": value,
            "detail": detail,
            "condition": given.get("condition") or self.condition,
            "kind": given.get("kind") or self.kind,
            "order_shown": given.get("order_shown") or None,
            "seconds": _number(given.get("seconds")),
            "note": given.get("note") or None,
            "adjudicated": _flag(given.get("adjudicated")),
            "created_at": given.get("created_at") or self.now,
            "items": given.get("items") or None,
            "probability": _number(given.get("probability")),
        }

    def _rubric(self, reference: str) -> Rubric[Any] | None:
        if reference not in self._rubrics:
            try:
                self._rubrics[reference] = get_rubric(reference)
            except UnknownRubric as error:
                raise InvalidInput(fields=[FieldProblem("rubric", str(error))]) from None
        return self._rubrics[reference]

    def _known_value(self, given: Any, rubric: Rubric[Any] | None) -> str | None:
        if not isinstance(given, str) or rubric is None:
            return self._value(given, rubric)
        key = (rubric.id, given)
        if key not in self._values:
            value = self._value(given, rubric)
            if len(self._values) > MOST_WORDS:
                return value
            self._values[key] = value
        return self._values[key]

    def _value(self, given: Any, rubric: Rubric[Any] | None) -> str | None:
        if isinstance(given, bool):
            given = "true" if given else "false"
        elif isinstance(given, float) and given.is_integer():
            given = str(int(given))
        elif isinstance(given, int | float):
            given = str(given)
        if given is None:
            return None
        if not isinstance(given, str):
            raise InvalidInput(fields=[FieldProblem("label", "must be a text, a number, a boolean or null")])
        text = self.names.get(given, self.names.get(given.strip(), given.strip()))
        if text.casefold() in NO_ANSWER:
            return None
        if rubric is None:
            return text
        for name in rubric.scale.names:
            if name == text:
                return name
        for name in rubric.scale.names:
            if name.casefold() == text.casefold():
                return name
        allowed = ", ".join(rubric.scale.names)
        raise InvalidInput(fields=[FieldProblem("label", f"{text[:80]!r} is none of {allowed}; map it to one of them")])

    def _detail(self, rubric: Rubric[Any] | None, value: str | None) -> dict[str, Any]:
        key = ("" if rubric is None else rubric.id, value)
        if key not in self._details:
            self._details[key] = _checked(rubric, {}, value)
        return self._details[key]


def _checked(rubric: Rubric[Any] | None, detail: Mapping[str, Any], value: str | None) -> dict[str, Any]:
    said = {**detail, "label": value if value is not None else "cannot_say"}
    if detail.get("label") not in (None, said["label"]):
        raise InvalidInput(fields=[FieldProblem("detail.label", f"{detail['label']!r} is not the label {value!r}")])
    if rubric is None:
        return said
    try:
        return rubric.label_model.model_validate(said).model_dump(mode="json")
    except ValidationError as error:
        raise InvalidInput(fields=field_problems(error, "detail")) from None


def _text(value: Any) -> str | None:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _number(value: Any) -> Any:
    if isinstance(value, str):
        if not value.strip():
            return None
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _flag(value: Any) -> Any:
    if value in (None, ""):
        return False
    if isinstance(value, str):
        return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}.get(
            value.strip().casefold(), value
        )
    return value
