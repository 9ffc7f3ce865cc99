"""`judge-service sets`: calibration sets from files to a frozen version, and back.

Owns the words of the results. What a file may hold and what a freeze checks is `judge_service.sets`'s.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from judge_service.cli.console import Commands, note, out, say_json
from judge_service.cli.options import DatabaseOption, JsonOption, settings_for

if TYPE_CHECKING:
    from judge_service.domain.calibration_set import ImportResult, Spent
    from judge_service.sets.tabular import Source
    from judge_service.store import Store

T = TypeVar("T")

app = typer.Typer(
    cls=Commands, help="Calibration sets: cases with human labels, split, frozen and hashed.", no_args_is_help=True
)


class SplitChoice(StrEnum):
    """The splits of `judge_service.domain.calibration_set.Split`, repeated so that help needs no heavy import."""

    DEVELOPMENT = "development"
    CALIBRATION = "calibration"
    RELEASE = "release"
    MONITORING = "monitoring"


class FileChoice(StrEnum):
    """The kinds of file of `judge_service.sets.tabular.FileKind`, repeated for the same reason."""

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


@app.command("create")
def create_set(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the set.")],
    rubric: Annotated[
        str | None, typer.Option("--rubric", metavar="NAME@V", help="The rubric that its labels answer.")
    ] = None,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="SET", help="Make the next version with all that this one holds.")
    ] = None,
    text: Annotated[str, typer.Option("--note", metavar="TEXT", help="A note for people.")] = "",
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make an empty set, or the next version of one."""

    def work(store: "Store") -> Any:
        from judge_service.errors import FieldProblem, InvalidInput
        from judge_service.sets.importing import read_rubric
        from judge_service.sets.versions import new_version

        known = read_rubric(rubric)
        if from_ is None:
            return store.sets.create(name, None if known is None else known.id, note=text)
        old = store.sets.get(from_)
        if old.name != name or known is not None:
            message = "a next version has the name and the rubric of the one it is made from"
            raise InvalidInput(f"The set cannot be made: {message}.", fields=[FieldProblem("--from", message)])
        return new_version(store, old.id, note=text)

    version = _with_store(database, work)
    if as_json:
        say_json(version.model_dump(mode="json"))
        return
    typer.echo(f"Made {version.id}: {version.n_cases} cases, {version.n_labels} labels, open.")
    if from_ is not None:
        _say_spent(version.spent)


@app.command("import")
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
        from judge_service.domain.calibration_set import LabelCondition, Split
        from judge_service.sets.importing import ImportOptions, import_cases

        options = ImportOptions(
            shape=format_,
            rubric=rubric,
            names=_pairs("--map", maps),
            labels=_pairs("--label", words),
            split=Split(split.value),
            annotator=annotator,
            condition=LabelCondition.ASSISTED if assisted else LabelCondition.BLIND,
            kind="model" if by_model else "human",
            answers=None if answers is None else _source(answers, None, encoding, delimiter),
        )
        return import_cases(store, name, _source(file, kind, encoding, delimiter), options)

    done = _with_store(database, work)
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
    _say_spent(done.spent)


@app.command("labels")
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
            names=_pairs("--map", maps),
            labels=_pairs("--label", words),
            annotator=annotator,
            condition=LabelCondition.ASSISTED if assisted else LabelCondition.BLIND,
            kind="model" if by_model else "human",
        )
        if studio:
            from judge_service.sets.label_studio import label_studio_source

            return import_labels(store, name, label_studio_source(file.name, file.read_bytes()), options)
        return import_labels(store, name, _source(file, kind, encoding, delimiter), options)

    done = _with_store(database, work)
    if as_json:
        say_json(done.model_dump(mode="json"))
    else:
        typer.echo(f"{done.set_id} from {done.file}: labels {_counted(done.labels)}")
    _say_unjoined(done.labels.unjoined, len(done.labels.unjoined), "labels")


