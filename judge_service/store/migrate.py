"""Brings a database to this program's schema: once, whole, by one process at a time.

Owns the lock around it and the refusal of a newer database. Alembic is imported here only.
"""

import sqlite3
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import URL, Connection, Engine, inspect
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from judge_service.errors import NewerDatabase, StoreError, Unavailable
from judge_service.store.engine import new_engine, prepare_folder, writing
from judge_service.store.faults import readable

if TYPE_CHECKING:
    from alembic.script import ScriptDirectory

FOLDER = Path(__file__).parent / "migrations"
VERSION_TABLE = "schema_version"
_ADVISORY_LOCK = 0x6A756467
"""Key of PostgreSQL's advisory lock: two processes that start together take turns."""


def head() -> str:
    """The newest revision this program knows."""
    return _script().get_current_head() or ""


def upgrade(url: URL) -> None:
    """Migrate to the newest revision, in one transaction. A database that is there already is only read.

    Raises NewerDatabase (nothing changed), StoreError for a file or database that is not ours.
    """
    prepare_folder(url)
    engine = new_engine(url, migrating=True)
    try:
        # Looked at before any setting of the file is touched.
        if url.get_backend_name() != "sqlite" or _exists(url):
            with engine.connect() as connection:
                if _behind(connection) is False:
                    return
        _set_journal(engine)
        with writing(engine) as connection:
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})")
            if _behind(connection):
                _run(connection)
    except SQLAlchemyError as error:
        raise readable(error) from error
    finally:
        engine.dispose()


def found(url: URL) -> str | None:
    """The revision of a database, None where there is none yet. Changes nothing.

    Raises NewerDatabase, and StoreError for a database of another program or one that does not answer.
    """
    if url.get_backend_name() == "sqlite" and not _exists(url):
        return None
    engine = new_engine(url, migrating=True)
    try:
        with engine.connect() as connection:
            _behind(connection)
            if VERSION_TABLE not in inspect(connection).get_table_names():
                return None
            return str(connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").scalar_one())  # noqa: S608
    except SQLAlchemyError as error:
        raise readable(error) from error
    finally:
        engine.dispose()


def _exists(url: URL) -> bool:
    return url.database is not None and Path(url.database).exists()


@cache
def _script() -> "ScriptDirectory":
    # Kept: it loads every revision to know their order.
    from alembic.script import ScriptDirectory

    return ScriptDirectory(str(FOLDER))


def _behind(connection: Connection) -> bool:
    """True when there is something to migrate. Raises for a newer or a foreign database."""
    tables = set(inspect(connection).get_table_names())
    if VERSION_TABLE not in tables:
        if tables & {"judgments", "runs", "calls"}:
            raise StoreError("The database holds tables of another program. Nothing was changed; choose another one.")
        return True
    found = set(connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").scalars())  # noqa: S608
    known = {revision.revision for revision in _script().walk_revisions()}
    if not found <= known:
        raise NewerDatabase
    return found != {head()}


def _set_journal(engine: Engine) -> None:
    """Write-ahead log. SQLite does not wait for locks here, so two processes that start together try again."""
    if engine.dialect.name != "sqlite":
        return
    for attempt in range(100):
        try:
            connection = engine.raw_connection()
        except sqlite3.OperationalError as error:
            # Unlike `connect`, this lets the driver's own error through.
            raise OperationalError("connect", None, error) from error
        try:
            connection.cursor().execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise OperationalError("PRAGMA journal_mode", None, error) from error
            time.sleep(0.01 + 0.002 * attempt)
        else:
            return
        finally:
            connection.close()
    raise Unavailable("Another process holds the database. Try again in a moment.")


def _run(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
