"""Facts about this installation: what wrote the database first and last."""

from collections.abc import Mapping

from sqlalchemy import Connection, insert, select, update
from sqlalchemy.exc import IntegrityError

from judge_service.store.engine import Database
from judge_service.store.tables import FactRow, table

FACTS = table(FactRow)


class Facts:
    """Names and texts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> dict[str, str]:
        """Every fact."""
        with self._database.read() as connection:
            return {row.name: row.value for row in connection.execute(select(FACTS))}

    def settle(self, facts: Mapping[str, str]) -> dict[str, str]:
        """Keep each fact that has no value yet; what is in force afterwards."""

        def work(connection: Connection) -> dict[str, str]:
            there = {row.name for row in connection.execute(select(FACTS.c.name))}
            for name, value in facts.items():
                if name in there:
                    continue
                try:
                    with connection.begin_nested():
                        connection.execute(insert(FACTS), {"name": name, "value": value})
                except IntegrityError:
                    continue  # another process that starts now was faster: its value is the one in force
            return {row.name: row.value for row in connection.execute(select(FACTS))}

        return self._database.write(work)

    def set(self, name: str, value: str) -> None:
        """Set one fact."""

        def work(connection: Connection) -> None:
            if not connection.execute(update(FACTS).where(FACTS.c.name == name).values(value=value)).rowcount:
                connection.execute(insert(FACTS), {"name": name, "value": value})

        self._database.write(work)
