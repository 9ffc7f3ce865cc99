"""A run report as titles, sentences and tables of text: what the page, the Markdown and the terminal all show.

Owns how a figure is written and in which order things come. Reads the report object only and computes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from judge_service.reports.render import OUTCOMES, reason_text


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure: what is written large, the lines below it, and whether it is words instead of a number."""

    text: str
    sub: tuple[str, ...] = ()
    words: bool = False


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: the first column names the row. `note` explains it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """A section: an id, a title, sentences, tables, and cases by kind of change."""

    id: str
    title: str
    sentences: tuple[str, ...] = ()
    grids: tuple[Grid, ...] = ()
    examples: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)


def number(value: float, *, share: bool = False, signed: bool = False) -> str:
    """A share in percent with one decimal, any other value with three; `signed` with + or a minus sign."""
    shown = f"{value * 100:.1f}" if share else f"{value:.3f}"
    if float(shown) == 0:
        shown = shown.lstrip("-")
    elif signed and value > 0:
        shown = f"+{shown}"
    return shown.replace("-", "−")


def figure(estimate: Mapping[str, Any] | None, *, share: bool = False, signed: bool = False) -> Cell:
    """An estimate with its interval and n, or the sentence that says why there is none."""
    if estimate is None:
        return Cell("Not measured", words=True)
    if estimate["value"] is None:
        return Cell("Cannot be computed", (reason_text(estimate["undefined_reason"]),), words=True)
    between = interval(estimate, share=share, signed=signed)
    if between is None:
        code = estimate.get("interval_reason") or "not_estimated"
        between = "" if code == "not_estimated" else f"no interval: {reason_text(code)[:-1].lower()}"
    lines = (between, f"n = {estimate['n']}")
    return Cell(number(estimate["value"], share=share, signed=signed), tuple(line for line in lines if line))


def interval(estimate: Mapping[str, Any], *, share: bool = False, signed: bool = False) -> str | None:
    """`low to high`, or None where there is no interval."""
    if estimate["low"] is None:
        return None
    ends = (number(estimate[end], share=share, signed=signed) for end in ("low", "high"))
    return " to ".join(ends)


def in_words(estimate: Mapping[str, Any], *, signed: bool = False) -> str:
    """An estimate in a sentence: `0.840 (0.801 to 0.872, n = 412)`."""
    if estimate["value"] is None:
        return f"cannot be computed: {reason_text(estimate['undefined_reason'])[:-1].lower()}"
    between = interval(estimate, signed=signed)
    if between is None:
        between = f"no interval: {reason_text(estimate.get('interval_reason') or 'not_estimated')[:-1].lower()}"
    return f"{number(estimate['value'], signed=signed)} ({between}, n = {estimate['n']})"


def headline(report: Mapping[str, Any]) -> str:
    """The one sentence that comes first."""
    comparison = report["comparison"]
    if comparison is None:
        numbers = report["numbers"]
        if not numbers["n_scored"]:
            return f"Nothing was scored: {numbers['n_total']} cases, no score."
        counts = f"{numbers['n_scored']} of {numbers['n_total']} cases scored"
        return f"Mean score {in_words(numbers['mean_score'])}; {counts}."
    if not comparison["comparable"]:
        return f"{comparison['headline']}."
    mean = comparison["decisive"]
    words = {
        "better": "Higher score than" if report["scale"]["higher_is_better"] else "Lower, so better, score than",
        "worse": "Lower score than" if report["scale"]["higher_is_better"] else "Higher, so worse, score than",
        "not separated": "Not separated from",
        "not enough evidence": "Not enough evidence to tell from",
    }[comparison["verdict"]]
    return f"{words} {comparison['a']['run']}: difference {in_words(mean, signed=True)}."


def outline(report: Mapping[str, Any]) -> list[Part]:
    """The parts of a report in their order: the comparison first, where there is one."""
    parts = [] if report["comparison"] is None else [_comparison(report)]
    numbers = report["numbers"]
    parts += [_outcomes(report), _scores(report)]
    if numbers["corrected"] is not None or numbers["labels"]:
        parts.append(_labels(report))
    parts += [_slice(found) for found in report["slices"]]
    parts += [_consistency(report), _cost(report), _judge(report)]
    return parts


