"""Short reads of an event loop from PostgreSQL, on the loop's own connection.

Handing a question of half a millisecond to a thread costs several. Owns only the case that goes well: where no
connection can be had or it fails, the caller asks in a thread, which repeats and says what is wrong.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL

if TYPE_CHECKING:
    from psycopg import AsyncConnection

log = logging.getLogger(__name__)


class LoopReader:
    """One connection for the loop that asks now; another loop gets one of its own."""

    def __init__(self, url: URL) -> None:
        self._address = url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._connection: AsyncConnection[Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening = False

    async def rows(self, query: str, *values: Any) -> Sequence[Sequence[Any]] | None:
        """All rows of a query with `%s` for each value; None where it must be asked in another way."""
        import psycopg

        try:
            connection = await self._here()
            if connection is None:
                return None
            cursor = await connection.execute(query, values)
            return await cursor.fetchall()
        except psycopg.Error as error:
            log.debug("the loop's connection is given up: %s", type(error).__name__)
            self.close()
            return None

    async def _here(self) -> "AsyncConnection[Any] | None":
        import psycopg

        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self.close()
            self._loop, self._opening = loop, False
        if self._connection is None and not self._opening:
            self._opening = True
            try:
                made = await psycopg.AsyncConnection.connect(self._address, autocommit=True)
            finally:
                self._opening = False
            if self._loop is loop:
                self._connection = made
            else:
                made.pgconn.finish()
        return self._connection

    def close(self) -> None:
        """Close the connection. Safe to call twice, and where its loop is gone."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.pgconn.finish()
