"""What pairwise@1 reads, lets a judge write, publishes and asks of people."""

from typing import Annotated, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

from rubrics.records import CaseInput, DecodingModel, HumanLabel, Outcome, Record, Slot

Winner = Literal["A", "B", "tie"]
VERDICTS: tuple[Winner, ...] = ("A", "B", "tie")
SLOTS: tuple[Slot, ...] = ("first", "second", "tie")
RATIONALE_LENGTH = 300
_A: Winner = "A"
_B: Winner = "B"


class PairwiseCase(CaseInput):
    """A prompt and two answers to it. `question`, `answer_a` and `answer_b` are accepted as other spellings."""

    prompt: str = Field(validation_alias=AliasChoices("prompt", "question"))
    response_a: str = Field(validation_alias=AliasChoices("response_a", "answer_a"))
    response_b: str = Field(validation_alias=AliasChoices("response_b", "answer_b"))


class Comparison(DecodingModel):
    """A judge's reply to one order: the letters name the answers as shown, not as the caller named them."""

    rationale: Annotated[str, Field(max_length=RATIONALE_LENGTH)]
    verdict: Winner


class OrderReading(BaseModel):
    """What one presentation order said: `slot` by position, `verdict` in the caller's frame.

    `probabilities` are those of the slots, sum 1; null where the judge model gives none. `mass` is the share of raw
    token probability that fell on the allowed verdicts.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    slot: Slot
    verdict: Winner
    rationale: str | None = None
    probabilities: dict[Slot, Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]] | None = None
    mass: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _probabilities_are_complete(self) -> "OrderReading":
        if self.probabilities is not None:
            if not set(self.probabilities) >= {"first", "second"}:
                raise ValueError("probabilities need both positions")
            if abs(sum(self.probabilities.values()) - 1) > 1e-6:
                raise ValueError("probabilities must sum to 1")
        return self


class PairwiseRecord(Record):
    """The folded comparison of a pair, with both raw readings, so that any order policy can be read from it.

    `verdict` is null unless the outcome is `scored`. `probability_a` is the mean probability that A is better, a tie
    counted half, over the orders that have probabilities.
    """

    outcome: Outcome
    verdict: Winner | None
    policy: str
    ab: OrderReading | None
    ba: OrderReading | None
    probability_a: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _no_contradiction(self) -> "PairwiseRecord":
        if self.outcome is Outcome.NOT_APPLICABLE:
            raise ValueError("a pair without anything to judge has no record")
        if (self.outcome is Outcome.SCORED) != (self.verdict is not None):
            raise ValueError("exactly the outcome `scored` has a verdict")
        for reading, first in ((self.ab, _A), (self.ba, _B)):
            if reading is not None and reading.verdict != _named(reading.slot, first):
                raise ValueError("a reading's verdict is not the answer that stood in its slot")
        readings = [reading for reading in (self.ab, self.ba) if reading is not None]
        if self.probability_a is not None:
            mean = self._mean_of_a()
            if mean is None or abs(mean - self.probability_a) > 1e-6:
                raise ValueError("probability_a must be the mean of P(A) + P(tie) / 2 over the orders that have them")
        if self.outcome is Outcome.SCORED and not readings:
            raise ValueError("a verdict needs an order that was judged")
        self._check_policy()
        return self

    def _check_policy(self) -> None:
        ab, ba = self.ab and self.ab.verdict, self.ba and self.ba.verdict
        if self.outcome is Outcome.INCONSISTENT and (ab is None or ba is None or ab == ba):
            raise ValueError("`inconsistent` needs two orders that disagree")
        if self.outcome is not Outcome.SCORED:
            return
        if self.policy == "both_orders" and not ab == ba == self.verdict:
            raise ValueError("under both_orders a verdict is what both orders say")
        if self.policy == "single_ab" and (self.ba is not None or ab != self.verdict):
            raise ValueError("under single_ab the verdict is that of order AB, the only one asked")
        if self.policy == "single_ba" and (self.ab is not None or ba != self.verdict):
            raise ValueError("under single_ba the verdict is that of order BA, the only one asked")
        if self.policy == "single_drawn" and ((ab is None) == (ba is None) or self.verdict not in (ab, ba)):
            raise ValueError("under single_drawn the verdict is that of the one order asked")
        if self.policy == "average_probability":
            if self.probability_a is None or ab is None or ba is None:
                raise ValueError("average_probability needs both orders and their probability")
            lead = self.probability_a - 0.5
            if (self.verdict == "A" and lead < -1e-6) or (self.verdict == "B" and lead > 1e-6):
                raise ValueError("the verdict contradicts probability_a")

    def _mean_of_a(self) -> float | None:
        credit = {"A": 1.0, "tie": 0.5, "B": 0.0}
        shares = [
            sum(share * credit[_named(slot, first)] for slot, share in reading.probabilities.items())
            for reading, first in ((self.ab, _A), (self.ba, _B))
            if reading is not None and reading.probabilities is not None
        ]
        return sum(shares) / len(shares) if shares else None


def _named(slot: Slot, first: Winner) -> Winner:
    if slot == "tie":
        return "tie"
    return first if slot == "first" else ("B" if first == "A" else "A")


class PairwiseLabel(HumanLabel):
    """A person's answer: the better answer in the caller's frame, a tie, or that it cannot be said."""

    label: Literal["A", "B", "tie", "cannot_say"]
