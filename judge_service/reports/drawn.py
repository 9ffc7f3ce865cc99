"""Cases that were drawn for labelling with known probabilities: how many, how unevenly, and what figures are then over.

Owns the sentence that says which figures weigh the cases, and the mark on those that cannot.
"""

from collections.abc import Iterable
from typing import Any

from calibration.weighted import OVER_DRAWN, WEIGHTED, design_weights, effective_size
from judge_service.reports.dataset import LabelledItem


def drawn_cases(items: Iterable[LabelledItem], *, unreachable: int = 0) -> dict[str, Any] | None:
    """`{n, of, lowest, highest, uneven, effective_n, stands_for, unreachable, text}` over the labelled cases.

    None where none was drawn. The probability is the one stored with a label, else the one in the case's metadata; a
    case without either counts as 1. `uneven`: they differ, so that figures weigh the cases. `effective_n`: how many
    evenly drawn cases say as much (Kish); `stands_for`: how many cases they were drawn from, estimated by the sum of
    one over the probabilities; `unreachable` cases of these splits that no draw could have taken: no figure is about
    them.
    """
    found = [item.chance for item in items if item.label is not None]
    known = [chance for chance in found if chance is not None]
    if not known:
        return None
    chances = [1.0 if chance is None else chance for chance in found]
    lowest, highest = min(known), max(chances)
    weights = design_weights(chances)
    effective = effective_size(len(found), weights)
    stands_for = sum(1 / chance for chance in chances)
    text = f"{len(known)} of {len(found)} labelled cases were drawn, all with probability {lowest:.3g}."
    if weights is not None:
        text = (
            f"{len(known)} of {len(found)} labelled cases were drawn, with probabilities from {lowest:.3g} to "
            f"{highest:.3g}, so that some kinds of cases are here more often than they occur. Agreement weighs each "
            f"case by one over its probability: it is that of the about {stands_for:.0f} cases they were drawn from, "
            f"and as sure as {effective:.0f} evenly drawn cases would make it. Figures without a weighted form "
            "have no value, or are marked as of the drawn cases."
        )
    if unreachable:
        text += (
            f" {unreachable} {'case' if unreachable == 1 else 'cases'} could not have been drawn (of another split, or "
            "added later): nothing here is about them."
        )
    return {
        "n": len(known),
        "of": len(found),
        "lowest": lowest,
        "highest": highest,
        "uneven": weights is not None,
        "effective_n": effective,
        "stands_for": stands_for,
        "unreachable": unreachable,
        "text": text,
    }


def mark(data: Any) -> Any:
    """JSON-ready figures with the flag `over_drawn_cases` on each one that has a value and weighs no case.

    To be asked only where cases were drawn unevenly. A figure is an object with `value`, `n` and `method`.
    """
    if isinstance(data, list | tuple):
        return [mark(part) for part in data]
    if not isinstance(data, dict):
        return data
    found = {name: mark(part) for name, part in data.items()}
    if {"value", "n", "method"} <= set(found) and found["value"] is not None:
        method = str(found["method"])
        if not method.startswith(WEIGHTED):
            found["flags"] = [*dict.fromkeys((*found.get("flags", ()), OVER_DRAWN))]
    return found
