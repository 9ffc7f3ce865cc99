"""One object as a case: which of its fields are the rubric's, what becomes of the others, and cells of tables.

Owns what a case of a file or a request may look like. The rubric's own model decides about the case inside it.
"""

import difflib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from pydantic import AliasChoices, AliasPath, ValidationError
from pydantic.fields import FieldInfo

from judge_service.domain.case import Case
from judge_service.errors import FieldProblem, InvalidInput
from judge_service.files.strict_json import parse_cell
from judge_service.judging.cases import field_problems
from rubrics.model import Rubric

_MAX_NOTICES = 100
_OWN_FIELDS = ("id", "group", "metadata", "input")
_NESTED = ("input", "metadata")


@dataclass(slots=True)
class Unknown:
    """What became of fields that the rubric does not know, counted by name: kept as metadata, or dropped."""

    as_metadata: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)

    def notices(self, rubric: Rubric[Any], unit: str) -> list[str]:
        """Sentences about them; empty when there were none. `unit` is what a row is called."""
        sentences = []
        if self.as_metadata:
            sentences.append(f"Kept as metadata: {_list(self.as_metadata, unit)}.")
        if self.dropped:
            sentences.append(f"Ignored, because {rubric.id} has no such field: {_list(self.dropped, unit)}.")
        return sentences


@lru_cache(maxsize=64)
def case_fields(rubric: Rubric[Any]) -> frozenset[str]:
    """Every name under which the rubric's case model accepts a field, aliases included."""
    names: set[str] = set()
    for name, info in rubric.case_model.model_fields.items():
        names |= _names(name, info)
    return frozenset(names)


def _names(name: str, info: FieldInfo) -> set[str]:
    names = {name}
    for alias in (info.alias, info.validation_alias):
        choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
        for choice in choices:
            first = choice.path[0] if isinstance(choice, AliasPath) else choice
            if isinstance(first, str):
                names.add(first)
    return names


@dataclass(frozen=True, slots=True)
class _Cell:
    """What a rubric's field takes: `whole` a list or an object, which stands in a table as JSON."""

    whole: bool
    required: bool


@lru_cache(maxsize=64)
def _cells(rubric: Rubric[Any]) -> Mapping[str, _Cell]:
    schema = rubric.case_model.model_json_schema(by_alias=False)
    cells = {}
    for name, info in rubric.case_model.model_fields.items():
        described = schema["properties"][name]
        kinds = [one.get("type", "object") for one in described.get("anyOf", [described]) if one.get("type") != "null"]
        cell = _Cell(bool(kinds) and all(kind in ("array", "object") for kind in kinds), info.is_required())
        cells.update(dict.fromkeys(_names(name, info), cell))
    return cells


def from_table(fields: Mapping[str, Any], rubric: Rubric[Any]) -> dict[str, Any]:
    """A row of a table as `shape_case` wants it.

    Lists and objects may stand as JSON in a text, columns `input.NAME` and `metadata.NAME` are parts of those objects,
    and of what is `silent` nothing is said. Raises InvalidInput naming the column.
    """
    cells = _cells(rubric)
    row: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {}
    for name, value in fields.items():
        part, dot, rest = name.partition(".")
        if name in cells:
            _put(row, name, name, value, cells[name])
        elif dot and part in _NESTED:
            cell = cells.get(rest) if part == "input" else None
            if cell is None or not cell.whole:
                parts.setdefault(part, {})[rest] = value
            else:
                _put(parts.setdefault(part, {}), rest, name, value, cell)
        elif name in _NESTED:
            _put(row, name, name, value, _Cell(whole=True, required=False))
        else:
            row[name] = value
    for name, part_of in parts.items():
        whole = row.setdefault(name, {})
        if isinstance(whole, Mapping):
            row[name] = {**whole, **part_of}
    return row


def with_lists(fields: Mapping[str, Any], rubric: Rubric[Any]) -> dict[str, Any]:
    """A row whose texts are read as JSON where the rubric's field is a list or an object. Raises InvalidInput."""
    cells = _cells(rubric)
    return {
        name: _whole(value, name) if name in cells and cells[name].whole else value for name, value in fields.items()
    }


