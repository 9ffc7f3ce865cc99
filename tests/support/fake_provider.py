"""A scripted server on loopback that speaks the OpenAI chat-completions protocol, faults included.

It runs in a thread with an event loop of its own, so that tests of any kind (async, sync, subprocess) may use it.
Answers are taken in order from `script`; when it is used up, `default` answers: by filling the schema that the
request carries, as a server does that honours constraints. Every request is recorded.
"""

import asyncio
import itertools
import json
import math
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from email.utils import format_datetime
from typing import Any

from tests.support.waiting import LONG_ENOUGH_S


@dataclass(frozen=True)
class Recorded:
    """One request as it came in."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


def asked(requests: Iterable[Recorded]) -> Counter[str]:
    """How often each prompt was sent."""
    return Counter(json.dumps(request.body, sort_keys=True) for request in requests)


def held_after(n: int, later: threading.Event, reply: "Reply") -> "Callable[[Recorded], Reply]":
    """Answers the first `n` calls; every further one waits for `later`."""
    seen = itertools.count(1)
    return lambda _: replace(reply, hold=None if next(seen) <= n else later)


@dataclass(frozen=True)
class Reply:
    """One answer. `content` None lets the server fill the schema. `body` replaces the whole JSON body.

    `hang`: `headers` never answers, `body` sends headers and half of the body and then nothing, `drip` sends one byte
    every `drip_s` for ever, `close` ends the connection after half of the body, `gone` before the first byte. `model`
    None echoes the request's.
    """

    content: str | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    finish_reason: str | None = "stop"
    refusal: str | None = None
    model: str | None = None
    usage: Mapping[str, Any] | None = field(default_factory=lambda: {"prompt_tokens": 120, "completion_tokens": 30})
    logprobs: Sequence[Mapping[str, float]] | None = None
    delay_s: float = 0.0
    hang: str | None = None
    drip_s: float = 0.02
    hold: threading.Event | None = None
    """No answer before it is set."""


def error(
    status: int, message: str, *, code: str | None = None, kind: str = "invalid_request_error", **headers: str
) -> Reply:
    """An error in OpenAI's form."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(
        status=status, headers=names, body={"error": {"message": message, "type": kind, "code": code, "param": None}}
    )


def rate_limited(retry_after: str | datetime | None = None) -> Reply:
    """429, with Retry-After in seconds or as an HTTP date."""
    if isinstance(retry_after, datetime):
        retry_after = format_datetime(retry_after, usegmt=True)
    headers = {} if retry_after is None else {"Retry_After": retry_after}
    return error(429, "Rate limit reached for requests", code="rate_limit_exceeded", kind="requests", **headers)


def context_overflow(form: str = "openai") -> Reply:
    """400 for a prompt that is too long, as OpenAI, llama.cpp or vLLM says it."""
    if form == "llama.cpp":
        message = "the request exceeds the available context size, try increasing it"
        return Reply(
            status=400,
            body={
                "error": {
                    "code": 400,
                    "message": message,
                    "type": "exceed_context_size_error",
                    "n_prompt_tokens": 9001,
                    "n_ctx": 4096,
                }
            },
        )
    if form == "vllm":
        message = "This model's maximum context length is 4096 tokens. However, you requested 9001 tokens."
        return Reply(status=400, body={"object": "error", "message": message, "type": "BadRequestError", "code": 400})
    message = "This model's maximum context length is 4096 tokens. However, your messages resulted in 9001 tokens."
    return error(400, message, code="context_length_exceeded")


def content_filter_400(form: str = "openai") -> Reply:
    """400 from a content filter, in the wordings of several providers."""
    wordings = {
        "openai": ("Your request was rejected as a result of our safety system.", "content_policy_violation"),
        "azure": (
            "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
            "content_filter",
        ),
        "custom": ("Input blocked by moderation layer (category: violence)", None),
    }
    message, code = wordings[form]
    return error(400, message, code=code)


