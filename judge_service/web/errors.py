"""Errors for people: what left the service as a problem reaches a browser on a page's address as a page.

Pure ASGI, outside everything else, so that an error of any layer is covered. The API's addresses and callers that do
not ask for HTML keep their problem documents.
"""

import json
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from judge_service.gate.problem import MEDIA_TYPE
from judge_service.web.pages import render

API = ("/v1/", "/healthz", "/readyz", "/openapi.json", "/static/")
"""What addresses for programs begin with."""

_ADVICE = {
    401: "Open this address with a key, or sign in.",
    403: "Ask the person who runs this service for a role that allows it.",
    404: "Check the address, or go on from the start page.",
    409: "Nothing was changed. Reload the page before, look at what is stored, and try again.",
    413: "Nothing was stored. Send less at once.",
    429: "Nothing was lost. Wait a little and try again.",
    503: "Nothing was lost. Try again in a few seconds.",
}
_OTHERWISE = "Nothing was stored. Go back, mend the entries and send them again."
_OURS = "What was stored before is safe. Try again; if it stays, tell the person who runs this service the request id."


def for_person(scope: Scope) -> bool:
    """True for a request whose sender reads HTML, at an address that is a page."""
    path = scope["path"]
    if path == "/v1" or path.startswith(API):
        return False
    return "text/html" in Headers(scope=scope).get("accept", "")


def _advice(status: int) -> str:
    return _ADVICE.get(status) or (_OURS if status >= 500 else _OTHERWISE)


class ErrorPages:
    """ASGI middleware that turns problem documents into pages where a person asked."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; all but problems pass untouched."""
        if scope["type"] != "http" or not for_person(scope):
            await self.app(scope, receive, send)
            return
        start: Message | None = None
        body = b""

        async def watch(message: Message) -> None:
            nonlocal start, body
            if message["type"] == "http.response.start":
                if Headers(raw=message["headers"]).get("content-type") == MEDIA_TYPE:
                    start = message
                    return
            elif start is not None and message["type"] == "http.response.body":
                body += message.get("body", b"")
                if not message.get("more_body", False):
                    await _answer(scope, receive, send, start, json.loads(body))
                return
            await send(message)

        await self.app(scope, receive, watch)


async def _answer(scope: Scope, receive: Receive, send: Send, start: Message, problem: dict[str, Any]) -> None:
    """The problem as a page, under the headers that the problem had."""
    status = start["status"]
    page = render(
        Request(scope, receive),
        "error.html.j2",
        status=status,
        title=problem["title"],
        detail=problem["detail"],
        errors=problem["errors"],
        code=problem["code"],
        advice=_advice(status),
    )
    headers = MutableHeaders(raw=list(start["headers"]))
    for name, value in page.headers.items():
        headers[name] = value
    await send({"type": "http.response.start", "status": status, "headers": headers.raw})
    await send({"type": "http.response.body", "body": page.body})
