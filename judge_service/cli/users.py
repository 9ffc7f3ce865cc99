"""`judge-service users`: people who sign in, and the links that invite them."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from judge_service.cli.console import Commands, note, out, say_json
from judge_service.cli.keys import RoleChoice
from judge_service.cli.opened import noting
from judge_service.cli.options import DatabaseOption, JsonOption, settings_for

if TYPE_CHECKING:
    from judge_service.domain.user import User
    from judge_service.store import Store

app = typer.Typer(cls=Commands, help="Add, invite, list and disable people.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The person's name.")]
RoleOption = Annotated[
    RoleChoice, typer.Option(metavar="ROLE", help="What the person may do: score, annotate, lead or admin.")
]


def _password() -> str:
    """The password: from standard input without a terminal, else asked for twice."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    entered: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
    return entered


@app.command("add")
def add_user(name: NameArgument, role: RoleOption = RoleChoice.ANNOTATE, database: DatabaseOption = None) -> None:
    """Add a person; the password is asked for, or read from standard input."""
    from datetime import UTC, datetime

    from judge_service.domain.audit import told_user
    from judge_service.domain.principal import Role
    from judge_service.domain.user import User
    from judge_service.gate.signing_in import checked_name, checked_password
    from judge_service.security.passwords import hash_password
    from judge_service.security.sessions import new_id
    from judge_service.store import Store

    kept = checked_name(name)
    password = checked_password(_password(), kept)
    settings = settings_for(database)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    user = User(
        id=new_id(),
        name=kept,
        role=Role(role.value),
        password_hash=hash_password(password),
        created_at=datetime.now(UTC),
    )
    with (
        Store.open(settings.database) as store,
        noting(store, "added a person", f"{told_user(user)} as {user.role.value}"),
    ):
        store.users.add(user)
    typer.echo(f"Added {user.name} with role {user.role.value}.")


@app.command("invite")
def invite_user(
    role: RoleOption = RoleChoice.ANNOTATE,
    name: Annotated[str | None, typer.Option(metavar="TEXT", help="The name that is proposed to the person.")] = None,
    project: Annotated[str | None, typer.Option(metavar="ID", help="Labelling project that the person joins.")] = None,
    days: Annotated[int, typer.Option(metavar="N", min=1, max=90, help="Days until the link expires.")] = 7,
    database: DatabaseOption = None,
) -> None:
    """Make a link that lets one person choose a name and a password, once."""
    from datetime import UTC, datetime, timedelta

    from judge_service.domain.audit import told_invitation
    from judge_service.domain.principal import Role
    from judge_service.errors import FieldProblem, InvalidInput, NotFound
    from judge_service.gate.signing_in import checked_name
    from judge_service.security.sessions import new_invitation
    from judge_service.store import Store

    settings = settings_for(database)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    invitation, token = new_invitation(
        role=Role(role.value),
        made_by="command line",
        now=datetime.now(UTC),
        name=None if name is None else checked_name(name),
        project=project,
        life=timedelta(days=days),
    )
    with Store.open(settings.database) as store:
        if project is not None:
            try:
                store.projects.get(project)
            except NotFound:
                message = f"There is no project {project!a}. See: judge-service projects list"
                raise InvalidInput(message, fields=[FieldProblem("--project", message)]) from None
        with noting(store, "invited a person", told_invitation):
            store.users.invite(invitation)
    typer.echo(f"{settings.public_url or ''}/invitations/{token}")
    note(f"For one {role.value}, until {invitation.expires_at:%Y-%m-%d %H:%M} UTC. It cannot be shown again.")


@app.command("list")
def list_users(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """List the people."""
    from judge_service.store import Store

    settings = settings_for(database)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    with Store.open(settings.database) as store:
        users = store.users.all()
    if as_json:
        say_json([user.model_dump(mode="json", exclude={"password_hash"}) for user in users])
        return
    if not users:
        note("There is nobody yet. Invite somebody: judge-service users invite --role annotate")
        return
    from rich.markup import escape
    from rich.table import Table

    table = Table("Name", "Role", "Added (UTC)", "Signed in", "State", box=None, padding=(0, 2, 0, 0))
    for user in users:
        seen = "never" if user.signed_in_at is None else f"{user.signed_in_at:%Y-%m-%d %H:%M}"
        state = "live" if user.disabled_at is None else f"disabled {user.disabled_at:%Y-%m-%d %H:%M}"
        table.add_row(escape(user.name), user.role.value, f"{user.created_at:%Y-%m-%d %H:%M}", seen, state)
    out().print(table)


@app.command("password")
def set_password(name: NameArgument, database: DatabaseOption = None) -> None:
    """Set a person's password, asked for or read from standard input; their sessions end."""
    from judge_service.domain.audit import told_user
    from judge_service.gate.signing_in import checked_password
    from judge_service.security.passwords import hash_password
    from judge_service.store import Store

    settings = settings_for(database)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    with Store.open(settings.database) as store:
        user = _named(store, name)
        hashed = hash_password(checked_password(_password(), user.name))
        with noting(store, "set a password", told_user):
            store.users.set_password(user.id, hashed)
    typer.echo(f"{user.name} has a new password.")


@app.command("role")
def set_role(
    name: NameArgument,
    role: Annotated[RoleChoice, typer.Argument(metavar="ROLE", help="score, annotate, lead or admin.")],
    database: DatabaseOption = None,
) -> None:
    """Change what a person may do."""
    from judge_service.domain.audit import told_user
    from judge_service.domain.principal import Role
    from judge_service.store import Store

    settings = settings_for(database)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    with Store.open(settings.database) as store:
        user = _named(store, name)
        with noting(store, "changed a role", f"{told_user(user)} to {role.value}"):
            user = store.users.set_role(user.id, Role(role.value))
    typer.echo(f"{user.name} has the role {user.role.value}.")


@app.command("disable")
def disable_user(name: NameArgument, database: DatabaseOption = None) -> None:
    """End a person's sessions and refuse new ones; their labels stay."""
    from judge_service.domain.audit import told_user
    from judge_service.store import Store

    settings = settings_for(database)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    with Store.open(settings.database) as store:
        user = _named(store, name)
        with noting(store, "disabled a person", told_user):
            user = store.users.disable(user.id)
    typer.echo(f"{user.name} is disabled.")


@app.command("enable")
def enable_user(name: NameArgument, database: DatabaseOption = None) -> None:
    """Let a disabled person sign in again."""
    from judge_service.domain.audit import told_user
    from judge_service.store import Store

    settings = settings_for(database)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    with Store.open(settings.database) as store:
        user = _named(store, name)
        with noting(store, "enabled a person", told_user):
            user = store.users.enable(user.id)
    typer.echo(f"{user.name} can sign in.")


def _named(store: "Store", name: str) -> "User":
    from judge_service.errors import NotFound

    user = store.users.named(name)
    if user is None:
        raise NotFound(f"There is no user named {name!r}.")
    return user