@app.command("verdicts")
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
            names=_pairs("--map", maps),
            labels=_pairs("--label", words),
            threshold=threshold,
            positive=positive,
            negative=negative,
            version=version,
        )
        of_files = Roster.load(settings_for(database)).all()
        taken = {judge.name for judge in (*of_files, *store.judges.all())}
        return import_verdicts(store, name, _source(file, kind, encoding, delimiter), options, taken=taken)

    done = _with_store(database, work)
    if as_json:
        say_json(done.model_dump(mode="json"))
    else:
        from rich.markup import escape
        from rich.table import Table

        typer.echo(f"{done.set_id} from {done.file}: {done.lines} verdicts under {done.rubric}")
        table = Table("Judge", "Orders", "Cases", "New", "Scored", "Inconsistent", "Errors", box=None)
        for judge in done.judges:
            errors = sum(n for ending, n in judge.outcomes.items() if ending.startswith("judge_error"))
            scored, split = (judge.outcomes.get(ending, 0) for ending in ("scored", "inconsistent"))
            numbers = [str(number) for number in (judge.judgments, judge.added, scored, split, errors)]
            table.add_row(escape(judge.judge), judge.orders, *numbers)
        out().print(table)
    _say_unjoined(done.unjoined, done.n_unjoined, "verdicts")


