"""The one return type of a statistic, and the closed list of reasons why a value may be missing.

Owns the rules "a number has its n" and "undefined is null with a reason, never 0 or NaN". Knows no
particular statistic, and nothing of cases, rubrics or the service.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Mapping
from typing import Any


class InvalidStatisticInput(ValueError):
    """The arrays handed to a statistic break its contract (lengths, labels, NaN, ranges)."""


class Reason(enum.StrEnum):
    """Why a value, or only its interval, is null."""

    EMPTY = "empty"
    N_BELOW_2 = "n_below_2"
    ONE_CLASS = "one_class"
    NO_PAIRABLE_UNITS = "no_pairable_units"
    NO_DISCORDANT_PAIRS = "no_discordant_pairs"
    ALL_TIES = "all_ties"
    ZERO_VARIANCE = "zero_variance"
    SEPARATION = "separation"
    DISCONNECTED = "disconnected"
    UNEQUAL_RATERS = "unequal_raters"
    NO_CONFIDENCE = "no_confidence"
    SCORE_MASS_TOO_LOW = "score_mass_too_low"
    NO_POSITIVE_LABELS = "no_positive_labels"
    NO_NEGATIVE_LABELS = "no_negative_labels"
    JUDGE_NOT_BETTER_THAN_CHANCE = "judge_not_better_than_chance"
    TOO_FEW_GROUPS = "too_few_groups"
    TOO_FEW_LABELS = "too_few_labels"
    TOO_FEW_CASES = "too_few_cases"
    UNSTABLE_BOOTSTRAP = "unstable_bootstrap"
    # Not of the arithmetic but of what was measured.
    SINGLE_ORDER = "single_order"
    NOT_ORDERED = "not_ordered"
    NOT_ESTIMATED = "not_estimated"
    MIXED_CONDITIONS = "mixed_conditions"
    NO_REPEATS = "no_repeats"
    UNEQUAL_PROBABILITIES = "unequal_probabilities"


REASON_TEXT: Mapping[Reason, str] = {
    Reason.EMPTY: "there is nothing to count",
    Reason.NO_REPEATS: "no case was judged more than once",
    Reason.N_BELOW_2: "at least two cases are needed",
    Reason.ONE_CLASS: "only one class used",
    Reason.NO_PAIRABLE_UNITS: "no case has two ratings",
    Reason.NO_DISCORDANT_PAIRS: "no case on which the two sides differ",
    Reason.ALL_TIES: "no decided pair: every pair holds a tie",
    Reason.ZERO_VARIANCE: "all values are equal",
    Reason.SEPARATION: "the regression separates the classes, so its optimum is infinite",
    Reason.DISCONNECTED: "the systems are not connected by wins in both directions",
    Reason.UNEQUAL_RATERS: "cases have different numbers of raters",
    Reason.NO_CONFIDENCE: "no confidence was given",
    Reason.SCORE_MASS_TOO_LOW: "the known probabilities cover too little of the whole",
    Reason.NO_POSITIVE_LABELS: "no case of the positive side",
    Reason.NO_NEGATIVE_LABELS: "no case of the negative side",
    Reason.JUDGE_NOT_BETTER_THAN_CHANCE: "sensitivity + specificity is not above 1",
    Reason.TOO_FEW_GROUPS: "fewer than 10 independent groups",
    Reason.TOO_FEW_LABELS: "too few human labels",
    Reason.TOO_FEW_CASES: "too few cases for any change to be seen",
    Reason.UNSTABLE_BOOTSTRAP: "more than 5% of the resamples leave the value undefined",
    Reason.SINGLE_ORDER: "not measured: the pairs were judged in one order only",
    Reason.NOT_ORDERED: "the labels have no order",
    Reason.NOT_ESTIMATED: "no interval is defined for this value",
    Reason.UNEQUAL_PROBABILITIES: "not defined over cases that were drawn with unequal probabilities",
    Reason.MIXED_CONDITIONS: "made under different conditions, and nobody said that they may be averaged",
}
"""One sentence a reader can understand, for each reason."""


def finite(value: float | None) -> float | None:
    """Return `value` as a plain float, or None when it is missing, NaN or infinite."""
    if value is None:
        return None
    number = float(value)
    return number if math.isfinite(number) else None


@dataclasses.dataclass(frozen=True, slots=True)
class Estimate:
    """A value with what is needed to believe it.

    `value` is null exactly when `undefined_reason` is set. `low` and `high` are both set or both null; when the value
    is there but its interval is not, `interval_reason` says why. `n` counts the units the value rests on; `numerator`
    and `denominator` are given for rates. `method` names the convention of the value and its interval, `flags` what a
    reader must know (for example `constant_rater`), `details` the counts from which the value can be recomputed.
    No field ever holds NaN or infinity: constructing such an Estimate raises `InvalidStatisticInput`.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    method: str
    undefined_reason: Reason | None = None
    interval_reason: Reason | None = None
    numerator: float | None = None
    denominator: float | None = None
    level: float = 0.95
    flags: tuple[str, ...] = ()
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for name in ("value", "low", "high", "numerator", "denominator"):
            number = getattr(self, name)
            if number is not None:
                if not math.isfinite(number):
                    raise InvalidStatisticInput(f"{name} of an estimate is {number}")
                object.__setattr__(self, name, float(number))
        object.__setattr__(self, "details", plain(self.details))
        if (self.value is None) != (self.undefined_reason is not None):
            raise InvalidStatisticInput("an estimate has either a value or a reason why it has none")
        if (self.low is None) != (self.high is None):
            raise InvalidStatisticInput("an interval has both ends or none")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise InvalidStatisticInput(f"interval ends are the wrong way round: {self.low} > {self.high}")
        if self.value is None and self.low is not None:
            raise InvalidStatisticInput("an undefined value has no interval")

    @classmethod
    def undefined(cls, reason: Reason, n: int, method: str, **fields: Any) -> Estimate:
        """An estimate without a value; `fields` are further fields of the estimate."""
        return cls(None, None, None, n, method, undefined_reason=reason, **fields)

    @classmethod
    def point(cls, value: float, n: int, method: str, **fields: Any) -> Estimate:
        """A value for which no interval is defined (a p-value, a sample size, a descriptive score)."""
        return cls(value, None, None, n, method, interval_reason=Reason.NOT_ESTIMATED, **fields)

    @property
    def defined(self) -> bool:
        """Whether there is a value."""
        return self.value is not None

    def times(self, factor: float) -> Estimate:
        """The same estimate in another unit: value and interval multiplied by a positive `factor`."""
        if not factor > 0:
            raise InvalidStatisticInput("a change of unit needs a positive factor")

        def scaled(number: float | None) -> float | None:
            return None if number is None else number * factor

        return dataclasses.replace(self, value=scaled(self.value), low=scaled(self.low), high=scaled(self.high))

    def flagged(self, *flags: str) -> Estimate:
        """The same estimate with further flags."""
        return dataclasses.replace(self, flags=(*self.flags, *(flag for flag in flags if flag not in self.flags)))

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready object. Empty optional fields are left out; value, low, high and reason never are."""
        record: dict[str, Any] = {
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "n": self.n,
            "method": self.method,
            "undefined_reason": self.undefined_reason.value if self.undefined_reason else None,
        }
        if self.undefined_reason is not None:
            record["explanation"] = REASON_TEXT[self.undefined_reason]
        if self.interval_reason is not None:
            record["interval_reason"] = self.interval_reason.value
        if self.numerator is not None:
            record["numerator"] = self.numerator
        if self.denominator is not None:
            record["denominator"] = self.denominator
        if self.low is not None:
            record["level"] = self.level
        if self.flags:
            record["flags"] = list(self.flags)
        if self.details:
            record["details"] = dict(self.details)
        return record


def plain(value: Any) -> Any:
    """`value` in JSON's own types: estimates become objects, arrays lists, NaN and infinity null."""
    if isinstance(value, Estimate):
        return value.to_dict()
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return finite(value)
    return value
