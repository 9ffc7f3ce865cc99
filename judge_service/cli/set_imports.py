"""`judge-service sets import`, `labels`, `verdicts`: files into a calibration set."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from judge_service.cli.console import err, note, out, say_json
from judge_service.cli.opened import with_store
from judge_service.cli.options import DatabaseOption, JsonOption, settings_for
from judge_service.cli.set_files import (
    AnnotatorOption,
    AssistedOption,
    DelimiterOption,
    EncodingOption,
    FileArgument,
    KindOption,
    MapOption,
    ModelOption,
    NameArgument,
    RubricOption,
    SplitChoice,
    WordOption,
    pairs,
    say_spent,
    say_unjoined,
    source_of,
)

if TYPE_CHECKING:
    from judge_service.domain.calibration_set import ImportResult
    from judge_service.store import Store


def import_file(
    name: NameArgument,
    file: FileArgument,
    rubric: RubricOption = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="NAME", help="Shape of the rows. Default: recognised by the first row's fields."
        ),
    ] = None,
    maps: MapOption = None,
    words: WordOption = None,
    split: Annotated[
        SplitChoice, typer.Option("--split", metavar="SPLIT", help="Split of cases that name none.")
    ] = SplitChoice.CALIBRATION,
    answers: Annotated[
        Path | None,
        typer.Option(
            "--answers", metavar="FILE", exists=True, dir_okay=False, help="Answers, for a format that needs them."
        ),
    ] = None,
    annotator: AnnotatorOption = "gold",
    assisted: AssistedOption = False,
    by_model: ModelOption = False,
    kind: KindOption = None,
    encoding: EncodingOption = None,
    delimiter: DelimiterOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import cases, and the labels in their rows. The same file again changes nothing."""

    def work(store: "Store") -> Any:
        from judge_service.cli.progress import stepping
        from judge_service.domain.calibration_set import LabelCondition, Split
        from judge_service.heap import settle_heap
        from judge_service.sets.importing import ImportOptions, import_cases

        settle_heap()
        options = ImportOptions(
            shape=format_,
            rubric=rubric,
            names=pairs("--map", maps),
            labels=pairs("--label", words),
            split=Split(split.value),
            annotator=annotator,
            condition=LabelCondition.ASSISTED if assisted else LabelCondition.BLIND,
            kind="model" if by_model else "human",
            answers=None if answers is None else source_of(answers, None, encoding, delimiter),
        )
        with stepping("cases", err()) as show:
            return import_cases(store, name, source_of(file, kind, encoding, delimiter), options, on_progress=show)

    done = with_store(database, work)
    if as_json:
        say_json(done.model_dump(mode="json"))
        return
    shape = f"format {done.format}" + (f", rubric {done.rubric}" if done.rubric else "")
    typer.echo(f"{done.set_id} from {done.file} ({shape}):")
    typer.echo(f"  cases   {_counted(done.cases)}")
    typer.echo(f"  labels  {_counted(done.labels)}")
    if done.dropped:
        listed = ", ".join(f"{field} ({n})" for field, n in sorted(done.dropped.items()))
        note(f"Left out, because neither case nor metadata can hold them: {listed}.")
    say_spent(done.spent)


def import_label_file(
    name: NameArgument,
    file: FileArgument,
    rubric: RubricOption = None,
    maps: MapOption = None,
    words: WordOption = None,
    annotator: AnnotatorOption = "gold",
    assisted: AssistedOption = False,
    by_model: ModelOption = False,
    kind: KindOption = None,
    encoding: EncodingOption = None,
    delimiter: DelimiterOption = None,
    studio: Annotated[bool, typer.Option("--label-studio", help="The file is Label Studio's JSON.")] = False,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import a table of labels: `case_id`, `label`, `annotator` and what else is known of each."""

    def work(store: "Store") -> Any:
        from judge_service.domain.calibration_set import LabelCondition
        from judge_service.sets.importing import ImportOptions, import_labels

        options = ImportOptions(
            rubric=rubric,
            names=pairs("--map", maps),
            labels=pairs("--label", words),
            annotator=annotator,
            condition=LabelCondition.ASSISTED if assisted else LabelCondition.BLIND,
            kind="model" if by_model else "human",
        )
        if studio:
            from judge_service.sets.label_studio import label_studio_source

            return import_labels(store, name, label_studio_source(file.name, file.read_bytes()), options)
        return import_labels(store, name, source_of(file, kind, encoding, delimiter), options)

    done = with_store(database, work)
    if as_json:
        say_json(done.model_dump(mode="json"))
    else:
        typer.echo(f"{done.set_id} from {done.file}: labels {_counted(done.labels)}")
    say_unjoined(done.labels.unjoined, len(done.labels.unjoined), "labels")


def import_verdict_file(
    name: NameArgument,
    file: FileArgument,
    rubric: RubricOption = None,
    maps: MapOption = None,
    words: WordOption = None,
    threshold: Annotated[
        float, typer.Option("--threshold", min=0, max=1, help="A score above this, without a verdict, is --positive.")
    ] = 0.5,
    positive: Annotated[
        str | None,
        typer.Option("--positive", metavar="LABEL", help="Label above the threshold. Default: the scale's last."),
    ] = None,
    negative: Annotated[
        str | None, typer.Option("--negative", metavar="LABEL", help="Label up to it. Default: the scale's first.")
    ] = None,
    version: Annotated[
        str | None,
        typer.Option("--version", metavar="TEXT", help="Make another recorded judge beside one of that name."),
    ] = None,
    kind: KindOption = None,
    encoding: EncodingOption = None,
    delimiter: DelimiterOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import verdicts of judges that were run elsewhere, as judgments of recorded judges."""

    def work(store: "Store") -> Any:
        from judge_service.judging.roster import Roster
        from judge_service.sets.recorded import VerdictOptions, import_verdicts

        options = VerdictOptions(
            rubric=rubric,
            names=pairs("--map", maps),
            labels=pairs("--label", words),
            threshold=threshold,
            positive=positive,
            negative=negative,
            version=version,
        )
        of_files = Roster.load(settings_for(database)).all()
        taken = {judge.name for judge in (*of_files, *store.judges.all())}
        return import_verdicts(store, name, source_of(file, kind, encoding, delimiter), options, taken=taken)

    done = with_store(database, work)
    if as_json:
        say_json(done.model_dump(mode="json"))
    else:
        from rich.markup import escape

        from judge_service.cli.tables import plain_table

        typer.echo(f"{done.set_id} from {done.file}: {done.lines} verdicts under {done.rubric}")
        table = plain_table("Judge", "Orders", "Cases", "New", "Scored", "Inconsistent", "Errors")
        for judge in done.judges:
            errors = sum(n for ending, n in judge.outcomes.items() if ending.startswith("judge_error"))
            scored, split = (judge.outcomes.get(ending, 0) for ending in ("scored", "inconsistent"))
            numbers = [str(number) for number in (judge.judgments, judge.added, scored, split, errors)]
            table.add_row(escape(judge.judge), judge.orders, *numbers)
        out().print(table)
    say_unjoined(done.unjoined, done.n_unjoined, "verdicts")


def _counted(result: "ImportResult") -> str:
    return f"{result.added} new, {result.unchanged} there already"
