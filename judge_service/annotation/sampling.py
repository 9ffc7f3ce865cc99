"""Which cases are labelled: drawn with probabilities that are stored with the labels, so that estimates stay valid.

Owns the weights of uncertainty and the draw. Source: Horvitz and Thompson 1952; systematic sampling with unequal
probabilities, Madow 1949, over a random order.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judge_service.domain.calibration_set import SetCase
from judge_service.domain.judgment import Judgment
from judge_service.domain.outcome import Outcome
from judge_service.store import Store
from rubrics.model import Rubric

BASE = 1.0
"""Weight of a case about which nothing speaks: never zero, so that every case has a probability."""
LOW_CONFIDENCE = 2.0
"""Added in full at confidence 0, not at all at 1."""
ORDERS_DISAGREE = 2.0
JUDGES_DISAGREE = 2.0
THUMBS_DOWN = 3.0
"""Added for a judgment that a user of the product marked as bad."""
_DOWN = frozenset({"down", "thumbs_down", "bad", "negative", "-1", "0", "false"})


@dataclass(frozen=True, slots=True)
class Drawn:
    """A case that was drawn, with the probability it had (null where nothing was drawn)."""

    case_id: str
    probability: float | None


def draw_cases(
    store: Store,
    rubric: Rubric[Any],
    entries: Sequence[SetCase],
    n: int,
    *,
    uncertain: bool,
    drawn: random.Random,
) -> list[Drawn]:
    """`n` of the cases. With `uncertain` the judgments of the cases weigh in. 1 <= n <= number of cases."""
    weights = [BASE] * len(entries)
    if uncertain:
        made = store.judgments.of_cases(rubric.content_hash, (entry.case.content_hash for entry in entries))
        weights = [weight(made.get(entry.case.content_hash, ())) for entry in entries]
    return draw([(entry.case.id, each) for entry, each in zip(entries, weights, strict=True)], n, drawn)


def weight(judgments: Iterable[Judgment], feedback: str | None = None) -> float:
    """How much a case is worth a look: at least `BASE`."""
    found = BASE
    judgments = list(judgments)
    known = [one.confidence.value for one in judgments if one.confidence is not None]
    if known:
        found += LOW_CONFIDENCE * (1 - min(known))
    if any(one.outcome is Outcome.INCONSISTENT for one in judgments):
        found += ORDERS_DISAGREE
    if len({one.label for one in judgments if one.outcome is Outcome.SCORED}) > 1:
        found += JUDGES_DISAGREE
    if feedback is not None and feedback.strip().casefold() in _DOWN:
        found += THUMBS_DOWN
    return found


def feedback_of(metadata: Mapping[str, Any]) -> str | None:
    """What a user of the product said, from the case's metadata `feedback` or `thumbs`."""
    for name in ("feedback", "thumbs"):
        if metadata.get(name) is not None:
            return str(metadata[name])
    return None


def probabilities(weights: Sequence[float], n: int) -> list[float]:
    """Inclusion probabilities proportional to `weights`, none above 1, with sum `n`. 1 <= n <= len(weights)."""
    if not 1 <= n <= len(weights) or any(weight <= 0 for weight in weights):
        raise ValueError("n lies between 1 and the number of weights, which are above 0")
    sure: set[int] = set()
    while True:
        rest = sum(weight for place, weight in enumerate(weights) if place not in sure)
        factor = (n - len(sure)) / rest if rest else 0.0
        more = {place for place, weight in enumerate(weights) if place not in sure and weight * factor >= 1}
        if not more:
            return [1.0 if place in sure else weight * factor for place, weight in enumerate(weights)]
        sure |= more


def draw(weighted: Sequence[tuple[str, float]], n: int, drawn: random.Random) -> list[Drawn]:
    """`n` cases with probabilities proportional to their weights, each at most once, with the probability it had."""
    shares = probabilities([weight for _, weight in weighted], n)
    order = list(range(len(weighted)))
    drawn.shuffle(order)
    mark = drawn.random()
    passed = 0.0
    chosen: list[Drawn] = []
    for place in order:
        passed += shares[place]
        # Rounding may leave the last mark just above the sum.
        if passed > mark or (len(chosen) < n and place == order[-1]):
            chosen.append(Drawn(weighted[place][0], shares[place]))
            mark += 1
    return chosen
