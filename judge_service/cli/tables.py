"""Tables for a terminal, readable at 100 columns. Owns how figures are written: percent one decimal, kappa two."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table


def percent(row: Mapping[str, Any], name: str) -> str:
    """A figure with its interval on a second line, or the reason why there is none."""
    value = row[name]
    if value is None:
        return reason(row["reasons"].get(name, "empty"))
    interval = row["intervals"].get(name)
    return f"{value:.1f}" + (f"\n[dim]{interval[0]:.1f}-{interval[1]:.1f}[/dim]" if interval else "")


def kappa(row: Mapping[str, Any], name: str) -> str:
    """Kappa, or the reason why there is none."""
    value = row[name]
    return reason(row["reasons"].get(name, "empty")) if value is None else f"{value:.2f}"


def reason(code: str) -> str:
    """A reason code in words."""
    return f"[dim]{code.replace('_', ' ')}[/dim]"


def agreement_tables(rows: Sequence[Mapping[str, Any]]) -> "Iterator[Table]":
    """One table per group, a row per judge and strategy; the second line of a percentage is its 95% interval."""
    from rich.markup import escape
    from rich.table import Table

    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["group"], []).append(row)
    for group, members in groups.items():
        table = Table(
            title=f"{escape(group)}, n = {members[0]['n']}",
            title_justify="left",
            title_style="bold",
            box=None,
            pad_edge=False,
            padding=(0, 1, 0, 0),
            header_style="bold",
        )
        table.add_column("Judge\nstrategy", overflow="fold", width=21)
        for title in ("Accuracy\n%", "AB first\n%", "BA first\n%", "Both\nright %", "Same in\nboth %"):
            table.add_column(title, justify="right", width=10)
        table.add_column("Flips\n1st+2nd", justify="right", width=7)
        table.add_column("Null\nof", justify="right", width=5)
        table.add_column("Kappa\nAB / BA", justify="right", width=8)
        for row in members:
            nulls = row["verdicts_null"] + row["n_missing"]
            read = sum(row[f"verdicts_{name}"] for name in ("first", "second", "tie"))
            both = row["positional_agreement"] is not None
            table.add_row(
                f"{escape(row['judge'])}\n[dim]{escape(row['strategy'])}[/dim]",
                percent(row, "accuracy"),
                percent(row, "accuracy_AB"),
                percent(row, "accuracy_BA"),
                percent(row, "both_correct"),
                percent(row, "positional_agreement"),
                f"{row['flips']}\n[dim]{row['flips_to_first']}+{row['flips_to_second']}[/dim]"
                if both
                else reason(row["reasons"]["positional_agreement"]),
                f"{nulls}\n[dim]{read + nulls}[/dim]",
                kappa(row, "kappa_AB") + ("\n" + kappa(row, "kappa_BA") if both else ""),
            )
        yield table
