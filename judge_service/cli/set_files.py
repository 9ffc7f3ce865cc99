"""Arguments and options of commands that read or name a calibration set, and what they say of results."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from judge_service.cli.console import note

if TYPE_CHECKING:
    from judge_service.domain.calibration_set import Spent
    from judge_service.files.source import Source


class SplitChoice(StrEnum):
    """The splits of `judge_service.domain.calibration_set.Split`, repeated so that help needs no heavy import."""

    DEVELOPMENT = "development"
    CALIBRATION = "calibration"
    RELEASE = "release"
    MONITORING = "monitoring"


class FileChoice(StrEnum):
    """The kinds of file of `judge_service.files.rows.FileKind`, repeated for the same reason."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


NameArgument = Annotated[str, typer.Argument(metavar="SET", help="`name@version`, or `name` for its newest version.")]
FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="JSON lines, CSV or Parquet.")
]
RubricOption = Annotated[
    str | None, typer.Option("--rubric", metavar="NAME@V", help="The rubric. Default: the set's, else the format's.")
]
MapOption = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="SOURCE=TARGET", help="Read the field SOURCE as TARGET. May be repeated."),
]
WordOption = Annotated[
    list[str] | None,
    typer.Option("--label", metavar="WORD=LABEL", help="Read the word WORD as the rubric's LABEL. May be repeated."),
]
KindOption = Annotated[
    FileChoice | None,
    typer.Option("--kind", metavar="KIND", help="What the file is: jsonl, csv or parquet. Default: by its name."),
]
EncodingOption = Annotated[
    str | None,
    typer.Option("--encoding", metavar="NAME", help="Encoding of a CSV file. Default: found out, else UTF-8."),
]
DelimiterOption = Annotated[
    str | None, typer.Option("--delimiter", metavar="CHAR", help="Delimiter of a CSV file. Default: found out.")
]
AnnotatorOption = Annotated[
    str, typer.Option("--annotator", metavar="NAME", help="Annotator of labels that name none.")
]
AssistedOption = Annotated[
    bool, typer.Option("--assisted", help="The labels were made with a model's verdict in view: never in a headline.")
]
ModelOption = Annotated[bool, typer.Option("--by-model", help="The labels were made by a model, not by people.")]


def source_of(path: Path, kind: FileChoice | None, encoding: str | None, delimiter: str | None) -> "Source":
    """The file as a source; its kind by name and first bytes, unless one is given."""
    from judge_service.files.rows import FileKind
    from judge_service.files.source import Source, kind_of

    with path.open("rb") as file:
        head = file.read(64)
    chosen = FileKind(kind.value) if kind is not None else kind_of(path.name, head)
    return Source(path.name, lambda: path.open("rb"), chosen, encoding, delimiter)


def pairs(option: str, given: Sequence[str] | None) -> dict[str, str]:
    """`NAME=VALUE` texts as a mapping. Raises InvalidInput naming the option."""
    from judge_service.errors import FieldProblem, InvalidInput

    pairs: dict[str, str] = {}
    for text in given or ():
        name, sign, target = text.partition("=")
        if not sign or not name:
            message = f"write it as NAME=VALUE, not {text!r}"
            raise InvalidInput(f"{option}: {message}.", fields=[FieldProblem(option, message)])
        pairs[name] = target
    return pairs


def say_unjoined(ids: Sequence[str], n: int, what: str) -> None:
    """Say which ids are no case of the set, if any."""
    if ids:
        shown = ", ".join(repr(case_id) for case_id in ids[:10]) + (" ..." if n > 10 else "")
        note(f"Not counted: {what} of {n} ids that are no case of the set: {shown}.")


def say_spent(spent: "Spent") -> None:
    """Say which release cases are no test any more, if any."""
    if spent.n:
        shown = "; ".join(f"{case.case_id!r} ({case.why.value}, {case.set_id})" for case in spent.cases[:10])
        more = " ..." if spent.n > 10 else ""
        note(f"{spent.n} release cases are no test any more and count as development: {shown}{more}.")
