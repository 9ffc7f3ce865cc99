"""The outermost layer: a request id, security headers on every response, one log line a request, a last catch.

Pure ASGI. Never logs a query, a header or a body.
"""

import logging
import re
import time
import uuid

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from judge_service.gate.problem import unexpected_response
from judge_service.telemetry import redact

_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_log = logging.getLogger("judge_service.access")

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
"""Sent with every response; a page may state its own policy instead of the one that allows nothing."""
_RAW_HEADERS = tuple((name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items())


def request_id(scope: Scope) -> str:
    """The caller's `X-Request-Id` where it is a short plain word and no secret, else a new one."""
    for name, value in scope.get("headers", ()):
        if name == b"x-request-id":
            text: str = value.decode("latin-1")
            if _ID.fullmatch(text) and redact(text) == text:
                return text
    return uuid.uuid4().hex


class RequestContext:
    """ASGI middleware that wraps everything else. Puts `request_id` into the request's state."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; an exception that nobody handled becomes a 500 problem."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        identifier = request_id(scope)
        state = scope.setdefault("state", {})
        state["request_id"] = identifier
        started = time.perf_counter()
        status = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = [(name, value) for name, value in message.get("headers", ()) if name != b"x-request-id"]
                stated = {name for name, _ in own}
                own.append((b"x-request-id", identifier.encode("latin-1")))
                own.extend(header for header in _RAW_HEADERS if header[0] not in stated)
                message["headers"] = own
            await send(message)

        try:
            await self.app(scope, receive, send_with_headers)
        except ClientDisconnect:
            _log.debug("client left before its request was read, request %s", identifier)
        except Exception as error:
            response = unexpected_response(error, identifier)
            if status:
                # The response has begun: cutting the connection is the only honest end.
                raise RuntimeError("response cut off after an error") from None
            await response(scope, receive, send_with_headers)
        finally:
            if _log.isEnabledFor(logging.INFO):
                _tell(scope, status, time.perf_counter() - started)


def _tell(scope: Scope, status: int, took_s: float) -> None:
    """The line of one request in the log."""
    principal = scope["state"].get("principal")
    _log.info(
        "%s %s %s %.1f ms by=%s request=%s",
        scope["method"],
        redact(ascii(scope["path"])[1:-1]),
        status or "-",
        took_s * 1000,
        (principal.key_id or principal.id) if principal is not None else "-",
        scope["state"]["request_id"],
    )
