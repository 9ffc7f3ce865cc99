"""A case and the record of its judgment as a page shows them: texts with titles, facts, and tables, for any rubric.

Knows no rubric by name: what a record holds decides how it is shown. Nothing is left out; what says nothing says so.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judge_service.domain.call import Call
from judge_service.domain.judgment import Judgment
from rubrics.model import Message

ORDERS = (("ab", "AB", "A first"), ("ba", "BA", "B first"))
"""The two orders of a pair: the field of a record, the order of a call, and words."""
_OWN = frozenset({"outcome", *(field for field, _, _ in ORDERS)})
_PASSAGE = ("text", "id", "title")


@dataclass(frozen=True, slots=True)
class Table:
    """A list of things with the same parts. Each row is one text a column."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """A record: single facts as name and words, lists of words, and tables."""

    facts: tuple[tuple[str, str], ...]
    lists: tuple[tuple[str, tuple[str, ...]], ...]
    tables: tuple[Table, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """What one order of a pair said. `said` is the verdict in the caller's frame; `why` the judge's reasons."""

    words: str
    said: str
    why: str


@dataclass(frozen=True, slots=True)
class ShownCall:
    """One request with its prompt where it could be rendered again."""

    call: Call
    prompt: str | None

    @property
    def order(self) -> str | None:
        """The presentation order in words."""
        return next((words for _, order, words in ORDERS if order == self.call.order), None)

    @property
    def tokens(self) -> int | None:
        """Tokens of prompt and reply; None where the provider did not say."""
        usage = self.call.usage
        parts = [part for part in (usage.prompt_tokens, usage.completion_tokens) if part is not None]
        return sum(parts) if parts else None


def title_of(name: str) -> str:
    """The name of a field as a heading."""
    return name.replace("_", " ").strip().capitalize() or "Text"


def texts_of(fields: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Every field of a case as title and text; passages one by one with their number, as citations count them."""
    found: list[tuple[str, str]] = []
    for name, value in fields.items():
        if isinstance(value, (list, tuple)) and value:
            for place, one in enumerate(value, start=1):
                found.append(_numbered(name.removesuffix("s"), place, one))
        elif value not in (None, [], {}):
            found.append((title_of(name), value if isinstance(value, str) else _json(value)))
    return found


def _numbered(name: str, place: int, value: Any) -> tuple[str, str]:
    title = f"{title_of(name)} {place}"
    if isinstance(value, Mapping) and isinstance(value.get("text"), str):
        known = [str(value[part]) for part in _PASSAGE[1:] if value.get(part)]
        more = {part: one for part, one in value.items() if part not in _PASSAGE and one not in (None, "", [], {})}
        text = value["text"] + (f"\n\n{_json(more)}" if more else "")
        return ": ".join([title, *known]), text
    return title, value if isinstance(value, str) else _json(value)


def shown_record(record: Mapping[str, Any]) -> Shown:
    """A record of any rubric for people."""
    facts: list[tuple[str, str]] = []
    lists: list[tuple[str, tuple[str, ...]]] = []
    tables: list[Table] = []
    for name, value in record.items():
        if name in _OWN:
            continue
        if isinstance(value, Sequence) and not isinstance(value, str) and value:
            if all(isinstance(one, Mapping) for one in value):
                tables.append(_table(title_of(name), value))
            else:
                lists.append((title_of(name), tuple(in_words(one) for one in value)))
        else:
            facts.append((title_of(name), in_words(value)))
    return Shown(tuple(facts), tuple(lists), tuple(tables))


def _table(title: str, items: Sequence[Mapping[str, Any]]) -> Table:
    names = tuple(dict.fromkeys(name for item in items for name in item))
    rows = tuple(tuple(in_words(item.get(name)) for name in names) for item in items)
    return Table(title, tuple(title_of(name) for name in names), rows)


def in_words(value: Any) -> str:
    """A value of a record as text: never empty, and a quote with whether it was found in the case."""
    if value is None or value == "":
        return "not given"
    if value in ([], {}):
        return "none given"
    if value == "none":
        return "“none”"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, Mapping):
        return _quote(value) if isinstance(value.get("quote"), str) and "found" in value else _pairs(value)
    if isinstance(value, (list, tuple)):
        return "; ".join(in_words(one) for one in value)
    return str(value)


def _quote(value: Mapping[str, Any]) -> str:
    if not value["quote"]:
        return "no quote given"
    number = value.get("context")
    place = f" in context {number + 1}" if isinstance(number, int) else ""
    words = f"✓ found{place}" if value["found"] else f"✕ not found{place}"
    return f"“{value['quote']}” {words}"


def _pairs(value: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')}: {in_words(one)}" for name, one in value.items())


def readings_of(judgment: Judgment) -> tuple[Reading, ...]:
    """What each order of a pair said before both were folded; empty for what is no pair."""
    record = judgment.record or {}
    asked = {call.order for call in judgment.calls}
    found: list[Reading] = []
    for field, order, words in ORDERS:
        reading = record.get(field)
        if isinstance(reading, Mapping):
            found.append(Reading(words, in_words(reading.get("verdict")), in_words(reading.get("rationale"))))
        elif order in asked:
            failed = [call.error.reason.value for call in judgment.calls if call.order == order and call.error]
            why = failed[-1].replace("_", " ") if failed else "nothing that was kept"
            found.append(Reading(words, "no verdict", why))
        elif field in record or asked & {"AB", "BA"}:
            found.append(Reading(words, "not asked", "the judge's policy asks one order"))
    return tuple(found)


def prompt_text(messages: Sequence[Message]) -> str:
    """The messages of a prompt as one plain text."""
    return "\n\n".join(f"[{message.role}]\n{message.content}" for message in messages)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)
