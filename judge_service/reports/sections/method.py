"""Section: how the figures were made, so that a reader can repeat them. Owns the words of the definitions."""

from typing import Any

from calibration.resample import DEFAULT_RESAMPLES, DEFAULT_SEED
from judge_service import __version__
from judge_service.reports.dataset import Dataset, JudgeColumn

ID = "method"
TITLE = "How this was computed"


_COMMON = (
    """Agreement: cases on which the judge gave the label that people gave, of all labelled cases. A case without a
    verdict counts as not agreeing; no case is left out.""",
    f"""Interval: 95%, Wilson; where cases share a group (a document, a conversation), a bootstrap that draws whole
    groups, {DEFAULT_RESAMPLES:,} times with seed {DEFAULT_SEED}. With fewer than 10 groups none is given.""",
    """Kappa: Cohen's kappa over the cases with a verdict; 1 perfect, 0 chance. Where it cannot be computed the reason
    is given instead of a number.""",
    "An undefined figure is never shown as 0, and a failure is never counted as a verdict.",
)
_PAIRS = (
    """Every pair is judged in both orders. A judge that folds both orders gives a win only if the same answer wins
    twice; two ties are a tie; anything else is inconsistent. A judge that averages probabilities names the answer
    with the higher mean.""",
    """Same in both orders: pairs whose two orders name the same answer, of the pairs with two verdicts. First shown:
    verdicts for the answer shown first, of all verdicts that are no tie; 50% without a preference.""",
)


def _definitions(dataset: Dataset) -> list[str]:
    lines = _COMMON + (_PAIRS if dataset.rubric.kind == "pairwise" else ())
    return [" ".join(line.split()) for line in lines]


def _judge(column: JudgeColumn) -> dict[str, Any]:
    made = [judgment for judgment in column.judgments if judgment is not None]
    return {
        "judge": column.judge.name,
        "backend": column.judge.backend,
        "description": column.judge.description,
        "models": sorted({judgment.model for judgment in made}),
        "enforcement": sorted({judgment.enforcement.value for judgment in made}),
        "order_policy": column.judge.order_policy.value,
        "judge_hash": sorted({judgment.judge_hash for judgment in made}),
    }


def build(dataset: Dataset) -> dict[str, Any]:
    """Definitions in words, versions and hashes, and each judge as it was configured."""
    return {
        "definitions": _definitions(dataset),
        "source": dataset.source,
        "rubric": dataset.rubric.id,
        "rubric_hash": dataset.rubric.content_hash,
        "score_rule": dataset.rubric.rules.score,
        "length_policy": dataset.rubric.rules.length_policy,
        "seed": DEFAULT_SEED,
        "resamples": DEFAULT_RESAMPLES,
        "program": __version__,
        "judges": [_judge(column) for column in dataset.columns],
    }
