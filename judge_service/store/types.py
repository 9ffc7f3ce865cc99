"""Column types that read back exactly what was written, the same on SQLite and PostgreSQL.

Owns UTC times, JSON and free text. SQLite forgets time zones; PostgreSQL refuses NUL in text and neither takes a
lone surrogate; model replies hold all three.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_json
from sqlalchemy import DateTime, Dialect, Text
from sqlalchemy.types import TypeDecorator

_UNSTORABLE = re.compile("[\x00\x1b\ud800-\udfff]")
_ESCAPED = re.compile("\x1b([0-9a-f]{4})")


class UtcDateTime(TypeDecorator[datetime]):
    """An aware datetime, stored in UTC with microseconds. Raises ValueError for a naive one."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> Callable[[datetime | None], Any]:
        """To UTC; for SQLite as the text that SQLAlchemy writes. Without the layers in between, as for texts."""
        return _sqlite_time if dialect.name == "sqlite" else _utc

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Aware again."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _utc(value: datetime | None) -> datetime | None:
    if value is None:
        return None
    if value.tzinfo is None:
        raise ValueError("a stored time needs a time zone")
    return value.astimezone(UTC)


def _sqlite_time(value: datetime | None) -> str | None:
    utc = _utc(value)
    return None if utc is None else utc.replace(tzinfo=None).isoformat(" ", "microseconds")


class ExactText(TypeDecorator[str]):
    """Any Python string. NUL, ESC and lone surrogates are kept as ESC and four hex digits, so equality still works."""

    impl = Text
    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> Callable[[str | None], str | None]:
        """Escape what a database would refuse. Without the layers in between: it runs for nearly every column."""
        return _storable

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """The string as it was."""
        if value is None or "\x1b" not in value:
            return value
        return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), value)


def _storable(value: str | None) -> str | None:
    if value is None or (value.isascii() and "\x00" not in value and "\x1b" not in value):
        return value
    return _UNSTORABLE.sub(lambda match: f"\x1b{ord(match[0]):04x}", value)


def json_text(value: Any) -> str:
    """`value` (plain, or a Pydantic record) as compact ASCII JSON.

    Raises ValueError for NaN or Infinity, TypeError for what is no JSON.
    """
    if not value and isinstance(value, dict | list | tuple):
        # Most columns of a call are empty.
        return "{}" if isinstance(value, dict) else "[]"
    try:
        text = to_json(value, ensure_ascii=True).decode()
    except PydanticSerializationError:
        # A lone surrogate, or no JSON at all.
        return _strict(value)
    if "NaN" in text or "Infinity" in text:
        return _strict(value)
    return text


def _strict(value: Any) -> str:
    plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    return json.dumps(plain, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class ReadyJson:
    """A value for a `JsonText` column that was made into text already, by `json_text`."""

    text: str


class JsonText(TypeDecorator[Any]):
    """A JSON value as ASCII text, so that any string in it survives. Python None is SQL NULL. Refuses NaN."""

    impl = Text
    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], str | None]:
        """Dump. Raises ValueError for NaN or Infinity, TypeError for what is no JSON."""
        return _dumped

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        """Load."""
        return None if value is None else {} if value == "{}" else json.loads(value)


def _dumped(value: Any) -> str | None:
    if value is None:
        return None
    return value.text if isinstance(value, ReadyJson) else json_text(value)
