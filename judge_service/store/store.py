"""The store: one object that opens a database and offers its subjects. Knows no HTTP and no judging."""

import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from judge_service import __version__
from judge_service.store import maintenance
from judge_service.store.assignments import Assignments
from judge_service.store.audit import Audit
from judge_service.store.cache import Cache
from judge_service.store.calibrations import Calibrations
from judge_service.store.chunks import Chunks
from judge_service.store.drift import DriftRecords, DriftTasks
from judge_service.store.engine import Database, parse_url
from judge_service.store.facts import Facts
from judge_service.store.idempotency import Idempotency
from judge_service.store.judges import Judges
from judge_service.store.judgments import Judgments
from judge_service.store.keys import Keys
from judge_service.store.labels import Labels
from judge_service.store.migrate import found, head, upgrade
from judge_service.store.postgres_limits import PostgresLimits
from judge_service.store.probes import Probes
from judge_service.store.projects import Projects
from judge_service.store.queue import HEARTBEAT_S, ChunkQueue
from judge_service.store.recorded import RecordedRuns
from judge_service.store.rubrics import Rubrics
from judge_service.store.runs import Runs
from judge_service.store.sets import Sets
from judge_service.store.sharing import EXPIRY_S, SharedLimits
from judge_service.store.sqlite_limits import SqliteLimits
from judge_service.store.standing import Standing
from judge_service.store.users import Users


def utc_now() -> datetime:
    """The time, aware, in UTC."""
    return datetime.now(UTC)


class Store:
    """An opened database. Safe for many threads; a second process may open the same one."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock
        self.judgments = Judgments(database, clock)
        self.runs = Runs(database, clock)
        self.recorded = RecordedRuns(database, self.runs, clock)
        self.chunks = Chunks(database, clock)
        self.standing = Standing(database)
        self.keys = Keys(database, clock)
        self.users = Users(database, clock)
        self.idempotency = Idempotency(database, clock)
        self.judges = Judges(database, clock)
        self.rubrics = Rubrics(database, clock)
        self.cache = Cache(database, clock)
        self.facts = Facts(database)
        self.drift = DriftRecords(database)
        self.drift_tasks = DriftTasks(database)
        self.sets = Sets(database, clock)
        self.labels = Labels(database, clock)
        self.projects = Projects(database, clock)
        self.assignments = Assignments(database, clock)
        self.calibrations = Calibrations(database, clock)
        self.probes = Probes(database, clock)
        self.audit = Audit(database, clock)

    @classmethod
    def open(cls, url: str, *, clock: Callable[[], datetime] = utc_now) -> "Store":
        """Migrate and open. `url` is an SQLAlchemy URL of SQLite (a file) or PostgreSQL.

        Raises ConfigurationError for a URL that cannot be used, NewerDatabase (nothing changed) and StoreError.
        """
        parsed = parse_url(url)
        upgrade(parsed)
        store = cls(Database(parsed), clock)
        try:
            if "installation" not in store.facts.all():
                facts = {"installation": uuid.uuid4().hex, "created_at": clock().isoformat(), "created_by": __version__}
                store.facts.settle(facts)
            store.cache.adopt()
        except BaseException:
            store.close()
            raise
        return store

    @property
    def schema_version(self) -> str:
        """The revision of the tables."""
        return head()

    def queue(self, *, heartbeat_s: float = HEARTBEAT_S) -> ChunkQueue | None:
        """The queue that workers take chunks from; None on SQLite, which has no workers."""
        return None if self._database.is_sqlite else ChunkQueue(self._database.url, heartbeat_s=heartbeat_s)

    def shared_limits(self, *, expiry_s: float = EXPIRY_S) -> SharedLimits:
        """Limits that hold across processes: those of a machine on SQLite, those of all machines on PostgreSQL."""
        if self._database.is_sqlite:
            return SqliteLimits(self._database, self._clock, expiry_s=expiry_s)
        return PostgresLimits(self._database, expiry_s=expiry_s)

    def backup(self, target: Path) -> None:
        """Copy the database into a new SQLite file. Raises StoreError."""
        maintenance.backup(self._database, target)

    def verify(self) -> "Sequence[maintenance.Finding]":
        """Every invariant with how many rows break it."""
        return maintenance.verify(self._database)

    @staticmethod
    def revisions(url: str) -> tuple[str | None, str]:
        """The revision of a database (None: there is none yet) and the one this program makes of it."""
        return found(parse_url(url)), head()

    def check(self) -> None:
        """Read one row, to see that the database answers. Raises Unavailable or StoreError."""
        self.facts.all()

    def close(self) -> None:
        """Finish accepted writes and close. Safe to call twice."""
        self.cache.close()
        self._database.close()

    def __enter__(self) -> "Store":
        """The store itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()
