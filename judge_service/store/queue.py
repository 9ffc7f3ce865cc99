"""The queue of chunks in PostgreSQL: pgqueuer's tables, in a schema of their own.

Owns how a chunk is offered once, taken by one worker, and taken over when that worker's heartbeats stop. Knows
nothing of judging. A lost connection ends `work`; whoever calls it comes back.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

from sqlalchemy import URL

from judge_service.errors import ConfigurationError, MissingDependency
from judge_service.store.chunks import Chunk

if TYPE_CHECKING:
    from pgqueuer.queries import Queries

SCHEMA = "judge_service_queue"
ENTRYPOINT = "chunk"
HEARTBEAT_S = 10.0
"""A worker that is silent so long has lost its chunks; a living one gives a sign at least twice as often."""

Handler = Callable[[str, int, str], Coroutine[Any, Any, bool]]
"""Judges chunk `number` of run `run_id` in a round; False gives it back for another worker."""


class ChunkQueue:
    """The queue behind one database. `heartbeat_s`: see `HEARTBEAT_S`."""

    def __init__(self, url: URL, *, heartbeat_s: float = HEARTBEAT_S) -> None:
        self._address = url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._heartbeat = timedelta(seconds=heartbeat_s)
        self._installed = False

    @asynccontextmanager
    async def _queries(self) -> "AsyncIterator[Queries]":
        try:
            import psycopg
            from pgqueuer.adapters.persistence.qb import (
                QueryBuilderEnvironment,
                QueryQueueBuilder,
                QuerySchedulerBuilder,
            )
            from pgqueuer.db import PsycopgDriver
            from pgqueuer.domain.settings import DBSettings
            from pgqueuer.queries import Queries
        except ModuleNotFoundError as error:
            raise MissingDependency(f"Workers need the extra `postgres` ({error.name} is not installed).") from error

        class Driver(PsycopgDriver):
            """Listens on a connection of its own: a listening one keeps every other statement waiting for a second."""

            def __init__(self, connection: "psycopg.AsyncConnection", listening: "psycopg.AsyncConnection") -> None:
                super().__init__(connection)
                self._ears = PsycopgDriver(listening)

            async def add_listener(self, channel: str, callback: Callable[[str | bytes | bytearray], None]) -> None:
                await self._ears.add_listener(channel, callback)

            async def remove_listener(self, channel: str, callback: Callable[[str | bytes | bytearray], None]) -> None:
                await self._ears.remove_listener(channel, callback)

            async def __aenter__(self) -> Self:
                await self._ears.__aenter__()
                await super().__aenter__()
                return self

            async def __aexit__(self, *exc: object) -> None:
                await super().__aexit__(*exc)
                await self._ears.__aexit__(*exc)

        settings = DBSettings(db_schema=SCHEMA)
        connect = psycopg.AsyncConnection.connect
        async with (
            await connect(self._address, autocommit=True) as connection,
            await connect(self._address, autocommit=True) as listening,
        ):
            queries = Queries(
                Driver(connection, listening),
                QueryBuilderEnvironment(settings),
                QueryQueueBuilder(settings),
                QuerySchedulerBuilder(settings),
            )
            if not self._installed:
                # Many processes may start at once; the lock is the library's own.
                async with queries.schema_lock():
                    if not await queries.schema_is_installed():
                        await queries.install()
                await queries.upgrade()
                self._installed = True
            yield queries

    async def offer(self, chunks: Sequence[Chunk]) -> None:
        """Offer chunks to all workers. One that is offered or taken already is left as it is."""
        async with self._queries() as queries:
            for start in range(0, len(chunks), 500):
                page = chunks[start : start + 500]
                await queries.enqueue(
                    [ENTRYPOINT] * len(page),
                    [json.dumps([chunk.run_id, chunk.number, chunk.round]).encode() for chunk in page],
                    [0] * len(page),
                    dedupe_key=[f"{chunk.run_id}/{chunk.round}/{chunk.number}" for chunk in page],
                    on_conflict="skip",
                )

    async def work(self, handle: Handler, stop: asyncio.Event, *, at_once: int) -> None:
        """Take chunks, `at_once` at most, until `stop` is set; those in hand are waited for.

        Cancelled, it gives those in hand back without waiting. Raises what the driver raises when the connection is
        lost; what was in hand then is taken over.
        """
        from pgqueuer.errors import RetryRequested
        from pgqueuer.models import Job
        from pgqueuer.qm import QueueManager

        if at_once < 2:
            raise ConfigurationError("A worker takes at least 2 chunks at once.")

        in_hand: set[asyncio.Future[bool]] = set()

        async def chunk(job: Job) -> None:
            if manager.shutdown.is_set():
                raise RetryRequested(timedelta(0))
            run_id, number, label = json.loads(job.payload or b"[]")
            judging = asyncio.create_task(handle(run_id, number, label))
            in_hand.add(judging)
            try:
                judged = await judging
            except asyncio.CancelledError:
                # To the library a cancelled job would be a dropped one.
                judged = False
            finally:
                in_hand.discard(judging)
            if not judged:
                raise RetryRequested(timedelta(seconds=0.2 if not manager.shutdown.is_set() else 0))

        async with self._queries() as queries:
            manager = QueueManager(queries, channel=queries.qbe.settings.channel)
            manager.entrypoint(ENTRYPOINT, accepts_context=False)(chunk)

            async def stopping() -> None:
                await stop.wait()
                manager.shutdown.set()

            stopper = asyncio.create_task(stopping())
            working = asyncio.create_task(
                manager.run(
                    dequeue_timeout=timedelta(seconds=2),
                    batch_size=1,
                    max_concurrent_tasks=at_once,
                    heartbeat_timeout=self._heartbeat,
                    log_aggregation_interval=timedelta(seconds=0),
                )
            )
            try:
                await asyncio.shield(working)
            except asyncio.CancelledError:
                # The library would wait for what is in hand, or drop it: it ends in good order once all is given back.
                manager.shutdown.set()
                for judging in in_hand:
                    judging.cancel()
                await asyncio.gather(working, return_exceptions=True)
                raise
            finally:
                stopper.cancel()

    async def counts(self) -> dict[str, Any]:
        """Chunks by state (`queued`, `picked`)."""
        async with self._queries() as queries:
            return {row.status: row.count for row in await queries.queue_size()}
