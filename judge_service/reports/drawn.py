"""Cases that were drawn for labelling with known probabilities: how many, how unevenly, and what figures are then over.

Figures of judges count each case once. Owns the sentence that says so where hard cases were drawn more often.
"""

from collections.abc import Iterable
from typing import Any

from judge_service.domain.calibration_set import drawn_with
from judge_service.reports.dataset import LabelledItem


def drawn_cases(items: Iterable[LabelledItem]) -> dict[str, Any] | None:
    """`{n, of, lowest, highest, uneven, text}` over the labelled cases; None where none was drawn.

    The probability is the one stored with a label, else the one in the case's metadata; a case without either counts
    as 1. `uneven`: they differ, so that unweighted figures are over the drawn cases and not over what they stand for.
    """
    found = [_probability(item) for item in items if item.label is not None]
    known = [chance for chance in found if chance is not None]
    if not known:
        return None
    lowest, highest = min(known), 1.0 if len(known) < len(found) else max(known)
    uneven = highest - lowest > 1e-9
    text = f"{len(known)} of {len(found)} labelled cases were drawn, all with probability {lowest:.3g}."
    if uneven:
        text = (
            f"{len(known)} of {len(found)} labelled cases were drawn, with probabilities from {lowest:.3g} to "
            f"{highest:.3g}, so that some kinds of cases are here more often than they occur. Every figure counts each "
            "case once and is over the drawn cases; estimates of the project weigh them."
        )
    return {
        "n": len(known),
        "of": len(found),
        "lowest": lowest,
        "highest": highest,
        "uneven": uneven,
        "text": text,
    }


def _probability(item: LabelledItem) -> float | None:
    stored = [label.probability for label in item.given if label.probability is not None]
    return min(stored) if stored else drawn_with(item.case.metadata)
