"""Rubrics that were declared while the service ran, by `name@version`. A stored version never changes."""

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import Connection, insert, select
from sqlalchemy.exc import IntegrityError

from judge_service.store.engine import Database
from judge_service.store.tables import RubricRow, table
from rubrics.declared import Declaration

RUBRICS = table(RubricRow)


class Rubrics:
    """The table of declared rubrics."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    def add(self, declaration: Declaration) -> tuple[Declaration, bool]:
        """Keep a version unless there is one of that id; the one that is kept, and whether it is new."""

        def look(connection: Connection) -> Declaration | None:
            wanted = select(RUBRICS.c.document).where(RUBRICS.c.id == declaration.id)
            document = connection.execute(wanted).scalar_one_or_none()
            return None if document is None else Declaration.model_validate(document)

        def work(connection: Connection) -> tuple[Declaration, bool]:
            if (kept := look(connection)) is not None:
                return kept, False
            row = {"id": declaration.id, "document": declaration.model_dump(mode="json"), "created_at": self._clock()}
            try:
                with connection.begin_nested():
                    connection.execute(insert(RUBRICS), row)
            except IntegrityError:
                # Another process was faster; its row is visible now.
                if (kept := look(connection)) is None:
                    raise
                return kept, False
            return declaration, True

        return self._database.write(work)

    def all(self) -> list[Declaration]:
        """Every stored version by id."""
        with self._database.read() as connection:
            documents = connection.execute(select(RUBRICS.c.document).order_by(RUBRICS.c.id)).scalars().all()
        return [Declaration.model_validate(document) for document in documents]
