"""Connections of the openai client: made by aiohttp, and only to addresses that were checked after resolving.

Owns what happens below the SDK, and how it is called when it fails. aiohttp, because httpx2's own connections cost
twice the CPU a call (`benchmarks/backends.py`). Imported with the SDK, not before.
"""

import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Iterator

import aiohttp
import httpx2
from aiohttp.abc import AbstractResolver, ResolveResult
from httpx_aiohttp.httpx2 import AiohttpTransport

from judge_service.backends.transport import resolve

MOST_CONNECTIONS = 1000
IDLE_S = 5.0
"""How long an idle connection is kept: below what servers keep theirs, so that none is used as it closes."""


class CheckedResolver(AbstractResolver):
    """Names become checked addresses, which are then connected to: the name cannot point elsewhere since.

    An address written out comes past it; those are checked when a judge is configured.
    """

    def __init__(self, *, allow_private: bool) -> None:
        self._allow_private = allow_private

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses of `host`. Raises RefusedAddress, or OSError where it has none."""
        addresses = await resolve(host, port, allow_private=self._allow_private)
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        """Nothing to release."""


class CheckedTransport(AiohttpTransport):
    """A transport for an `httpx2.AsyncClient`. What broke off is told apart from what took too long."""

    def __init__(self, certificates: ssl.SSLContext, *, allow_private: bool) -> None:
        def session() -> aiohttp.ClientSession:
            connector = aiohttp.TCPConnector(
                limit=MOST_CONNECTIONS,
                keepalive_timeout=IDLE_S,
                resolver=CheckedResolver(allow_private=allow_private),
                use_dns_cache=False,
                ssl=certificates,
            )
            return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())

        super().__init__(verify=certificates, client=session)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """One exchange on one connection; no redirect, no repetition."""
        with _told_apart():
            response = await super().handle_async_request(request)
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Body(response.stream)
        return response


class _Body(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _told_apart():
            async for chunk in self._inner:
                yield chunk

    async def aclose(self) -> None:
        with _told_apart():
            await self._inner.aclose()


@contextlib.contextmanager
def _told_apart() -> Iterator[None]:
    try:
        yield
    except httpx2.TimeoutException as error:
        # Every connection that broke off comes as a time limit too.
        if isinstance(error.__cause__, TimeoutError):
            raise
        raise httpx2.ReadError(str(error)) from error.__cause__