UNAUTHORIZED = error(401, "Incorrect API key provided: sk-test-SECRET123abc.", code="invalid_api_key")
FORBIDDEN = error(403, "The key sk-test-SECRET123abc may not use this model.", code="forbidden")
SERVER_ERROR = error(500, "The server had an error", kind="server_error")
UNAVAILABLE = error(503, "Overloaded", kind="server_error")
REFUSAL = Reply(content="", refusal="I can't help with that.")
FILTERED = Reply(content="", finish_reason="content_filter")
CUT = Reply(content='{"rationale": "It cites the', finish_reason="length")
PROSE = Reply(content="I think the first answer is better because it is correct.")


def instance(schema: Mapping[str, Any]) -> Any:
    """The smallest value that a schema allows: what a constrained decoder might write."""
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return instance(schema[union][0])
    kind = schema.get("type")
    if kind == "object":
        return {name: instance(part) for name, part in schema.get("properties", {}).items()}
    if kind == "array":
        return [instance(schema["items"]) for _ in range(schema.get("minItems", 0))]
    if kind == "string":
        return "x" * max(1, schema.get("minLength", 0))
    return {"boolean": False, "null": None}.get(str(kind), 0)


def honoured(body: Mapping[str, Any]) -> str | None:
    """What a server that honours the constraint in `body` writes; None where there is no constraint."""
    outputs = body.get("structured_outputs") or {}
    form = body.get("response_format") or {}
    schema = outputs.get("json") or form.get("json_schema", {}).get("schema") or body.get("format")
    grammar = body.get("grammar") or {}
    if isinstance(grammar, Mapping) and grammar.get("type") in ("json", "json_object"):
        schema = grammar["value"]
    if isinstance(schema, str):
        schema = json.loads(schema)
    if schema is not None:
        return json.dumps(instance(schema), separators=(",", ":"))
    pattern = (
        outputs.get("regex") or body.get("regex") or (grammar.get("value") if isinstance(grammar, Mapping) else None)
    )
    if pattern is None and outputs.get("choice"):
        return str(outputs["choice"][0])
    if pattern is not None:
        return str(pattern).strip("()").split("|")[0].strip("()")
    if isinstance(grammar, str) and grammar:
        if "%json" in grammar:
            start = grammar.index("%json") + len("%json")
            return json.dumps(
                instance(json.JSONDecoder().raw_decode(grammar[start:].lstrip())[0]), separators=(",", ":")
            )
        return str(json.loads(grammar.split("start:")[1].split("|")[0].strip()))
    return None


