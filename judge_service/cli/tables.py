"""Tables for a terminal, readable at 100 columns. Owns how figures are written: percent one decimal, kappa two."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table


MOST_PAIRS = 10
"""Pairs of judges, and reasons, up to which a terminal shows them."""


def plain_table(*columns: str, title: str | None = None, gap: int = 2) -> "Table":
    """A table without lines, under a bold title; `gap` blanks between columns."""
    from rich.table import Table

    return Table(
        *columns,
        title=title,
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        padding=(0, gap, 0, 0),
        header_style="bold",
    )


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

    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["group"], []).append(row)
    for group, members in groups.items():
        table = plain_table(title=f"{escape(group)}, n = {members[0]['n']}", gap=1)
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


def estimate(found: Mapping[str, Any] | None, *, share: bool = False) -> str:
    """An estimate with its interval on a second line, or the reason why it is null; a `share` in percent."""
    if found is None:
        return reason("not measured")
    if found["value"] is None:
        return reason(found["undefined_reason"])

    def shown(number: float) -> str:
        return f"{number * 100:.1f}" if share else f"{number:.2f}"

    interval = ""
    if found["low"] is not None:
        between = " to " if found["low"] < 0 else "-"
        interval = f"\n[dim]{shown(found['low'])}{between}{shown(found['high'])}[/dim]"
    return shown(found["value"]) + interval


def statistics_tables(found: Mapping[str, Any]) -> "Iterator[Table]":
    """One table for the whole set and one for each slice, a row a judge; then what was counted."""
    facts = found["set"]
    where = f", {facts['where']}" if facts["where"] else ""
    splits = ", ".join(facts["splits"])
    title = f"{facts['id']} ({facts['status']}), {found['rubric']}{where}, split {splits}"
    if found["judges"] or not found["shares"]:
        yield _statistics_table(title, found["n_labelled"], found["tier"], found["judges"])
        if found["selection"] is not None:
            yield _selection_table(found["selection"])
        if 0 < len(found["comparisons"]["pairs"]) <= MOST_PAIRS:
            yield _comparisons_table(found["comparisons"])
    for key, rows in found["slices"].items():
        for row in rows if found["judges"] or not found["shares"] else ():
            yield _statistics_table(f"{key} = {row['value']}", row["n"], row["tier"], row["judges"])
    tallied: dict[tuple[str, str | None], list[Mapping[str, Any]]] = {}
    for row in found["shares"]:
        tallied.setdefault((row["of"], row["by"]), []).append(row)
    for (of, by), rows in tallied.items():
        yield _shares_table(f"Shares of {of}" + ("" if by is None else f" by {by}"), rows)
        if "refusals" in rows[0]:
            yield _refusals_table(f"Refusing, by {of}" + ("" if by is None else f" and {by}"), rows)


def _selection_table(found: Mapping[str, Any]) -> "Table":
    """The verdict in its fixed words, and a row a reason."""
    from rich.markup import escape

    table = plain_table(title=f"Selection: {escape(found['verdict'])}")
    table.add_column(header_style="dim")
    reasons = list(found["reasons"])
    for text in reasons[:MOST_PAIRS]:
        table.add_row(escape(text))
    if len(reasons) > MOST_PAIRS:
        table.add_row(f"[dim]and {len(reasons) - MOST_PAIRS} more: --json shows them[/dim]")
    return table


def _comparisons_table(found: Mapping[str, Any]) -> "Table":
    """A row a pair of judges: the difference in agreement in points, and its p-value after Holm."""
    from rich.markup import escape

    table = plain_table(title="Differences in agreement")
    table.add_column("First", overflow="fold", width=28)
    table.add_column("Second", overflow="fold", width=28)
    table.add_column("First - second\npoints", justify="right")
    table.add_column("p (Holm)", justify="right")
    for row in found["pairs"]:
        p = row["p_holm"]
        shown = reason(row["p_value"]["undefined_reason"]) if p is None else f"{p:.3f}" if p >= 0.001 else "<0.001"
        difference = estimate(row["difference"], share=True)
        table.add_row(escape(row["first"]), escape(row["second"]), difference, shown)
    return table


def _shares_table(title: str, rows: Sequence[Mapping[str, Any]]) -> "Table":
    """A row a slice and value: the count, the share, and what it is a share of."""
    from rich.markup import escape

    table = plain_table(title=escape(title))
    table.add_column("Slice", overflow="fold", width=26)
    table.add_column("Value", overflow="fold", width=26)
    for name in ("Cases", "%", "Of"):
        table.add_column(name, justify="right")
    for row in rows:
        named = "all" if row["value"] is None else row["value"]
        values = [(escape(name), count, row["shares"].get(name)) for name, count in row["counts"].items()]
        if row["missing"]:
            values.append(("[dim]missing[/dim]", row["missing"], row.get("missing_share")))
        for name, count, found in values:
            shown = "[dim]left out[/dim]" if found is None else estimate(found, share=True)
            table.add_row(escape(named), name, str(count), shown, "" if found is None else str(row["denominator"]))
    return table


def _refusals_table(title: str, rows: Sequence[Mapping[str, Any]]) -> "Table":
    """A row a slice: refusals where an answer was due, answers where none was, and labels that are missing."""
    from rich.markup import escape

    table = plain_table(title=escape(title))
    table.add_column("Slice", overflow="fold", width=26)
    for name in (
        "Over-\nrefusal %",
        "Missed\nrefusal %",
        "Precision\n%",
        "Recall\n%",
        "Missing,\ndue %",
        "Missing,\nnot due %",
    ):
        table.add_column(name, justify="right")
    figures = (
        "over_refusal_rate",
        "missed_refusal_rate",
        "precision",
        "recall",
        "missing_answerable",
        "missing_unanswerable",
    )
    for row in rows:
        named = "all" if row["value"] is None else row["value"]
        table.add_row(escape(named), *(estimate(row["refusals"][name], share=True) for name in figures))
    return table


def _statistics_table(title: str, n: int, tier: str, rows: Sequence[Mapping[str, Any]]) -> "Table":
    from rich.markup import escape

    table = plain_table(title=f"{escape(title)}\n{n} labelled cases: {tier}", gap=1)
    table.add_column("Judge", overflow="fold", width=26)
    for name in (
        "Agreement\n%",
        "Constant\nanswer %",
        "Kappa",
        "AC1",
        "Same in both\norders %",
        "ECE",
        "No verdict\nof",
    ):
        table.add_column(name, justify="right")
    for row in rows:
        figures = row["agreement"]
        position, confidence = row.get("position") or {}, row.get("confidence") or {}
        counts = row["outcomes"]
        failed = n - counts["scored"] - counts["tie"]
        table.add_row(
            escape(row["judge"]),
            estimate(figures["raw_agreement"], share=True),
            estimate({**figures["majority_baseline"], "low": None}, share=True),
            estimate(figures["cohen_kappa"]),
            estimate(figures["gwet_ac1"]),
            estimate(position.get("consistency"), share=True),
            estimate(confidence.get("ece")),
            f"{failed}\n[dim]{n}[/dim]",
        )
    return table


def calibration_table(rows: Sequence[Mapping[str, Any]]) -> "Table":
    """What was measured and stored, a row a judge."""
    from rich.markup import escape

    table = plain_table("Judge", "Labels", "Agreement %", "Kappa", "Supports trust", "Confidence map")
    for row in rows:
        fitted = row["map"]
        said = "no confidence" if fitted is None else fitted["refused"] or f"{fitted['method']} {fitted['id']}"
        table.add_row(
            escape(row["judge"]),
            str(row["n"]),
            estimate(row["statistics"]["judge"]["agreement"]["raw_agreement"], share=True),
            estimate(row["statistics"]["judge"]["agreement"]["cohen_kappa"]),
            "yes" if row["shortcoming"] is None else escape(row["shortcoming"]),
            escape(said),
        )
    return table


def rows_table(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> "Table":
    """Rows as they are, a column a name."""
    from rich.markup import escape

    table = plain_table()
    for name in names:
        table.add_column(name.replace("_", " ").capitalize(), overflow="fold")
    for row in rows:
        table.add_row(*("" if row[name] is None else escape(str(row[name])) for name in names))
    return table


def aggregate_tables(found: Mapping[str, Any]) -> "Iterator[Table]":
    """A run's numbers and those of its slices, then the shares of its labels, raw and corrected."""
    from rich.markup import escape

    table = plain_table(title=escape(f"{found['run']}: {found['rubric']} by {found['judge']}, {found['status']}"))
    for name in ("Part", "Scored\nof", "Failed", "Mean score", "If all failed were\nworst / best"):
        table.add_column(name, justify="left" if name == "Part" else "right")
    parts = {"all": found}
    if "slices" in found:
        parts |= {f"{found['slices']['key']} = {value}": part for value, part in found["slices"]["values"].items()}
    for name, part in parts.items():
        ends = part["bounds"]
        table.add_row(
            escape(name),
            f"{part['n_scored']}\n[dim]{part['n_total']}[/dim]",
            str(part["n_failed"]),
            estimate(part["mean_score"]),
            "" if ends is None else f"{ends['low']:.2f} / {ends['high']:.2f}",
        )
    yield table
    if found["self_consistency"]["value"] is not None:
        steady = plain_table("Repeats", "Mean vote share", "Unstable cases %")
        for name, part in parts.items():
            figures = (estimate(part["self_consistency"]), estimate(part["unstable"], share=True))
            steady.add_row(escape(name), *figures)
        yield steady
    labels = plain_table("Label", "Share %")
    fixed = found["corrected"]
    if fixed is not None:
        labels.add_column("Rogan-Gladen %", justify="right")
        labels.add_column("PPI++ %", justify="right")
    for name, share in found["labels"].items():
        row = [escape(name), estimate(share, share=True)]
        if fixed is not None:
            row += [estimate(fixed["labels"][name][way], share=True) for way in ("rogan_gladen", "ppi_plus_plus")]
        labels.add_row(*row)
    yield labels


def comparison_table(found: Mapping[str, Any]) -> "Table":
    """The difference of two runs, and of their slices."""
    from rich.markup import escape

    table = plain_table(
        title=escape(f"{found['b']['run']} minus {found['a']['run']}: {found['n_paired']} cases scored in both")
    )
    for name in ("Part", "Pairs", "Difference", "Wins / losses / ties", "Verdict"):
        table.add_column(name)
    parts = {"all": {**found["difference"], "verdict": found["verdict"]}}
    if "slices" in found:
        parts |= {f"{found['slices']['key']} = {value}": part for value, part in found["slices"]["values"].items()}
    for name, part in parts.items():
        table.add_row(
            escape(name),
            str(part["mean"]["n"]),
            estimate(part["mean"]),
            f"{part['wins']} / {part['losses']} / {part['ties']}",
            part["verdict"],
        )
    return table
