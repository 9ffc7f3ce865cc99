"""Reads files of cases: JSON lines, CSV or Parquet, as a stream, refused as a whole with the numbers of bad rows.

Owns ids: those that are missing are made from the content, those that are there twice refuse the file.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from judge_service.domain.canonical import content_hash
from judge_service.domain.case import Case
from judge_service.errors import FieldProblem, InvalidInput
from judge_service.files.checks import Ids, Problems
from judge_service.files.json_lines import read_json_lines
from judge_service.files.rows import BadRow, FileKind, Row
from judge_service.files.source import Source
from judge_service.judging.cases import parse_case
from judge_service.runs.case_shape import Unknown, from_table, shape_case
from rubrics.model import Rubric

Lines = Iterable[str | bytes] | bytes
"""JSON lines: text or bytes as a whole, or line by line."""


class CaseReader(Iterator[Case]):
    """An iterator of cases. After it ended, `unknown` counts what became of fields that the rubric does not know.

    Raises InvalidInput at the first bad row, after looking for some more; the fields' paths start with the row, such
    as `line 3`, `record 3` (the header of a CSV is record 1) or `row 3`. Whoever stores cases reads to the end before
    judging the first.
    """

    def __init__(self, file: Source | Lines, rubric: Rubric[Any], *, strict: bool) -> None:
        self.unknown = Unknown()
        self.n_read = 0
        self._rubric = rubric
        self._strict = strict
        self._ids = Ids()
        if isinstance(file, Source):
            self._unit = file.unit
            self._table = file.kind is not FileKind.JSONL
            self._cases = self._read(file.readings(), Problems(file.name, file.unit))
        else:
            self._unit = "line"
            self._table = False
            self._cases = self._read(read_json_lines(file), Problems("The case file", "line"))

    def __next__(self) -> Case:
        """The next case."""
        return next(self._cases)

    @property
    def notices(self) -> list[str]:
        """Sentences about fields that the rubric does not know; empty when there were none."""
        return self.unknown.notices(self._rubric, self._unit)

    def _read(self, rows: Iterator[Row | BadRow], problems: Problems) -> Iterator[Case]:
        for row in rows:
            try:
                if isinstance(row, BadRow):
                    raise row.error
                case = self._case(row)
            except InvalidInput as error:
                if not problems.add(row.number, error):
                    break
                continue
            if not problems.found:
                self.n_read += 1
                yield case
        problems.refuse("Nothing was judged.")

    def _case(self, row: Row) -> Case:
        fields = from_table(row.fields, self._rubric) if self._table else row.fields
        case = shape_case(fields, self._rubric, strict=self._strict, unknown=self.unknown)
        if case.id:
            earlier = self._ids.seen(case.id, row.number)
            if earlier is not None:
                message = f"the id {case.id!r} is on {self._unit} {earlier} already"
                raise InvalidInput(fields=[FieldProblem("id", message)])
        else:
            made = f"case-{content_hash([case.input, case.group, case.metadata])[:16]}"
            unique, copy = made, 1
            while self._ids.seen(unique, row.number) is not None:
                copy += 1
                unique = f"{made}-{copy}"
            case = case.model_copy(update={"id": unique})
        parse_case(self._rubric, case)
        return case


def read_cases(file: Source | Lines, rubric: Rubric[Any], *, strict: bool) -> CaseReader:
    """Cases of a file.

    A row holds `id` (made from the content when missing), optional `group` and `metadata`, and the fields of the
    rubric's case model, flat or under `input`; lists and objects stand in a CSV as JSON. With `strict` unknown fields
    are refused; else scalars become metadata and the rest is dropped, and the reader counts both. Raises InvalidInput,
    naming rows.
    """
    return CaseReader(file, rubric, strict=strict)