class FakeProvider:
    """The server. Use as a context manager; `url` is the base URL ending in `/v1`. No answer before `hold` is set."""

    def __init__(
        self,
        script: Sequence[Reply] = (),
        *,
        default: Reply | Callable[[Recorded], Reply] | None = None,
        delay_s: float = 0.0,
        hold: threading.Event | None = None,
    ) -> None:
        self.script = list(script)
        self.requests: list[Recorded] = []
        self.connections = 0
        self.open_requests = 0
        self.default = default or Reply()
        self._delay_s = delay_s
        self._hold = hold
        self._came = threading.Condition()
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def completions(self) -> list[Recorded]:
        """The chat requests alone."""
        return [request for request in self.requests if request.path.endswith("/chat/completions")]

    def wait_for(self, n: int) -> None:
        """Block until `n` chat requests have come; fails after `LONG_ENOUGH_S`."""
        with self._came:
            assert self._came.wait_for(lambda: len(self.completions) >= n, LONG_ENOUGH_S), f"{n} calls did not come"

    def __enter__(self) -> "FakeProvider":
        self._thread.start()
        assert self._ready.wait(LONG_ENOUGH_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(LONG_ENOUGH_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._connection(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await self._exchange(reader, writer):
                continue
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ", 2)
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
        }
        raw = await reader.readexactly(int(headers.get("content-length", "0")))
        request = Recorded(method, path, headers, json.loads(raw) if raw else None)
        with self._came:
            self.requests.append(request)
            self._came.notify_all()
        if path.endswith("/models"):
            await self._send(writer, Reply(body={"object": "list", "data": [{"id": "fake", "object": "model"}]}), {})
            return True
        reply = self._next(request)
        self.open_requests += 1
        try:
            return await self._answer(reader, writer, reply, request.body or {})
        finally:
            self.open_requests -= 1

    def _next(self, request: Recorded) -> Reply:
        if self.script:
            return self.script.pop(0)
        return self.default(request) if callable(self.default) else self.default

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, reply: Reply, body: Mapping[str, Any]
    ) -> bool:
        if reply.delay_s or self._delay_s:
            await asyncio.sleep(reply.delay_s or self._delay_s)
        hold = reply.hold or self._hold
        if hold is not None:
            await asyncio.to_thread(hold.wait, 120)
        if reply.hang == "headers":
            await reader.read()  # until the client gives up
            return False
        if reply.hang == "gone":
            return False
        if reply.hang is None:
            await self._send(writer, reply, body)
            return True
        payload = json.dumps(self._body(reply, body)).encode()
        writer.write(self._head(reply, len(payload)) + (b"" if reply.hang == "drip" else payload[: len(payload) // 2]))
        await writer.drain()
        if reply.hang == "close":
            return False
        if reply.hang == "body":
            await reader.read()
            return False
        while not reader.at_eof():
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(reply.drip_s)
        return False

    async def _send(self, writer: asyncio.StreamWriter, reply: Reply, body: Mapping[str, Any]) -> None:
        payload = json.dumps(self._body(reply, body)).encode()
        writer.write(self._head(reply, len(payload)) + payload)
        await writer.drain()

    @staticmethod
    def _head(reply: Reply, length: int) -> bytes:
        lines = [f"HTTP/1.1 {reply.status} X", "content-type: application/json", f"content-length: {length}"]
        lines += [f"{name}: {value}" for name, value in reply.headers.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    @staticmethod
    def _body(reply: Reply, body: Mapping[str, Any]) -> Any:
        if reply.body is not None:
            return reply.body
        content = reply.content
        if content is None:
            content = honoured(body)
        if content is None:
            content = "Some prose."
        message: dict[str, Any] = {"role": "assistant", "content": content}
        if reply.refusal is not None:
            message |= {"content": None, "refusal": reply.refusal}
        tools = body.get("tools")
        if tools and reply.content is None and reply.refusal is None:
            arguments = json.dumps(instance(tools[0]["function"]["parameters"]))
            call = {
                "id": "call_1",
                "type": "function",
                "function": {"name": tools[0]["function"]["name"], "arguments": arguments},
            }
            message |= {"content": None, "tool_calls": [call]}
        choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": reply.finish_reason}
        wanted = reply.logprobs
        if wanted is None and body.get("logprobs"):
            wanted = [{content[:1] or " ": 0.9, "~": 0.05}]
        if wanted is not None:
            choice["logprobs"] = {"content": [_position(options) for options in wanted], "refusal": None}
        answer = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": reply.model or body.get("model", "fake"),
            "choices": [choice],
        }
        if reply.usage is not None:
            answer["usage"] = {
                "total_tokens": sum(v for v in reply.usage.values() if isinstance(v, int)),
                **reply.usage,
            }
        return answer


def _position(options: Mapping[str, float]) -> dict[str, Any]:
    top = [
        {"token": token, "logprob": math.log(value), "bytes": list(token.encode())} for token, value in options.items()
    ]
    return {**top[0], "top_logprobs": top}


async def until(condition: Callable[[], bool], limit_s: float = 5.0) -> None:
    """Wait until the server has come to a state; its thread is another one, so there is nothing to await."""
    for _ in range(round(limit_s / 0.005)):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("the server did not come to that state in time")


def hanging(how: str) -> Reply:
    """A reply that never ends; see `Reply.hang`."""
    return Reply(hang=how)


def with_model(reply: Reply, model: str) -> Reply:
    """`reply` as another model."""
    return replace(reply, model=model)


if __name__ == "__main__":  # a process of its own, for measurements: prints the URL, ends with its standard input
    with FakeProvider() as provider:
        print(provider.url, flush=True)
        sys.stdin.read()
