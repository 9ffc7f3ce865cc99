"""How a route that blocks answers: work on a thread, a record as JSON."""

import asyncio
import json
from collections.abc import Callable
from typing import TypeVar

from fastapi.responses import Response
from pydantic import BaseModel

T = TypeVar("T")


async def on_thread(work: Callable[[], T]) -> T:
    """What `work` gives, done on a thread: it may block."""
    return await asyncio.to_thread(work)


def answer(document: BaseModel, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """The record as JSON in ASCII, so that half a surrogate pair in a text harms nobody."""
    content = json.dumps(document.model_dump(mode="json"), ensure_ascii=True, allow_nan=False)
    return Response(content, status_code=status, media_type="application/json", headers=headers)
