"""Floors that a judge does not meet, in words for people. The rules are `calibration.selection`'s."""

from calibration.estimate import Estimate
from calibration.selection import Floors, Miss


def floor_words(miss: Miss, answer: str | None) -> str:
    """One missed floor, to be read after "it"; `answer` is what the constant answer says."""
    low = _low(miss.found)
    needed = "" if miss.needed is None else f"{miss.needed * 100:.1f}%"
    return {
        "valid_rate": f"gave a usable reply to {_value(miss.found)} of the cases, under {needed}",
        "constant_answer": f"may agree on no more than {low}, which always answering {answer} reaches ({needed})",
        "agreement": f"may agree on no more than {low}, under the floor of {needed}",
        "kappa_null": "cannot be told from chance: kappa cannot be computed",
        "kappa": "may agree no better than chance: kappa's lower bound is not above 0",
        "tpr": f"may miss more than half of the cases of one label (it finds at least {low})",
        "tnr": f"may miss more than half of the cases of the other label (it finds at least {low})",
        "tpr_tnr": "may tell the two labels apart no better than chance",
    }[miss.code]


def fallen(rows: list[Floors], answer: str | None, *, most: int = 3) -> str | None:
    """Who fell to which floor, in one sentence; None where nobody did."""
    down = [row for row in rows if not row.met]
    if not down:
        return None
    parts = [f"{row.judge} {floor_words(row.missed[0], answer)}" for row in down[:most]]
    more = f"; and {len(down) - most} more" if len(down) > most else ""
    return f"Not offered: {'; '.join(parts)}{more}."


def _value(estimate: Estimate | None) -> str:
    return "no share" if estimate is None or estimate.value is None else f"{estimate.value * 100:.1f}%"


def _low(estimate: Estimate | None) -> str:
    return "an unknown share" if estimate is None or estimate.low is None else f"{estimate.low * 100:.1f}%"
