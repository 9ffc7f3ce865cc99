"""A report's sections as flat tables, for CSV and wherever a table is wanted. Owns how a figure becomes columns.

A figure `f` becomes `f`, `f_low`, `f_high`, `f_n`, `f_reason`; an object its members with their name in front; a list
of objects a table of its own, whose rows begin with what identifies the row above (judge, key, value, id). Nothing is
rounded and nothing computed: CSV and JSON hold the same numbers, null an empty cell with its reason beside it.
"""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from judge_service.cells import guard
from judge_service.reports.selection import parts_of

IDENTIFYING = ("judge", "key", "value", "id")
"""Members that name a row, carried into the tables below it."""
_LEFT_OUT = ("texts", "details")


@dataclass(slots=True)
class Table:
    """One table: `name` for a file, `columns` in order of first appearance, `rows` with None where there is nothing."""

    name: str
    title: str
    columns: list[str] = field(default_factory=list)
    entries: list[dict[str, Any]] = field(default_factory=list)

    @property
    def rows(self) -> list[list[Any]]:
        """The cells of each row, in the order of the columns."""
        return [[entry.get(column) for column in self.columns] for entry in self.entries]

    def add(self, entry: dict[str, Any]) -> None:
        """Append a row; new members become new columns."""
        self.columns += [name for name in entry if name not in self.columns]
        self.entries.append(entry)

    def csv(self) -> str:
        """The table as CSV with a header line; a cell that a spreadsheet would run as a formula is quoted with '."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([guard(column) for column in self.columns])
        for row in self.rows:
            writer.writerow([_cell(value) for value in row])
        return text.getvalue()


def tables(section: Mapping[str, Any]) -> list[Table]:
    """The tables of one section of a report; the first is that of its judges, where it has one."""
    found: dict[str, Table] = {}
    data = section["data"]
    _Walk(section, data.get("classes") or [], found).of_object(section["id"], data, {})
    return [table for table in found.values() if table.entries]


def all_tables(report: Mapping[str, Any]) -> dict[str, Table]:
    """Every table of a report by its name, the decision first; several parts are told apart by their rubric."""
    found: dict[str, Table] = {}
    parts = parts_of(dict(report))
    for part in parts:
        before = "" if len(parts) == 1 else f"{part['facts']['rubric'].replace('@', '-')}-"
        decision = Table(f"{before}decision", "Decision")
        flat: dict[str, Any] = {}
        for name, value in part["decision"].items():
            flat[name] = "; ".join(map(str, value)) if isinstance(value, list) else value
        for name in ("missing", "optimism"):
            flat |= {f"{name}_{key}": one for key, one in (flat.pop(name) or {}).items()}
        decision.add(flat)
        found[decision.name] = decision
        for section in part["sections"]:
            for table in tables(section):
                table.name = f"{before}{table.name}"
                found[table.name] = table
    return found


class _Walk:
    def __init__(self, section: Mapping[str, Any], classes: list[str], found: dict[str, Table]) -> None:
        self.section = section
        self.classes = classes
        self.found = found

    def table(self, name: str) -> Table:
        title = f"{self.section['title']}: {name.removeprefix(self.section['id']).strip('_').replace('_', ' ')}"
        return self.found.setdefault(name, Table(name, title.rstrip(": ")))

    def of_object(self, name: str, value: Mapping[str, Any], above: dict[str, Any]) -> None:
        """The members of an object that is no row: lists become tables, figures rows of one table of facts."""
        for key, part in value.items():
            if isinstance(part, list):
                self.of_list(name if key in ("judges", "rows") and not above else f"{name}_{key}", part, above)
            elif _is_figure(part):
                self.table(f"{name}_facts").add({**above, "figure": key, **_figure("value", part)})
            elif isinstance(part, Mapping) and key not in _LEFT_OUT:
                self.of_object(f"{name}_{key}", part, above)

    def of_list(self, name: str, parts: list[Any], above: dict[str, Any]) -> None:
        for number, part in enumerate(parts):
            if isinstance(part, Mapping):
                self.row(name, part, above)
            elif isinstance(part, list):
                label = self.classes[number] if number < len(self.classes) else str(number)
                cells = dict(zip(self.classes, part, strict=False))
                self.table(name).add({**above, "judge_says": label, **cells})

    def row(self, name: str, row: Mapping[str, Any], above: dict[str, Any]) -> None:
        entry = dict(above)
        below: list[tuple[str, list[Any]]] = []
        _flatten("", row, entry, below)
        self.table(name).add(entry)
        own = {key: entry[key] for key in IDENTIFYING if key in entry}
        for key, parts in below:
            self.of_list(f"{name}_{key}", parts, {**above, **own})


def _flatten(before: str, value: Mapping[str, Any], entry: dict[str, Any], below: list[tuple[str, list[Any]]]) -> None:
    for key, part in value.items():
        name = f"{before}{key}"
        if key in _LEFT_OUT:
            continue
        if _is_figure(part):
            entry |= _figure(name, part)
        elif isinstance(part, Mapping):
            _flatten(f"{name}_", part, entry, below)
        elif isinstance(part, list) and any(isinstance(one, Mapping | list) for one in part):
            below.append((name, part))
        elif isinstance(part, list):
            entry[name] = "; ".join(str(one) for one in part)
        else:
            entry[name] = part


def _is_figure(value: Any) -> bool:
    return isinstance(value, Mapping) and "value" in value and "method" in value


def _figure(name: str, figure: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: figure["value"],
        f"{name}_low": figure["low"],
        f"{name}_high": figure["high"],
        f"{name}_n": figure["n"],
        f"{name}_reason": figure["undefined_reason"] or figure.get("interval_reason"),
    }


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return guard(value) if isinstance(value, str) else value
