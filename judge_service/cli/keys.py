"""`judge-service keys`: makes, lists and revokes API keys."""

from enum import StrEnum
from typing import Annotated

import typer

from judge_service.cli.console import Commands, note, out, say_json
from judge_service.cli.opened import noting
from judge_service.cli.options import DatabaseOption, JsonOption, settings_for

app = typer.Typer(cls=Commands, help="Make, list and revoke API keys.", no_args_is_help=True)


class RoleChoice(StrEnum):
    """The roles of `judge_service.domain.principal.Role`, repeated so that help needs no heavy import."""

    SCORE = "score"
    ANNOTATE = "annotate"
    LEAD = "lead"
    ADMIN = "admin"


@app.command("create")
def create_key(
    role: Annotated[
        RoleChoice, typer.Option(metavar="ROLE", help="What the key may do: score, annotate, lead or admin.")
    ],
    name: Annotated[
        str, typer.Option(metavar="TEXT", help="Who or what uses it, for people who read the list.")
    ] = "command line",
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make an API key and show it once."""
    from pydantic import ValidationError

    from judge_service.domain.audit import told_key
    from judge_service.domain.principal import Role
    from judge_service.errors import FieldProblem, InvalidInput
    from judge_service.security.keys import issue
    from judge_service.store import Store

    settings = settings_for(database)
    try:
        key, secret = issue(name, Role(role.value))
    except ValidationError as error:
        problem = FieldProblem("--name", error.errors(include_url=False, include_input=False)[0]["msg"])
        raise InvalidInput("The name of the key cannot be used.", fields=[problem]) from error
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    with Store.open(settings.database) as store, noting(store, "made a key", told_key(key)):
        store.keys.add(key)
    if as_json:
        say_json({"id": key.id, "name": key.name, "role": key.role.value, "key": secret})
        return
    typer.echo(secret)
    note(f"Key {key.id} with role {key.role.value}. Copy it now: it cannot be shown again.")


@app.command("list")
def list_keys(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """List the API keys; a key itself is never shown again."""
    from judge_service.store import Store

    settings = settings_for(database)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    with Store.open(settings.database) as store:
        keys = store.keys.all()
    if as_json:
        say_json([key.model_dump(mode="json", exclude={"salt", "digest"}) for key in keys])
        return
    if not keys:
        note("There is no key yet. Make one: judge-service keys create --role score")
        return
    from rich.markup import escape
    from rich.table import Table

    table = Table("Id", "Name", "Role", "Ends in", "Made (UTC)", "Last used", "State", box=None, padding=(0, 2, 0, 0))
    for key in keys:
        used = "never" if key.last_used_at is None else f"{key.last_used_at:%Y-%m-%d %H:%M}"
        state = "live" if key.live else f"revoked {key.revoked_at:%Y-%m-%d %H:%M}"
        made = f"{key.created_at:%Y-%m-%d %H:%M}"
        table.add_row(key.id, escape(key.name), key.role.value, key.last_four, made, used, state)
    out().print(table)


@app.command("revoke")
def revoke_key(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the key, as in `judge-service keys list`.")],
    database: DatabaseOption = None,
) -> None:
    """Revoke an API key: requests with it are refused from now on."""
    from judge_service.domain.audit import told_key
    from judge_service.store import Store

    settings = settings_for(database)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    with Store.open(settings.database) as store, noting(store, "revoked a key", told_key):
        key = store.keys.revoke(key_id)
    typer.echo(f"Revoked {key.id} ({key.name}).")
