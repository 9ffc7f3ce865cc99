"""Limits of a request: the size of its body and the time it takes to arrive, and how often a key may ask.

The body is counted while it arrives, so a chunked body without a length is cut off at the limit and not after it.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from judge_service.errors import RequestTimeout, TooLarge, Unavailable
from judge_service.gate.problem import error_response

SILENCE_S = 30.0
"""Longest wait for the next piece of a body."""


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"The body is larger than the {limit:,} bytes this service accepts.", extra={"limit_bytes": limit})


class BodyLimit:
    """ASGI middleware: refuses a body above `limit` bytes before it is read, and one that stops half way.

    A declared length above the limit is answered at once, with or without a key. Otherwise the reader of the
    body meets `TooLarge` or `RequestTimeout`.
    """

    def __init__(self, app: ASGIApp, *, limit: int, silence_s: float = SILENCE_S) -> None:
        self.app = app
        self.limit = limit
        self.silence_s = silence_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request within the limits."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit() and int(value[:20]) > self.limit:
                identifier = scope.get("state", {}).get("request_id")
                await error_response(_too_large(self.limit), identifier)(scope, receive, send)
                return
        seen = 0
        complete = False

        async def counted() -> Message:
            nonlocal seen, complete
            if complete:
                return await receive()
            try:
                async with asyncio.timeout(self.silence_s):
                    message = await receive()
            except TimeoutError:
                raise RequestTimeout from None
            if message["type"] == "http.request":
                seen += len(message.get("body", b""))
                complete = not message.get("more_body", False)
                if seen > self.limit:
                    raise _too_large(self.limit)
            else:
                complete = True
            return message

        await self.app(scope, counted, send)


class RateLimiter:
    """A token bucket a name: `per_minute` requests at once, refilled evenly.

    Holds at most `names` buckets; the one unused longest goes first, and by then it is full again or its owner
    is one of very many. Not shared between processes.
    """

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic, names: int = 10_000) -> None:
        self._capacity = float(per_minute)
        self._clock = clock
        self._names = names
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> float:
        """Take one request from the bucket of `name`: 0.0 if there was one, else the seconds until there is."""
        now = self._clock()
        level, at = self._buckets.pop(name, (self._capacity, now))
        level = min(self._capacity, level + (now - at) * self._capacity / 60)
        wait = 0.0
        if level >= 1:
            level -= 1
        else:
            wait = (1 - level) * 60 / self._capacity
        self._buckets[name] = (level, now)
        while len(self._buckets) > self._names:
            self._buckets.popitem(last=False)
        return wait


class Admission:
    """How much work may be under way at once. What comes beyond is turned away, not queued without end."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._under_way = 0

    @contextmanager
    def enter(self) -> Iterator[None]:
        """Hold one place while the block runs. Raises Unavailable, with Retry-After, when there is none."""
        if self._under_way >= self._at_once:
            raise Unavailable(f"The service is busy: {self._at_once} judgments are under way. Send this again later.")
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