@app.command("groups")
def propose(
    name: NameArgument,
    threshold: Annotated[
        float, typer.Option("--threshold", min=0.05, max=1, help="Jaccard index from which two texts count as one.")
    ] = 0.8,
    apply: Annotated[
        bool, typer.Option("--apply", help="Store the groups. Default: only say what they would be.")
    ] = False,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Propose groups: cases that are near-duplicates, share a prompt, or were given one group."""

    def work(store: "Store") -> Any:
        from judge_service.sets.grouping import propose_groups

        return propose_groups(store, name, threshold=threshold, apply=apply)

    found = _with_store(database, work)
    if as_json:
        say_json(found.model_dump(mode="json"))
        return
    typer.echo(
        f"{found.set_id}: {found.n_cases} cases in {found.n_groups} groups at {found.threshold:g}; the largest has "
        f"{found.largest}. {found.changed} cases {'changed' if apply else 'would change'} their group."
    )
    for group in found.groups[:10]:
        shown = ", ".join(group.case_ids[:4]) + (" ..." if len(group.case_ids) > 4 else "")
        typer.echo(f"  {len(group.case_ids):>5}  {group.name}: {shown}")
    if "large_component" in found.flags:
        note("The largest group holds over 5% of the cases: look at it, or raise --threshold.")
    if not apply and found.changed:
        note("Nothing was stored. Use --apply to keep these groups.")


@app.command("split")
def split_cases(
    name: NameArgument,
    development: Annotated[int, typer.Option("--development", min=0, help="Parts for development.")] = 1,
    calibration: Annotated[int, typer.Option("--calibration", min=0, help="Parts for calibration.")] = 2,
    release: Annotated[int, typer.Option("--release", min=0, help="Parts for release.")] = 1,
    monitoring: Annotated[int, typer.Option("--monitoring", min=0, help="Parts for monitoring.")] = 0,
    stratify: Annotated[
        bool,
        typer.Option("--stratify", help="Keep the labels balanced. Default: by hash, so that later cases move none."),
    ] = False,
    salt: Annotated[str, typer.Option("--salt", metavar="TEXT", help="Another salt gives another split by hash.")] = "",
    seed: Annotated[int, typer.Option("--seed", help="Seed of a stratified split.")] = 1,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put every group of an open set into one split."""

    def work(store: "Store") -> Any:
        from judge_service.domain.calibration_set import Split
        from judge_service.sets.grouping import split_set

        shares = {
            Split.DEVELOPMENT: development,
            Split.CALIBRATION: calibration,
            Split.RELEASE: release,
            Split.MONITORING: monitoring,
        }
        return split_set(store, name, shares, stratify=stratify, salt=salt, seed=seed)

    done = _with_store(database, work)
    if as_json:
        say_json(done.model_dump(mode="json"))
        return
    for split, cases in sorted(done.cases.items()):
        typer.echo(f"{split:<12} {cases:>7} cases in {done.groups[split]} groups")


@app.command("freeze")
def freeze(
    name: NameArgument,
    spend: Annotated[
        bool,
        typer.Option(
            "--spend",
            help="Give up cases as a test that stand in the release split of another set and in another split here.",
        ),
    ] = False,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check that nothing leaks between splits, then freeze the version with the hash of its content."""

    def work(store: "Store") -> Any:
        from judge_service.sets.grouping import freeze_set

        return freeze_set(store, name, spend=spend)

    version = _with_store(database, work)
    if as_json:
        say_json(version.model_dump(mode="json"))
        return
    typer.echo(f"{version.id} is frozen: {version.n_cases} cases, {version.n_labels} labels.")
    typer.echo(f"sha256 {version.content_hash}")
    _say_spent(version.spent)


@app.command("list")
def list_sets(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """List the sets with their versions."""
    versions = _with_store(database, lambda store: store.sets.all())
    if as_json:
        say_json([version.model_dump(mode="json") for version in versions])
        return
    if not versions:
        note("There is no set yet. Make one: judge-service sets create NAME --rubric pairwise")
        return
    from rich.table import Table

    table = Table("Set", "Rubric", "Cases", "Labels", "State", "Made from", "Hash", box=None, padding=(0, 2, 0, 0))
    for version in versions:
        digest = (version.content_hash or "")[:12]
        numbers = (str(version.n_cases), str(version.n_labels))
        table.add_row(version.id, version.rubric or "", *numbers, version.status, version.parent or "", digest)
    out().print(table)


@app.command("show")
def show_set(
    name: NameArgument,
    cases: Annotated[
        bool, typer.Option("--cases", help="Print the cases as JSON lines. A frozen release split stays closed.")
    ] = False,
    split: Annotated[
        SplitChoice | None,
        typer.Option(
            "--split", metavar="SPLIT", help="With --cases: this split. Looking at release moves it to development."
        ),
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a version: its splits, labels and uses; or its cases."""
    if cases:

        def print_cases(store: "Store") -> None:
            from judge_service.domain.calibration_set import Split
            from judge_service.sets.tabular import dump
            from judge_service.sets.versions import view_cases

            wanted = None if split is None else Split(split.value)
            for entry in view_cases(store, name, wanted, who="command line"):
                typer.echo(dump(entry.model_dump(mode="json")))

        _with_store(database, print_cases)
        return

    def work(store: "Store") -> Any:
        from judge_service.sets.summary import summarise

        return summarise(store, name)

    found = _with_store(database, work)
    if as_json:
        say_json(found.model_dump(mode="json"))
        return
    version = found.version
    made = f"made from {version.parent}" if version.parent else "made new"
    typer.echo(f"{version.id}: {version.status}, {made}, rubric {version.rubric or 'not named'}")
    if version.note:
        typer.echo(version.note)
    if version.content_hash:
        typer.echo(f"sha256 {version.content_hash}, frozen {version.frozen_at:%Y-%m-%d %H:%M} UTC")
    if version.release_demoted_at:
        typer.echo(f"The release split counts as development since {version.release_demoted_at:%Y-%m-%d %H:%M} UTC.")
    typer.echo(f"{version.n_cases} cases in {found.n_groups} groups: {_listed(found.splits)}")
    typer.echo(f"{version.n_labels} labels: {_listed(found.labels)}")
    for annotator, n in found.annotators.items():
        typer.echo(f"  {n:>7}  {annotator}")
    for use in found.uses:
        who = use.judge or use.note
        typer.echo(f"{use.at:%Y-%m-%d %H:%M} {use.split.value} {use.purpose.value}{f': {who}' if who else ''}")
    for use in found.uses_elsewhere:
        who = use.judge or use.note
        typer.echo(f"{use.at:%Y-%m-%d %H:%M} {use.purpose.value} in {use.set_id}{f': {who}' if who else ''}")
    _say_spent(found.spent)
    if found.leaks:
        note(f"{found.leaks} groups or texts stand in more than one split: the set cannot be frozen.")


@app.command("diff")
def diff_sets(
    old: Annotated[str, typer.Argument(metavar="OLD", help="A version, such as pairs@1.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Another version, such as pairs@2.")],
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what differs between two versions."""

    def work(store: "Store") -> Any:
        from judge_service.sets.versions import difference

        return difference(store, old, new)

    found = _with_store(database, work)
    if as_json:
        say_json(found.model_dump(mode="json"))
        return
    if found.same:
        typer.echo(f"{found.old} and {found.new} hold the same cases and labels.")
        return
    typer.echo(f"{found.old} -> {found.new}")
    typer.echo(f"  cases   {found.n_added} added, {found.n_removed} removed, {found.n_changed} changed")
    counts = (found.n_labels_added, found.n_labels_removed, found.n_labels_changed)
    typer.echo("  labels  {} added, {} removed, {} changed".format(*counts))
    for way, n in found.moved.items():
        typer.echo(f"  moved   {n} {way}")
    for sign, ids in (("+", found.added), ("-", found.removed)):
        for case_id in ids[:20]:
            typer.echo(f"{sign} {case_id}")
    for change in (*found.changed[:20], *found.labels_changed[:20]):
        by = f" ({change.annotator})" if change.annotator else ""
        for field, (before, after) in change.fields.items():
            typer.echo(f"~ {change.case_id}{by} {field}: {_short(before)} -> {_short(after)}")


@app.command("export")
def export_set(
    name: NameArgument,
    file: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", dir_okay=False, help="Where to. Default: standard output.")
    ] = None,
    kind: KindOption = None,
    labels: Annotated[bool, typer.Option("--labels", help="The labels alone, one a record.")] = False,
    studio: Annotated[bool, typer.Option("--label-studio", help="The labels as tasks in Label Studio's JSON.")] = False,
    lossless: Annotated[
        bool, typer.Option("--lossless", help="CSV without the apostrophes that keep cells from being formulas.")
    ] = False,
    database: DatabaseOption = None,
) -> None:
    """Export a version with its labels; importing it again gives the same hash."""

    def work(store: "Store") -> int:
        from judge_service.errors import FieldProblem, InvalidInput
        from judge_service.sets.exporting import export_lines, export_parquet, label_lines, label_parquet
        from judge_service.sets.label_studio import label_studio
        from judge_service.sets.tabular import FileKind, kind_of

        chosen = FileKind(kind.value) if kind else FileKind.JSONL if file is None else kind_of(file.name)
        if chosen is FileKind.PARQUET:
            if file is None or studio:
                message = "Parquet needs --out and is no JSON"
                raise InvalidInput(f"{message}.", fields=[FieldProblem("--kind", message)])
            if labels:
                label_parquet(store, name, file)
            else:
                export_parquet(store, name, file, note="command line")
            return 0
        if studio:
            lines = label_studio(store, name)
        elif labels:
            lines = label_lines(store, name, chosen, safe=not lossless)
        else:
            lines = export_lines(store, name, chosen, safe=not lossless, note="command line")
        if file is None:
            for line in lines:
                typer.echo(line.encode("utf-8"), nl=False)
            return 0
        # The line ends are the export's own: a text may hold others.
        with file.open("w", encoding="utf-8", newline="") as opened:
            opened.writelines(lines)
        return 0

    _with_store(database, work)
    if file is not None:
        note(f"Written to {file}.")


def _with_store(database: str | None, work: "Callable[[Store], T]") -> T:
    from judge_service.runs.stored_rubrics import StoredRubrics
    from judge_service.store import Store

    settings = settings_for(database)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    with Store.open(settings.database) as store, StoredRubrics(store):
        return work(store)


def _source(path: Path, kind: FileChoice | None, encoding: str | None, delimiter: str | None) -> "Source":
    from judge_service.sets.tabular import FileKind, Source, kind_of

    with path.open("rb") as file:
        head = file.read(64)
    chosen = FileKind(kind.value) if kind is not None else kind_of(path.name, head)
    return Source(path.name, lambda: path.open("rb"), chosen, encoding, delimiter)


def _pairs(option: str, given: Sequence[str] | None) -> dict[str, str]:
    from judge_service.errors import FieldProblem, InvalidInput

    pairs: dict[str, str] = {}
    for text in given or ():
        name, sign, target = text.partition("=")
        if not sign or not name:
            message = f"write it as NAME=VALUE, not {text!r}"
            raise InvalidInput(f"{option}: {message}.", fields=[FieldProblem(option, message)])
        pairs[name] = target
    return pairs


def _counted(result: "ImportResult") -> str:
    return f"{result.added} new, {result.unchanged} there already"


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n} {name}" for name, n in counts.items() if n) or "none"


def _say_unjoined(ids: Sequence[str], n: int, what: str) -> None:
    if ids:
        shown = ", ".join(repr(case_id) for case_id in ids[:10]) + (" ..." if n > 10 else "")
        note(f"Not counted: {what} of {n} ids that are no case of the set: {shown}.")


def _say_spent(spent: "Spent") -> None:
    if spent.n:
        shown = "; ".join(f"{case.case_id!r} ({case.why.value}, {case.set_id})" for case in spent.cases[:10])
        more = " ..." if spent.n > 10 else ""
        note(f"{spent.n} release cases are no test any more and count as development: {shown}{more}.")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
