"""From the sections of a report to its charts: which section has which, and which judges are drawn.

Owns the choice of at most six judges. The shapes of sections are those that `reports.sections` documents.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from judge_service.reports.charts.agreement import agreement
from judge_service.reports.charts.cost import Priced, cost
from judge_service.reports.charts.figure import AT_MOST, Chart, JudgeMark, Table, Undefined, marks_of
from judge_service.reports.charts.order import Swapped, order
from judge_service.reports.charts.outcomes import outcomes
from judge_service.reports.charts.policies import Ordered, policies
from judge_service.reports.charts.reliability import AID, Stated, reliability, scales
from judge_service.reports.charts.risk import Kept, risk

Data = Mapping[str, Any]
Marks = Mapping[str, JudgeMark]

POLICIES = {
    "swap_tie": "both orders",
    "swap_average": "average of both",
    "ab_only": "A first",
    "ba_only": "B first",
    "random_order": "one, by chance",
    "both_orders": "both orders",
    "average_probability": "average of both",
    "single_ab": "A first",
    "single_ba": "B first",
    "single_drawn": "one, by chance",
}
"""Ways of ordering two answers in words that fit beside a chart."""


def drawn(report: Data) -> list[str]:
    """The judges that charts show, in the report's order: at most six.

    All with a model where they are no more; else those that the decision names and leads with, then the others by
    agreement. Under 30 labels nothing is ranked: the first six.
    """
    sections = {section["id"]: section["data"] for section in report["sections"]}
    rows = sections["judges"]["judges"]
    models = [row for row in rows if not row["baseline"]] or rows
    names = [row["judge"] for row in models]
    if len(names) <= AT_MOST:
        return names
    if report["facts"]["labelled"] < 30:
        return names[:AT_MOST]
    decision = report["decision"]
    first = [*decision["judges"], *decision["leading"]]
    value = {row["judge"]: row["agreement"]["value"] for row in models}
    ranked = sorted(names, key=lambda name: -1.0 if value[name] is None else value[name], reverse=True)
    kept = set(list(dict.fromkeys([*(name for name in first if name in value), *ranked]))[:AT_MOST])
    return [name for name in names if name in kept]


def charts_of(report: Data) -> dict[str, list[Chart]]:
    """The charts of one report by the id of their section, for the judges of `drawn`."""
    marks = marks_of(drawn(report))
    found: dict[str, list[Chart]] = {}
    for section in report["sections"]:
        make = _MAKERS.get(section["id"])
        if make is not None:
            found[section["id"]] = make(section["data"], marks)
    if "cost" in found:
        people = next((s["data"]["people"] for s in report["sections"] if s["id"] == "agreement"), None)
        data = next(s["data"] for s in report["sections"] if s["id"] == "cost")
        found["cost"] = [_cost(data, marks, None if people is None else people["s1"])]
    return found


def _rows(data: Data, marks: Marks) -> list[tuple[JudgeMark, Data]]:
    """The rows of the judges that are drawn, in the order of their marks."""
    by_name = {row["judge"]: row for row in data["judges"]}
    return [(mark, by_name[name]) for name, mark in marks.items() if name in by_name]


def _agreement(data: Data, marks: Marks) -> list[Chart]:
    rows = _rows(data, marks)
    constant = data["constant"]
    named = None
    if constant["answer"] is not None:
        named = (f"Always {constant['answer']}", constant["agreement"])
    single = [None if row["single_labels"] is None else row["single_labels"]["s1"] for _, row in rows]
    return [
        agreement(
            [(mark, row["raw"]) for mark, row in rows],
            n=data["n"],
            people=data["people"]["s1"],
            constant=named,
            floor=data["floor"],
            single=single,
        )
    ]


def _order(data: Data, marks: Marks) -> list[Chart]:
    rows = _rows(data, marks)
    swapped = [
        Swapped(
            mark,
            row["pairs"] if row["measured"] else 0,
            row["to_first"],
            row["to_second"],
            row["consistency"],
            row["noise"]["value"],
        )
        for mark, row in rows
    ]
    compared = [
        Ordered(mark, POLICIES.get(one["policy"], one["policy"]), one["versus_random"], one["verdict"])
        for mark, row in rows
        for one in row["policies"]
        if one["versus_random"] is not None
    ]
    return [order(swapped), *([policies(compared)] if compared else [])]


def _outcomes(data: Data, marks: Marks) -> list[Chart]:
    return [outcomes([(mark, row["counts"]) for mark, row in _rows(data, marks)], n=data["n"])]


def _confidence(data: Data, marks: Marks) -> list[Chart]:
    rows = _rows(data, marks)
    stated = [
        Stated(mark, row["bins"], row["ece"], row["brier"], row["source"].replace("_", " "))
        for mark, row in rows
        if row["measured"]
    ]
    least = scales(stated)
    panels = [reliability(one, least) for one in stated]
    silent = [(mark, row) for mark, row in rows if not row["measured"]]
    if silent:
        panels.append(_without_confidence(silent))
    return panels


def _without_confidence(silent: Sequence[tuple[JudgeMark, Data]]) -> Chart:
    """One frame for all judges that state no confidence: the same sentence six times helps nobody."""
    names = ", ".join(mark.label for mark, _ in silent)
    missing = Undefined(
        "Not measured",
        silent[0][1]["text"],
        "Use a judge whose backend gives token probabilities, or set its confidence to verbalised.",
    )
    table = Table(("Judge", "Reason"), tuple((mark.name, row["text"]) for mark, row in silent))
    title = names if len(silent) == 1 else f"{len(silent)} judges without a confidence"
    return Chart(
        "reliability-none", title, AID if len(silent) == 1 else names, f"{names}: no confidence.", table, None, missing
    )


def _threshold(data: Data, marks: Marks) -> list[Chart]:
    kept = []
    for mark, row in _rows(data, marks):
        usable = row["usable"]
        bound = usable["guaranteed"]
        agreed = usable["agreement"]
        kept.append(
            Kept(
                mark,
                row["curve"],
                usable["threshold"],
                usable["coverage"],
                None if agreed is None else 1 - agreed,
                None if bound is None else 1 - bound,
            )
        )
    return [risk(kept, n=data["n"], target=1 - data["target"])]


def _cost(data: Data, marks: Marks, people: Data | None) -> Chart:
    rows = _rows(data, marks)
    return cost(
        [Priced(mark, row["cost_per_1000"], row["text"] or "Not measured.", row["agreement"]) for mark, row in rows],
        people=people,
    )


_MAKERS: Mapping[str, Callable[[Data, Marks], list[Chart]]] = {
    "agreement": _agreement,
    "order": _order,
    "outcomes": _outcomes,
    "confidence": _confidence,
    "threshold": _threshold,
    "cost": lambda data, marks: [_cost(data, marks, None)],
}