def _text(value: Any) -> Cell:
    return Cell(str(value), words=True)


def _count(value: int | None) -> Cell:
    return Cell("Not reported", words=True) if value is None else Cell(f"{value:,}")


def outcome_words(outcome: str) -> str:
    """The word of an outcome, with its mark."""
    mark, word, _ = OUTCOMES[outcome]
    return f"{mark} {word}"


def ending_words(outcome: str, reason: str | None) -> str:
    """An outcome with its reason."""
    return outcome_words(outcome) + (f": {reason.replace('_', ' ')}" if reason else "")


def _outcomes(report: Mapping[str, Any]) -> Part:
    numbers = report["numbers"]
    total = numbers["n_total"]
    rows = tuple(
        (_text(outcome_words(name)), _count(count), Cell(number(count / total, share=True)))
        for name, count in numbers["outcomes"].items()
        if count
    )
    failures = tuple(
        (
            _text(
                outcome_words(entry["outcome"]) + (f": {entry['reason'].replace('_', ' ')}" if entry["reason"] else "")
            ),
            _count(entry["n"]),
            _text(entry["fix"]),
        )
        for entry in report["failures"]
    )
    grids = [Grid("Outcomes", ("Outcome", "Cases", "% of cases"), rows)]
    if failures:
        grids.append(Grid("What has no score, and what to do", ("Outcome", "Cases", "What to do"), failures))
    coverage = figure(numbers["coverage"], share=True)
    said = f"{numbers['n_scored']} of {total} cases have a score ({coverage.text}%)."
    return Part("outcomes", "How the cases ended", (said if total else "The run has no cases.",), tuple(grids))


def _ends(bounds: Mapping[str, Any] | None, *, signed: bool = False) -> Cell:
    if bounds is None:
        return Cell("Not given", words=True)
    ends = " to ".join(number(bounds[end], signed=signed) for end in ("low", "high"))
    return Cell(ends, (f"n = {bounds['n']}",))


def _part_row(name: str, part: Mapping[str, Any]) -> tuple[Cell, ...]:
    return (
        _text(name),
        Cell(f"{part['n_scored']} of {part['n_total']}"),
        _count(part["n_failed"]),
        figure(part["mean_score"]),
        _ends(part["bounds"]),
    )


_MEAN_COLUMNS = ("Part", "Scored", "Failed", "Mean score", "If all failed were worst, best")


def _scores(report: Mapping[str, Any]) -> Part:
    numbers = report["numbers"]
    sentences = [
        f"Scores run from {report['scale']['minimum']:g} to {report['scale']['maximum']:g}; "
        + ("higher is better." if report["scale"]["higher_is_better"] else "lower is better.")
    ]
    rows = [_part_row("All cases", numbers)]
    if "by_enforcement" in numbers:
        sentences.append("The run holds verdicts of different enforcement, which are not averaged unless asked for.")
        rows += [
            (_text(f"enforcement {kind}"), _count(mean["n"]), _text("-"), figure(mean), _text("Not given"))
            for kind, mean in numbers["by_enforcement"].items()
        ]
    grid = Grid("Mean score", _MEAN_COLUMNS, tuple(rows), "Over scored cases. Failures are counted, never averaged.")
    return Part("scores", "Score", tuple(sentences), (grid,))


def _labels(report: Mapping[str, Any]) -> Part:
    numbers = report["numbers"]
    fixed = numbers["corrected"]
    rows = []
    for name, share in numbers["labels"].items():
        row = [_text(name), figure(share, share=True)]
        if fixed is not None:
            ways = ("rogan_gladen", "ppi_plus_plus", "labels_alone")
            row += [figure(fixed["labels"][name][way], share=True) for way in ways]
        rows.append(tuple(row))
    if fixed is None:
        sentence = "Not corrected for the judge's errors: no calibration in force supports this judge."
        return Part("labels", "Verdicts", (sentence,), (Grid("Verdicts", ("Verdict", "Judge says %"), tuple(rows)),))
    columns = ("Verdict", "Judge says %", "Rogan-Gladen %", "PPI++ %", "People alone %")
    sentences = (
        f"Corrected with calibration {fixed['calibration']} on {fixed['set']}: what people would have said.",
        f"Rogan-Gladen assumes: {fixed['assumptions']['rogan_gladen']}",
        f"PPI++ assumes: {fixed['assumptions']['ppi_plus_plus']}",
    )
    return Part("labels", "Verdicts, raw and corrected", sentences, (Grid("Verdicts", columns, tuple(rows)),))