def silent(fields: Mapping[str, Any], rubric: Rubric[Any]) -> frozenset[str]:
    """The rubric's fields of which a row of a table says nothing: not required, and their column is empty.

    In columns `input.NAME`, which exports write, everything is said, an empty text too.
    """
    cells = _cells(rubric)
    return frozenset(name for name, value in fields.items() if _silent(value, cells.get(name)))


def _silent(value: Any, cell: _Cell | None) -> bool:
    return cell is not None and not cell.required and value in ("", None)


def _put(row: dict[str, Any], name: str, column: str, value: Any, cell: _Cell | None) -> None:
    if _silent(value, cell):
        return
    row[name] = _whole(value, column) if cell is not None and cell.whole else value


def _whole(value: Any, column: str) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return parse_cell(value)
    except InvalidInput as error:
        message = f'must be JSON, such as ["one", "two"]: {error.fields[0].message}'
        raise InvalidInput(fields=[FieldProblem(column, message)]) from None


def shape_case(
    fields: Mapping[str, Any],
    rubric: Rubric[Any],
    *,
    strict: bool,
    unknown: Unknown | None = None,
) -> Case:
    """A case from one object as `read_cases` describes it; its id is empty when there was none.

    Raises InvalidInput with the paths of the object's own fields. The case's input is not yet validated.
    """
    names = case_fields(rubric)
    problems: list[FieldProblem] = []
    nested = "input" in fields and "input" not in names
    given: dict[str, Any] = {}
    if nested:
        inner = fields["input"]
        if isinstance(inner, Mapping):
            given.update(inner)
        else:
            problems.append(FieldProblem("input", "must be an object with the fields of the case"))
    metadata = _metadata(fields.get("metadata"), problems)
    for name, value in fields.items():
        if name in names and not nested:
            given[name] = value
        elif name in _OWN_FIELDS:
            continue
        elif name in names:
            problems.append(FieldProblem(name, "belongs under `input`, where this case has its fields"))
        elif strict:
            near = difflib.get_close_matches(name, [*names, *_OWN_FIELDS], n=1)
            problems.append(FieldProblem(name, f"unknown field{f'; did you mean `{near[0]}`?' if near else ''}"))
        elif isinstance(value, str | int | float | bool) or value is None:
            metadata.setdefault(name, value)
            _count(None if unknown is None else unknown.as_metadata, name)
        else:
            _count(None if unknown is None else unknown.dropped, name)
    case_id = _id(fields, problems)
    group = _text_or_none(fields.get("group"), "group", problems) if "group" not in names else None
    if problems:
        raise InvalidInput(fields=problems)
    try:
        # The length is checked below by the model; an empty id stands for "none given".
        case = Case(id=case_id or "-", input=given, group=group, metadata=metadata)
    except ValidationError as error:
        raise InvalidInput(fields=field_problems(error)) from None
    return case if case_id else case.model_copy(update={"id": ""})


def _id(fields: Mapping[str, Any], problems: list[FieldProblem]) -> str | None:
    value = fields.get("id")
    if value == "":
        problems.append(FieldProblem("id", "must not be empty"))
    return _text_or_none(value, "id", problems)


def _text_or_none(value: Any, name: str, problems: list[FieldProblem]) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    problems.append(FieldProblem(name, "must be a text or a whole number"))
    return None


def _metadata(value: Any, problems: list[FieldProblem]) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        problems.append(FieldProblem("metadata", "must be an object of texts, numbers, booleans and nulls"))
        return {}
    for name, inner in value.items():
        if inner is not None and not isinstance(inner, str | int | float | bool):
            problems.append(FieldProblem(f"metadata.{name}", "must be a text, a number, a boolean or null"))
    return dict(value)


def _count(counter: Counter[str] | None, name: str) -> None:
    if counter is not None and (name in counter or len(counter) < _MAX_NOTICES):
        counter[name] += 1


def _list(counter: Counter[str], unit: str) -> str:
    return ", ".join(f"`{name}` ({count} {unit}{'s' if count > 1 else ''})" for name, count in counter.items())
