"""Imports files of cases and of labels into an open set: looked through as a whole first, then stored.

Owns what refuses a file: doubled ids, rows that do not fit, content that differs from what is stored. Nothing of a
refused file is stored. Both steps stream, so memory does not grow with the file but for eight bytes an id.
"""

import pickle
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from judge_service.domain.calibration_set import ImportResult, Label, LabelCondition, SetCase, SetVersion, Spent, Split
from judge_service.domain.canonical import content_hash
from judge_service.domain.case import Case
from judge_service.errors import FieldProblem, InvalidInput, StoreError
from judge_service.files.checks import Ids, Problems
from judge_service.files.rows import FileKind, Row
from judge_service.files.source import Source
from judge_service.judging.cases import field_problems, parse_case
from judge_service.runs.case_shape import silent, with_lists
from judge_service.sets.labelling import Labeller
from judge_service.sets.shapes import Context, Shape, Shaped, convert, recognise, require_answers, shape_named
from judge_service.sets.turns import turn
from judge_service.store import Store
from rubrics.model import Rubric
from rubrics.registry import UnknownRubric, get_rubric

MOST_UNJOINED = 1000
"""How many ids that belong to no case are listed; more are counted only."""
BATCH = 1000
"""Cases, or labels, handed to the store at once."""

Step = Literal["checked", "stored"]
OnProgress = Callable[[Step, int], None]
"""Told the step and how many cases have been through it."""


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """How a file is read.

    `shape` None: recognised by the fields of the first row. `names` renames fields (`source -> target`) before that.
    `labels` maps a file's words to the rubric's labels. `annotator`, `condition` and `kind` stand for labels that do
    not say themselves; `split` for cases that name none. `answers` is the file that some shapes need beside the cases.
    """

    shape: str | None = None
    rubric: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    split: Split = Split.CALIBRATION
    annotator: str = "gold"
    condition: LabelCondition = LabelCondition.BLIND
    kind: str = "human"
    answers: Source | None = None


class Imported(BaseModel):
    """What an import did: the shape it was read as, cases and labels, and what became of fields nobody knows.

    `spent`: cases of the set's release split that are no test any more and count as development.
    """

    model_config = ConfigDict(frozen=True)

    set_id: str
    file: str
    format: str
    rubric: str | None
    cases: ImportResult = ImportResult()
    labels: ImportResult = ImportResult()
    dropped: dict[str, int] = {}
    spent: Spent = Spent()


@dataclass(slots=True)
class _Item:
    entry: SetCase
    labels: list[Label]


