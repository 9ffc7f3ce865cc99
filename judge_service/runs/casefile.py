"""Reads case files: one JSON object a line, as a stream, refused as a whole with line numbers.

Owns what a line may look like. The rubric's own model decides about the case inside it.
"""

import difflib
import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

from pydantic import AliasChoices, AliasPath, ValidationError

from judge_service.domain.canonical import content_hash
from judge_service.domain.case import Case
from judge_service.errors import FieldProblem, InvalidInput
from judge_service.judging.cases import field_problems, parse_case
from rubrics.model import Rubric

MAX_DEPTH = 64
"""Deepest nesting of a line. No case model needs more than five levels."""
MAX_PROBLEMS = 20
"""How many problems are collected before a file is refused."""
_MAX_NOTICES = 100
_OWN_FIELDS = ("id", "group", "metadata", "input")
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class CaseReader(Iterator[Case]):
    """An iterator of cases. After it ended, `as_metadata` and `dropped` count what became of unknown fields.

    Raises InvalidInput at the first bad line, after looking for up to `MAX_PROBLEMS` more; the fields' paths start
    with `line <n>`. Whoever stores cases reads to the end before judging the first.
    """

    def __init__(self, lines: Iterable[str | bytes] | bytes, rubric: Rubric[Any], *, strict: bool) -> None:
        self.as_metadata: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        self.n_read = 0
        self._rubric = rubric
        self._strict = strict
        self._names = case_fields(rubric)
        # Eight bytes of hash instead of the id: a million ids take a hundred megabytes less.
        self._seen: dict[int, int] = {}
        self._cases = self._read(_split(lines))

    def __next__(self) -> Case:
        """The next case."""
        return next(self._cases)

    @property
    def notices(self) -> list[str]:
        """Sentences about fields that the rubric does not know; empty when there were none."""
        sentences = []
        if self.as_metadata:
            sentences.append(f"Kept as metadata: {_list(self.as_metadata)}.")
        if self.dropped:
            sentences.append(f"Ignored, because {self._rubric.id} has no such field: {_list(self.dropped)}.")
        return sentences

    def _read(self, lines: Iterator[str | bytes]) -> Iterator[Case]:
        problems: list[FieldProblem] = []
        for number, raw in enumerate(lines, start=1):
            try:
                text = _text(raw, first=number == 1)
                if not text.strip(" \t\r\n"):
                    continue
                case = self._case(parse_line(text), number)
            except InvalidInput as error:
                problems.extend(_on_line(number, error))
                if len(problems) >= MAX_PROBLEMS:
                    break
                continue
            if not problems:
                self.n_read += 1
                yield case
        if problems:
            where = ", ".join(dict.fromkeys(problem.path.split(":")[0] for problem in problems))
            raise InvalidInput(f"The case file is not usable: see {where}. Nothing was judged.", fields=problems)

    def _case(self, fields: Mapping[str, Any], number: int) -> Case:
        case = shape_case(fields, self._rubric, strict=self._strict, names=self._names, notices=self)
        generated = case.id == ""
        name = _generated_id(case) if generated else case.id
        copy = 1
        while True:
            unique = name if copy == 1 else f"{name}-{copy}"
            key = int.from_bytes(hashlib.blake2b(unique.encode("utf-8", "surrogatepass"), digest_size=8).digest())
            earlier = self._seen.setdefault(key, number)
            if earlier == number:
                break
            if not generated:
                raise InvalidInput(fields=[FieldProblem("id", f"the id {case.id!r} is on line {earlier} already")])
            copy += 1
        if generated:
            case = case.model_copy(update={"id": unique})
        parse_case(self._rubric, case)
        return case


def read_cases(lines: Iterable[str | bytes] | bytes, rubric: Rubric[Any], *, strict: bool) -> CaseReader:
    """Cases of a JSONL file: text or bytes as a whole, or its lines.

    A line holds `id` (made from the content when missing), optional `group` and `metadata`, and the fields of the
    rubric's case model, flat or under `input`. With `strict` unknown fields are refused; else scalars become
    metadata and the rest is dropped, and the reader counts both. Raises InvalidInput, naming lines.
    """
    return CaseReader(lines, rubric, strict=strict)


def case_fields(rubric: Rubric[Any]) -> frozenset[str]:
    """Every name under which the rubric's case model accepts a field, aliases included."""
    names: set[str] = set()
    for name, info in rubric.case_model.model_fields.items():
        names.add(name)
        for alias in (info.alias, info.validation_alias):
            choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
            for choice in choices:
                first = choice.path[0] if isinstance(choice, AliasPath) else choice
                if isinstance(first, str):
                    names.add(first)
    return frozenset(names)


