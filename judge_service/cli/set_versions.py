"""`judge-service sets groups`, `split`, `freeze`, `diff`: from an open set to frozen versions."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from judge_service.cli.console import note, say_json
from judge_service.cli.opened import noting, with_store
from judge_service.cli.options import DatabaseOption, JsonOption
from judge_service.cli.set_files import (
    NameArgument,
    say_spent,
)

if TYPE_CHECKING:
    from judge_service.store import Store


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

    found = with_store(database, work)
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

    done = with_store(database, work)
    if as_json:
        say_json(done.model_dump(mode="json"))
        return
    for split, cases in sorted(done.cases.items()):
        typer.echo(f"{split:<12} {cases:>7} cases in {done.groups[split]} groups")


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

        before = store.sets.get(name)
        if before.status != "open":
            return freeze_set(store, before.id, spend=spend)
        with noting(store, "froze a set", before.id):
            return freeze_set(store, before.id, spend=spend)

    version = with_store(database, work)
    if as_json:
        say_json(version.model_dump(mode="json"))
        return
    typer.echo(f"{version.id} is frozen: {version.n_cases} cases, {version.n_labels} labels.")
    typer.echo(f"sha256 {version.content_hash}")
    say_spent(version.spent)


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

    found = with_store(database, work)
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


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