class _Kept:
    """What a file was read as, on disk until it is stored, so that a file of any size is read once."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # closed with this object

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def keeping(self, batches: Iterable[list[_Item]]) -> Iterator[list[_Item]]:
        """The batches, each kept before it is handed on. Raises StoreError where there is no room."""
        for batch in batches:
            self._add(batch)
            yield batch

    def _add(self, batch: Sequence[_Item]) -> None:
        """Keep a batch, fresh from reading.

        Bare fields: the records themselves would take five times as long.
        """
        bare = [
            (vars(item.entry.case), item.entry.split, item.entry.source_line, [vars(label) for label in item.labels])
            for item in batch
        ]
        try:
            pickle.dump(bare, self._file, pickle.HIGHEST_PROTOCOL)
        except OSError as error:
            folder = tempfile.gettempdir()
            raise StoreError(f"There is no room in {folder} ({error.strerror}): nothing was imported.") from error

    def __iter__(self) -> Iterator[list[_Item]]:
        """The batches, as they were added."""
        end = self._file.tell()
        self._file.seek(0)
        while self._file.tell() < end:
            # Nobody else can write into a file without a name.
            yield [
                _Item(
                    SetCase(case=Case.model_validate(case), split=split, source_line=line),
                    [Label.model_validate(label) for label in labels],
                )
                for case, split, line, labels in pickle.load(self._file)  # noqa: S301
            ]


def import_cases(
    store: Store,
    reference: str,
    source: Source,
    options: ImportOptions | None = None,
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    on_progress: OnProgress | None = None,
) -> Imported:
    """Import cases with the labels in their rows into an open set.

    The same file again changes nothing. Raises InvalidInput naming rows (doubled ids among them), Conflict listing
    what differs from the stored content, NotFound: in all of them nothing is stored.
    """
    options = options or ImportOptions()
    version = store.sets.get(reference)
    with turn(version.id):
        return _import_cases(store, version, source, options, now(), on_progress)


def _import_cases(
    store: Store,
    version: SetVersion,
    source: Source,
    options: ImportOptions,
    now: datetime,
    on_progress: OnProgress | None,
) -> Imported:
    reading = _Reading(version, source, options, now)
    with _Kept() as kept:
        cases, labels = _pass(store, version.id, kept.keeping(_batches(reading.items())), "checked", on_progress)
        if not _any(cases, labels):
            raise _nothing(source)
        # Else everything is there already.
        if cases.added or labels.added:
            if version.rubric is None and reading.answered is not None:
                store.sets.settle_rubric(version.id, reading.answered)
            cases, labels = _pass(store, version.id, kept, "stored", on_progress)
    return Imported(
        set_id=version.id,
        file=source.name,
        format=reading.shape.name if reading.shape else "plain",
        rubric=None if reading.rubric is None else reading.rubric.id,
        cases=cases,
        labels=labels,
        dropped=dict(reading.dropped),
        spent=store.sets.spent(version.id),
    )


def _pass(
    store: Store, set_id: str, batches: Iterable[list[_Item]], step: Step, on_progress: OnProgress | None
) -> tuple[ImportResult, ImportResult]:
    cases, labels, done = ImportResult(), ImportResult(), 0
    check = step == "checked"
    for batch in batches:
        cases += store.sets.add_cases(set_id, [item.entry for item in batch], check=check)
        made = [label for item in batch for label in item.labels]
        if made:
            # They came with their cases: where a case seems to be missing, it is not stored yet.
            labels += store.labels.add(set_id, made, check=check).model_copy(update={"unjoined": ()})
        done += len(batch)
        if on_progress is not None:
            on_progress(step, done)
    return cases, labels


def import_labels(
    store: Store,
    reference: str,
    source: Source,
    options: ImportOptions | None = None,
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Imported:
    """Import a table of labels: `case_id` (or `id`), `label`, `annotator` and what else a label may say.

    Labels of ids that are no case of the set are listed, not stored. Raises as `import_cases` does.
    """
    options = options or ImportOptions()
    version = store.sets.get(reference)
    with turn(version.id):
        return _import_labels(store, version, source, options, now())


def _import_labels(
    store: Store, version: SetVersion, source: Source, options: ImportOptions, now: datetime
) -> Imported:
    reading = _LabelReading(version, source, options, now)
    labels = ImportResult()
    for check in (True, False):
        labels = ImportResult()
        for batch in _batches(reading.labels()):
            labels += store.labels.add(version.id, batch, check=check)
            if len(labels.unjoined) > MOST_UNJOINED:
                labels = labels.model_copy(update={"unjoined": labels.unjoined[:MOST_UNJOINED]})
        if check and not _any(labels):
            raise _nothing(source)
        if check and not labels.added:
            break
    return Imported(set_id=version.id, file=source.name, format="labels", rubric=reading.labeller.rubric, labels=labels)


def _any(*results: ImportResult) -> bool:
    return any(result.added or result.unchanged or result.unjoined for result in results)


def _nothing(source: Source) -> InvalidInput:
    message = "holds no record: it is empty, or has a header only"
    return InvalidInput(f"Nothing was imported: {source.name} {message}.", fields=[FieldProblem("file", message)])


def _batches(items: Iterator[Any]) -> Iterator[list[Any]]:
    batch: list[Any] = []
    for item in items:
        batch.append(item)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def read_rubric(reference: str | None) -> Rubric[Any] | None:
    """A rubric by name. Raises InvalidInput for one that this program does not know."""
    if reference is None:
        return None
    try:
        return get_rubric(reference)
    except UnknownRubric as error:
        raise InvalidInput(str(error), fields=[FieldProblem("rubric", str(error))]) from None


class _Reading:
    """The cases of one file; each call of `items` reads it again."""

    def __init__(self, version: SetVersion, source: Source, options: ImportOptions, now: datetime) -> None:
        self._version = version
        self._source = source
        self._table = source.kind is not FileKind.JSONL
        self._options = options
        self.shape: Shape | None = None if options.shape is None else shape_named(options.shape)
        self.rubric = read_rubric(options.rubric or version.rubric)
        self.dropped: Counter[str] = Counter()
        self._label_rubrics: set[str] = set()
        self._answers = None if options.answers is None else _by_case(options.answers)
        self._labeller = Labeller(
            set_id=version.id,
            now=now,
            rubric=None if self.rubric is None else self.rubric.id,
            annotator=options.annotator,
            condition=options.condition,
            kind=options.kind,
            names=options.labels,
        )

    @property
    def answered(self) -> str | None:
        """The rubric that the file is about: that of its cases, else the only one its labels name."""
        if self.rubric is not None:
            return self.rubric.id
        return next(iter(self._label_rubrics)) if len(self._label_rubrics) == 1 else None

    def items(self) -> Iterator[_Item]:
        """Every case with its labels, as a stream. Raises InvalidInput after the last good row before a bad one."""
        self.dropped.clear()
        ids = Ids()
        problems = Problems(self._source.name, self._source.unit)
        for row in self._source.rows():
            if self.shape is None:
                self.shape = recognise(_renamed(row.fields, self._options.names))
            # A fault of the request, not of a row: said once.
            require_answers(self.shape, self._answers is not None)
            try:
                found = list(self._row(self.shape, row, ids))
            except InvalidInput as error:
                if not problems.add(row.number, error):
                    break
                continue
            if not problems.found:
                yield from found
        problems.refuse("Nothing was imported.")

    def _row(self, shape: Shape, row: Row, ids: Ids) -> Iterator[_Item]:
        fields = _renamed(row.fields, self._options.names)
        if self.rubric is None and shape.rubric is not None:
            self.rubric = read_rubric(shape.rubric)
            self._labeller.rubric = shape.rubric
        if self._table and self.rubric is not None:
            fields = with_lists(fields, self.rubric)
        context = Context(self.rubric, self._answers)
        # As a run over the same file reads it, so that the case is the same.
        unsaid = silent(fields, self.rubric) if self._table and self.rubric is not None else frozenset()
        for shaped in convert(shape, fields, context):
            for name in unsaid & shaped.input.keys():
                del shaped.input[name]
            yield self._item(shaped, row.number, ids)

    def _item(self, shaped: Shaped, number: int, ids: Ids) -> _Item:
        self.dropped.update(shaped.dropped)
        case_id = _id(shaped.id)
        unique = case_id or _generated(shaped)
        earlier = ids.seen(unique, number)
        if earlier is not None and case_id is not None:
            message = f"the id {case_id!r} is in the file already, at {self._source.unit} {earlier}"
            raise InvalidInput(fields=[FieldProblem("id", message)])
        copy = 1
        while earlier is not None:
            copy += 1
            unique = f"{_generated(shaped)}-{copy}"
            earlier = ids.seen(unique, number)
        try:
            case = Case(id=unique, input=shaped.input, group=_group(shaped.group), metadata=shaped.metadata)
            split = self._options.split if shaped.split in (None, "") else Split(shaped.split)
        except ValidationError as error:
            raise InvalidInput(fields=field_problems(error)) from None
        except ValueError:
            allowed = ", ".join(Split)
            raise InvalidInput(fields=[FieldProblem("split", f"{shaped.split!r} is none of {allowed}")]) from None
        if self.rubric is not None:
            _fits(self.rubric, case)
        labels = self._labels(unique, shaped.labels)
        return _Item(SetCase(case=case, split=split, source_line=number), labels)

    def _labels(self, case_id: str, given: Sequence[Mapping[str, Any]]) -> list[Label]:
        labels: list[Label] = []
        slots: set[tuple[Any, ...]] = set()
        for place, one in enumerate(given):
            try:
                label = self._labeller.label(case_id, one)
            except InvalidInput as error:
                where = "" if len(given) == 1 else f"labels[{place}]."
                raise InvalidInput(
                    fields=[FieldProblem(f"{where}{problem.path}", problem.message) for problem in error.fields]
                ) from None
            if label.slot in slots:
                message = f"{label.annotator!r} has labelled this case twice in one row"
                raise InvalidInput(fields=[FieldProblem(f"labels[{place}]", message)])
            slots.add(label.slot)
            self._label_rubrics.add(label.rubric)
            labels.append(label)
        return labels


class _LabelReading:
    """The labels of one file; each call of `labels` reads it again."""

    def __init__(self, version: SetVersion, source: Source, options: ImportOptions, now: datetime) -> None:
        self._source = source
        self._options = options
        rubric = read_rubric(options.rubric or version.rubric)
        self.labeller = Labeller(
            set_id=version.id,
            now=now,
            rubric=None if rubric is None else rubric.id,
            annotator=options.annotator,
            condition=options.condition,
            kind=options.kind,
            names=options.labels,
        )

    def labels(self) -> Iterator[Label]:
        """Every label, as a stream."""
        ids = Ids()
        problems = Problems(self._source.name, self._source.unit)
        for row in self._source.rows():
            try:
                label = self._label(row)
                earlier = ids.seen(repr(label.slot), row.number)
                if earlier is not None:
                    where = f"{self._source.unit} {earlier}"
                    message = f"{label.annotator!r} labels {label.case_id!r} a second time; first at {where}"
                    raise InvalidInput(fields=[FieldProblem("annotator", message)])
            except InvalidInput as error:
                if not problems.add(row.number, error):
                    break
                continue
            if not problems.found:
                yield label
        problems.refuse("Nothing was imported.")

    def _label(self, row: Row) -> Label:
        given = {name: value for name, value in _renamed(row.fields, self._options.names).items() if value is not None}
        id_ = given.pop("case_id", None)
        if id_ is None:
            id_ = given.pop("id", None)
        case_id = _id(id_)
        if case_id is None:
            raise InvalidInput(fields=[FieldProblem("case_id", "is missing")])
        if "human_label" in given and "label" not in given:
            given["label"] = given.pop("human_label")
        by = given.pop("by", None)
        if by in ("human", "model"):
            given.setdefault("kind", by)
        elif by is not None:
            given.setdefault("annotator", by)
        return self.labeller.label(case_id, given)


def _renamed(fields: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    if not names:
        return fields
    taken = set(names.values())
    # A field that another one is renamed to gives way; what is renamed to nothing is left out.
    kept = {name: value for name, value in fields.items() if name not in taken or name in names}
    renamed = {names.get(name, name): value for name, value in kept.items()}
    renamed.pop("", None)
    return renamed


def _by_case(source: Source) -> dict[str, list[Mapping[str, Any]]]:
    answers: dict[str, list[Mapping[str, Any]]] = {}
    problems = Problems(source.name, source.unit)
    for row in source.rows():
        missing = [name for name in ("case_id", "model", "answer") if not isinstance(row.fields.get(name), str)]
        if missing:
            error = InvalidInput(fields=[FieldProblem(name, "is missing or no text") for name in missing])
            if not problems.add(row.number, error):
                break
            continue
        answers.setdefault(row.fields["case_id"], []).append(row.fields)
    problems.refuse("Nothing was imported.")
    return answers


def _fits(rubric: Rubric[Any], case: Case) -> None:
    try:
        parse_case(rubric, case)
    except InvalidInput as error:
        raise InvalidInput(
            fields=[FieldProblem(problem.path.removeprefix("case."), problem.message) for problem in error.fields]
        ) from None


def _id(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise InvalidInput(fields=[FieldProblem("id", "must be a text or a whole number")])
    if not value:
        raise InvalidInput(fields=[FieldProblem("id", "must not be empty")])
    return value


def _group(value: Any) -> str | None:
    if isinstance(value, bool) or not (value is None or isinstance(value, str | int)):
        raise InvalidInput(fields=[FieldProblem("group", "must be a text or a whole number")])
    return None if value is None else str(value)


def _generated(shaped: Shaped) -> str:
    return f"case-{content_hash([shaped.input, shaped.group, shaped.metadata])[:16]}"
