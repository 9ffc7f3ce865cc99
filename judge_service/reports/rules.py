"""The rules on which sources differ when judges are measured, and how they are checked. Computes nothing."""

from dataclasses import dataclass
from typing import Literal

from calibration.resample import DEFAULT_RESAMPLES, DEFAULT_SEED
from judge_service.errors import FieldProblem, InvalidInput
from judge_service.reports.dataset import Dataset, key_value


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules on which sources differ. The first value of each is the product's own.

    `failures`: a case without a verdict is `wrong`, or counts as a `tie`, or is `left_out`. `inconsistent`: a pair
    whose orders disagree does `not_agree`, or counts as a `tie`. `positive` is the label that a threshold decides
    about (the last of an ordered scale by default); the threshold with the best F1 is chosen on the cases of
    `threshold_from` (`key=value`), else on the cases themselves. `target` is the agreement that a usable threshold of
    confidence must reach. `epsilon` is that of the annotator test. `families` are `PART=FAMILY`: the family
    of the models whose names hold this part, before the known ones.
    """

    failures: Literal["wrong", "tie", "left_out"] = "wrong"
    inconsistent: Literal["not_agree", "tie"] = "not_agree"
    positive: str | None = None
    threshold_from: str | None = None
    target: float = 0.9
    epsilon: float = 0.15
    families: tuple[str, ...] = ()
    resamples: int = DEFAULT_RESAMPLES
    seed: int = DEFAULT_SEED


def check_rules(dataset: Dataset, rules: Rules) -> None:
    """Raise InvalidInput for a rule that does not fit the rubric."""
    names = dataset.rubric.scale.names
    for field, value in (("failures", rules.failures), ("inconsistent", rules.inconsistent)):
        if value == "tie" and "tie" not in names:
            raise InvalidInput(fields=[FieldProblem(field, f"{dataset.rubric.id} has no label `tie`")])
    if rules.positive is not None and rules.positive not in names:
        raise InvalidInput(fields=[FieldProblem("positive", f"is none of {', '.join(names)}")])
    for entry in rules.families:
        if not key_value(entry, "family")[1]:
            raise InvalidInput(fields=[FieldProblem("family", f"{entry!r} is not PART=FAMILY")])
    if not 0 < rules.target < 1:
        raise InvalidInput(fields=[FieldProblem("target", "must lie between 0 and 1")])