def shape_case(
    fields: Mapping[str, Any],
    rubric: Rubric[Any],
    *,
    strict: bool,
    names: frozenset[str] | None = None,
    notices: CaseReader | None = None,
) -> Case:
    """A case from one object as `read_cases` describes it; its id is empty when there was none.

    Raises InvalidInput with the paths of the object's own fields. The case's input is not yet validated.
    """
    names = case_fields(rubric) if names is None else names
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
            problems.append(FieldProblem(name, "belongs under `input`, where this line has its fields"))
        elif strict:
            near = difflib.get_close_matches(name, [*names, *_OWN_FIELDS], n=1)
            problems.append(FieldProblem(name, f"unknown field{f'; did you mean `{near[0]}`?' if near else ''}"))
        elif isinstance(value, str | int | float | bool) or value is None:
            metadata.setdefault(name, value)
            _count(None if notices is None else notices.as_metadata, name)
        else:
            _count(None if notices is None else notices.dropped, name)
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


def parse_line(text: str) -> dict[str, Any]:
    """One JSON object, read strictly: no repeated keys, no NaN, no infinite or endless number, no half characters.

    Raises InvalidInput saying what is wrong and where.
    """
    try:
        value = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_bounded,
        )
        if not isinstance(value, dict):
            raise InvalidInput(fields=[FieldProblem("", "must be one JSON object")])
        _check_depth(value)
        if "\\ud" in text.lower() or not text.isascii():
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise InvalidInput(fields=[FieldProblem("", f"is not JSON: {error.msg} at column {error.colno}")]) from None
    except UnicodeEncodeError:
        raise InvalidInput(fields=[FieldProblem("", "holds half of a surrogate pair, which is no character")]) from None
    except RecursionError:
        raise InvalidInput(fields=[FieldProblem("", f"is nested deeper than {MAX_DEPTH} levels")]) from None
    return value


def _split(lines: Iterable[str | bytes] | bytes) -> Iterator[str | bytes]:
    # Only "\n" ends a line: str.splitlines would cut inside texts that hold U+2028 or a form feed.
    if isinstance(lines, str):
        yield from lines.split("\n")
    elif isinstance(lines, bytes):
        yield from lines.split(b"\n")
    else:
        yield from lines


def _text(raw: str | bytes, *, first: bool) -> str:
    if isinstance(raw, bytes):
        if first and raw[:2] in _UTF16:
            raise InvalidInput(fields=[FieldProblem("", "the file is UTF-16; save it as UTF-8")])
        try:
            raw = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidInput(fields=[FieldProblem("", f"is not UTF-8 at byte {error.start + 1}")]) from None
    return raw.removeprefix("\ufeff") if first else raw


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        doubled = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
        raise InvalidInput(fields=[FieldProblem(name[:80], "this key is there more than once") for name in doubled])
    return value


def _no_constant(name: str) -> NoReturn:
    raise InvalidInput(fields=[FieldProblem("", f"holds {name}, which is no JSON number")])


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise InvalidInput(fields=[FieldProblem("", f"holds the number {text[:40]}, which is too large")])
    return value


def _bounded(text: str) -> int:
    # Python itself refuses to print integers of more than 4,300 digits.
    if len(text) > 1000:
        raise InvalidInput(fields=[FieldProblem("", f"holds a number of {len(text)} digits; at most 1000 are read")])
    return int(text)


def _check_depth(value: Any) -> None:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise InvalidInput(fields=[FieldProblem("", f"is nested deeper than {MAX_DEPTH} levels")])


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


def _generated_id(case: Case) -> str:
    return f"case-{content_hash([case.input, case.group, case.metadata])[:16]}"


def _count(counter: Counter[str] | None, name: str) -> None:
    if counter is not None and (name in counter or len(counter) < _MAX_NOTICES):
        counter[name] += 1


def _list(counter: Counter[str]) -> str:
    return ", ".join(f"`{name}` ({count} {'line' if count == 1 else 'lines'})" for name, count in counter.items())


def _on_line(number: int, error: InvalidInput) -> list[FieldProblem]:
    problems = []
    for problem in error.fields:
        path = problem.path.removeprefix("case.") if problem.path != "case" else ""
        problems.append(FieldProblem(f"line {number}: {path}" if path else f"line {number}", problem.message))
    return problems or [FieldProblem(f"line {number}", error.message)]