def _slice(found: Mapping[str, Any]) -> Part:
    rows = tuple(_part_row(value, part) for value, part in found["values"].items())
    few = [value for value, part in found["values"].items() if part["no_verdict"]]
    sentences = [f"{found['without_key']} cases have no {found['key']}."] if found["without_key"] else []
    if few:
        sentences.append(f"Fewer than 30 scored cases, so no verdict: {', '.join(few)}.")
    title = f"By {found['key']}"
    return Part(f"by-{found['key']}", title, tuple(sentences), (Grid(title, _MEAN_COLUMNS, rows),))


def _consistency(report: Mapping[str, Any]) -> Part:
    numbers = report["numbers"]
    rows = (
        (_text("Mean vote share"), figure(numbers["self_consistency"])),
        (_text("Cases whose repeats differ, %"), figure(numbers["unstable"], share=True)),
    )
    sentence = "How far repeats of one judge say the same: a share of 1 is always. Votes of a panel are no repeats."
    return Part("repeats", "Repeats", (sentence,), (Grid("Repeats", ("Figure", "Value"), rows),))


def _cost(report: Mapping[str, Any]) -> Part:
    usage = report["usage"]

    def money(value: float | None) -> Cell:
        if value is None:
            return Cell("Not reported", words=True)
        return Cell(f"{value:.6f}" if abs(value) < 0.01 else f"{value:,.4f}")

    def time(estimate: Mapping[str, Any]) -> Cell:
        if estimate["value"] is None:
            return figure(estimate)
        return Cell(f"{estimate['value']:,.0f}", (f"n = {estimate['n']}",))

    rows = [
        (_text("Calls"), _count(usage["calls"])),
        (_text("of these from the cache"), _count(usage["cached_calls"])),
        (_text("of these failed"), _count(usage["failed_calls"])),
        (_text("of these second or later attempts"), _count(usage["further_attempts"])),
        (_text("Prompt tokens"), _count(usage["prompt_tokens"])),
        (_text("Completion tokens"), _count(usage["completion_tokens"])),
        (_text("Cost, US$"), money(usage["cost_usd"])),
        (_text("Cost per 1,000 cases, US$"), money(usage["cost_per_1000_usd"])),
        *((_text(f"Time per case, {name}, ms"), time(found)) for name, found in usage["latency_ms"].items()),
    ]
    sentences = []
    if usage["reused"]:
        sentences.append(f"{usage['reused']} judgments were made before this run: their cost was not paid again.")
    if usage["cost_usd"] is not None and usage["cost_known_of"] < usage["n_judged"]:
        sentences.append(f"The cost of {usage['n_judged'] - usage['cost_known_of']} judgments is not known.")
    return Part("cost", "Cost and time", tuple(sentences), (Grid("Cost and time", ("Figure", "Value"), tuple(rows)),))


def _short(hashes: Sequence[str]) -> str:
    return ", ".join(one[:12] for one in hashes) or "not known: nothing was judged"


def _judge(report: Mapping[str, Any]) -> Part:
    run, numbers = report["run"], report["numbers"]
    trust = [
        (f"Trust{'' if found['model'] is None else ' in ' + found['model']}", f"{found['level']}: {found['reason']}")
        for found in report["trust"]
    ]
    rows = [
        ("Run", run["id"]),
        ("State", run["status"].replace("_", " ") + (f": {run['message']}" if run["message"] else "")),
        ("Source", run["source"] or "not named"),
        ("Rubric", f"{run['rubric']}, content {run['rubric_hash'][:12]}"),
        ("Judge", f"{run['judge']}, configuration {_short(run['judge_hashes'])}"),
        ("Backend", run["backend"]),
        ("Model as reported", ", ".join(numbers["models"]) or "no case was scored"),
        ("Order policy", run["order_policy"]),
        ("Enforcement", ", ".join(f"{name} {n}" for name, n in numbers["enforcement"].items()) or "no case was scored"),
        ("Made", run["created_at"]),
        ("Ended", run["finished_at"] or "not yet"),
        *trust,
    ]
    grid = Grid("How it was made", ("Fact", "Value"), tuple((_text(name), _text(value)) for name, value in rows))
    return Part("method", "How it was made", (), (grid,))


