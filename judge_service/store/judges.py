"""Judges that were added while the service ran, by name."""

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select, update

from judge_service.domain.judge import Judge
from judge_service.store.engine import Database
from judge_service.store.tables import JudgeRow, table

JUDGES = table(JudgeRow)


class Judges:
    """The judge table."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    def put(self, judge: Judge) -> Judge:
        """Add a judge or replace the one of that name."""
        now = self._clock()
        fields = {"content_hash": judge.content_hash, "document": judge.model_dump(mode="json"), "updated_at": now}

        def work(connection: Connection) -> Judge:
            changed = connection.execute(update(JUDGES).where(JUDGES.c.name == judge.name).values(**fields))
            if not changed.rowcount:
                connection.execute(insert(JUDGES), fields | {"name": judge.name, "created_at": now})
            return judge

        return self._database.write(work)

    def get(self, name: str) -> Judge | None:
        """A judge by name."""
        with self._database.read() as connection:
            document = connection.execute(select(JUDGES.c.document).where(JUDGES.c.name == name)).scalar_one_or_none()
        return None if document is None else Judge.model_validate(document)

    def all(self) -> list[Judge]:
        """Every stored judge by name."""
        with self._database.read() as connection:
            documents = connection.execute(select(JUDGES.c.document).order_by(JUDGES.c.name)).scalars().all()
        return [Judge.model_validate(document) for document in documents]

    def remove(self, name: str) -> bool:
        """Remove a judge; False when there was none. Its judgments stay."""
        statement = delete(JUDGES).where(JUDGES.c.name == name)
        return self._database.write(lambda connection: bool(connection.execute(statement).rowcount))
