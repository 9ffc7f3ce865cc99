"""`judge-service rubrics`: what can be judged."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any

import typer

from judge_service.cli.console import Commands, out, say_json
from judge_service.cli.options import JsonOption, settings_for

app = typer.Typer(cls=Commands, help="List the rubrics and read one.", no_args_is_help=True)


@app.command("list")
def list_rubrics(as_json: JsonOption = False) -> None:
    """List all rubric versions."""
    from rubrics.registry import all_rubrics

    with stored_rubrics():
        found = all_rubrics()
    if as_json:
        say_json(
            [
                {
                    "id": item.id,
                    "title": item.title,
                    "kind": item.kind,
                    "labels": list(item.scale.names),
                    "content_hash": item.content_hash,
                }
                for item in found
            ]
        )
        return
    from rich.table import Table

    table = Table("Rubric", "Judges", "Title", "Labels", "Hash", box=None, padding=(0, 2, 0, 0))
    for item in found:
        judged = "pairs" if item.kind == "pairwise" else "one answer"
        table.add_row(item.id, judged, item.title, ", ".join(item.scale.names), item.content_hash[:12])
    out().print(table)


@app.command("show")
def show_rubric(
    rubric: Annotated[str, typer.Argument(help="Rubric, such as faithfulness@1. Without @version: the newest.")],
    as_json: JsonOption = False,
) -> None:
    """Show one rubric: the question, labels, rules, steps and the case fields it reads."""
    item = find_rubric(rubric)
    fields = item.case_model.model_json_schema()
    if as_json:
        say_json(
            {
                "id": item.id,
                "title": item.title,
                "question": item.question,
                "kind": item.kind,
                "content_hash": item.content_hash,
                "labels": [{"name": label.name, "description": label.description} for label in item.scale.labels],
                "score": {"minimum": item.scale.minimum, "maximum": item.scale.maximum, "rule": item.rules.score},
                "nothing_to_judge": dict(item.rules.nothing_to_judge),
                "length_policy": item.rules.length_policy,
                "ties": item.rules.ties,
                "sources": list(item.rules.sources),
                "steps": dict(item.steps),
                "elicitations": list(item.elicitations),
                "case_schema": fields,
                "decoding_schemas": {
                    step: dict(constraint.schema) if hasattr(constraint, "schema") else {"choices": constraint.choices}
                    for step, constraint in item.sample_constraints().items()
                },
            }
        )
        return
    console = out()
    console.print(f"[bold]{item.id}[/bold]  {item.title}", markup=True)
    console.print(item.question, markup=False)
    for title, lines in _sections(item, fields):
        console.print()
        console.print(title, style="bold")
        for line in lines:
            console.print(f"  {line}", markup=False)


def _sections(item: Any, fields: dict[str, Any]) -> list[tuple[str, list[str]]]:
    required = set(fields.get("required", ()))
    case = [
        f"{name}{'' if name in required else ' (optional)'}: {schema.get('description') or 'see the API documentation'}"
        for name, schema in fields["properties"].items()
    ]
    rules = [f"Score: {item.rules.score}", f"Length: {item.rules.length_policy}"]
    if item.rules.ties:
        rules.append(f"Ties: {item.rules.ties}")
    rules += [f"Nothing to judge, {reason}: {text}" for reason, text in item.rules.nothing_to_judge.items()]
    return [
        ("Fields of a case", case),
        ("Labels", [f"{label.name}: {label.description}" for label in item.scale.labels]),
        ("Rules", rules),
        ("Steps", [f"{name}: {text}" for name, text in item.steps.items()]),
        ("Sources", list(item.rules.sources) or ["none named"]),
        ("Content hash", [item.content_hash]),
    ]


@contextmanager
def stored_rubrics(database: str | None = None) -> Iterator[None]:
    """Meanwhile the rubrics that the database holds are known, where there is a database already."""
    settings = settings_for(database)
    if settings.database_url is None and not (settings.data_dir / "judge-service.sqlite3").exists():
        yield
        return
    from judge_service.runs.stored_rubrics import StoredRubrics
    from judge_service.store import Store

    with Store.open(settings.database) as store, StoredRubrics(store):
        yield


def find_rubric(ref: str, database: str | None = None) -> Any:
    """The rubric `ref` names, installed or in the database. Raises NotFound with near misses."""
    from judge_service.errors import NotFound
    from rubrics.registry import UnknownRubric, get_rubric

    with suppress(UnknownRubric):
        return get_rubric(ref)
    try:
        with stored_rubrics(database):
            return get_rubric(ref)
    except UnknownRubric as error:
        raise NotFound(f"{error.args[0] if error.args else error} See `judge-service rubrics list`.") from error