def _comparison(report: Mapping[str, Any]) -> Part:
    found = report["comparison"]
    if not found["comparable"]:
        return Part("comparison", "Comparison", (f"{found['headline']}.", *found["differences"]))
    a, b = found["a"], found["b"]
    difference, apart = found["difference"], found["inconsistent"]
    columns = ("Part", "Pairs", "Difference of scores", "Wins", "Losses", "Ties", "Verdict")

    def row(name: str, part: Mapping[str, Any], verdict: str) -> tuple[Cell, ...]:
        counts = (_count(part[kind]) for kind in ("wins", "losses", "ties"))
        return (_text(name), _count(part["mean"]["n"]), figure(part["mean"], signed=True), *counts, _text(verdict))

    rows = [row("All common cases", difference, found["verdict"])]
    if "slices" in found:
        key = found["slices"]["key"]
        rows += [row(f"{key} = {value}", part, part["verdict"]) for value, part in found["slices"]["values"].items()]
    sides = []
    for name, side, mean in (("Before", a, found["mean_a"]), ("This run", b, found["mean_b"])):
        lost = ", ".join(f"{kind.replace('_', ' ')} {n}" for kind, n in side["left_out"]["not_scored"].items())
        sides.append(
            (
                _text(name),
                _text(f"{side['run']}, {side['judge']}"),
                figure(mean),
                _count(side["left_out"]["not_in_the_other"]),
                _text(lost or "none"),
            )
        )
    sentences = [
        f"{found['n_paired']} of the {found['n_common']} common cases were scored in both runs.",
        *found["mixed"],
        *found["notes"],
    ]
    if any(apart.values()):
        sentences.append(
            f"Orders disagree in both runs on {apart['both']} cases, before only on {apart['only_a']}, "
            f"in this run only on {apart['only_b']}."
        )
    grids = [
        Grid("Difference", columns, tuple(rows), "This run minus the one before, on the same cases."),
        Grid(
            "Left out on each side",
            ("Side", "Run, judge", "Mean score of the pairs", "Not in the other run", "In both, without a score"),
            tuple(sides),
        ),
        Grid(
            "If all failed cases had been worst or best",
            ("Figure", "Difference of scores"),
            ((_text("All common cases"), _ends(found["bounds"], signed=True)),),
        ),
    ]
    if "pass_rate_difference" in found:
        tests = (
            (_text("Difference of pass rates (Bonett-Price)"), figure(found["pass_rate_difference"], signed=True)),
            (_text("McNemar, exact p"), figure(found["mcnemar"])),
        )
        grids.append(Grid("Pass rates", ("Figure", "Value"), tests))
    if a["corrected"] is not None or b["corrected"] is not None:
        grids.append(_corrected_sides(a, b))
    return Part("comparison", f"Against {a['run']}", tuple(sentences), tuple(grids), found["examples"])


def _corrected_sides(a: Mapping[str, Any], b: Mapping[str, Any]) -> Grid:
    rows = []
    for name, side in (("Before", a), ("This run", b)):
        if side["corrected"] is None:
            rows.append((_text(name), *(_text("No calibration") for _ in range(4))))
            continue
        for label, ways in side["corrected"]["labels"].items():
            shares = (figure(ways[way], share=True) for way in ("raw", "rogan_gladen", "ppi_plus_plus"))
            rows.append((_text(name), _text(label), *shares))
    columns = ("Side", "Verdict", "Judge says %", "Rogan-Gladen %", "PPI++ %")
    return Grid("Verdicts, raw and corrected", columns, tuple(rows))
