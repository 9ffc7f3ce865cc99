"""Rubrics declared over the API, from the database into the registry of this process, in step with other processes.

A stored rubric never takes the name of one that is installed.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import Callable
from types import TracebackType

from judge_service.errors import Conflict, FieldProblem, InvalidInput
from judge_service.runs.in_step import InStep
from judge_service.store import Store
from rubrics.declared import Declaration, DeclaredRubric, declared_rubric
from rubrics.registry import announce, installed_rubrics, withdraw
from rubrics.schema import UnportableSchema

log = logging.getLogger(__name__)


class StoredRubrics(InStep):
    """The declared rubrics of the database in one process, known to it until `close`. `monotonic` is in seconds."""

    def __init__(self, store: Store, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(monotonic)
        self._store = store
        self._source = uuid.uuid4().hex
        self._known: dict[str, DeclaredRubric] = {}
        self._left_out: set[str] = set()

    def _read(self) -> None:
        declarations = self._store.rubrics.all()
        taken = {rubric.name for rubric in installed_rubrics()} if declarations else set()
        for declaration in declarations:
            if declaration.name in taken:
                if declaration.id not in self._left_out:
                    self._left_out.add(declaration.id)
                    log.warning("stored rubric %s is not used: an installed rubric has that name", declaration.id)
            elif declaration.id not in self._known:
                self._known[declaration.id] = declared_rubric(declaration)
        announce(self._source, self._known.values())

    async def add(self, declaration: Declaration) -> tuple[DeclaredRubric, bool]:
        """Keep a version; the rubric, and whether it is new. The same declaration again is a no-op.

        Raises Conflict for a version that exists with other content and for the name of an installed rubric, and
        InvalidInput for a declaration that some judge could not be held to.
        """
        if declaration.name in {rubric.name for rubric in installed_rubrics()}:
            raise Conflict(f"The name {declaration.name} belongs to an installed rubric. Choose another one.")
        try:
            declared_rubric(declaration)
        except UnportableSchema as error:
            problems = [FieldProblem("criteria", str(problem)) for problem in error.problems]
            raise InvalidInput("criteria: not every judge can be held to this rubric.", fields=problems) from None
        async with self._lock:
            kept, new = await asyncio.to_thread(self._store.rubrics.add, declaration)
            if kept != declaration:
                raise Conflict(f"{declaration.id} exists with other content and never changes. Declare a new version.")
            await asyncio.to_thread(self.read)
            return self._known[declaration.id], new

    def __enter__(self) -> "StoredRubrics":
        """Read the table."""
        self.read()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Forget the rubrics in this process."""
        self.close()

    def close(self) -> None:
        """Forget the rubrics in this process."""
        withdraw(self._source)
