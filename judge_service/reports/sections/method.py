"""Section: how the figures were made, so that a reader can repeat them. Owns the words of the definitions."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from judge_service import __version__
from judge_service.reports.dataset import JudgeColumn
from judge_service.reports.study import Study

ID = "method"
TITLE = "How this was computed"


_COMMON = (
    """Agreement: cases on which the judge gave the label that people gave, of all labelled cases. A case without a
    verdict counts as not agreeing; no case is left out.""",
    """Interval: 95%, Wilson for shares of cases; where cases share a group (a document, a conversation), and for kappa
    and its kin, a percentile bootstrap that draws whole groups, the same draws for all judges and figures. With fewer
    than 10 groups none is given.""",
    """Kappa: Cohen's kappa over the cases with a verdict; 1 perfect, 0 chance. Where it cannot be computed the reason
    is given instead of a number.""",
    """Comparisons: the leader against each other judge on the same cases, exact McNemar test, Holm over these
    comparisons. Overlapping intervals prove nothing; the paired difference decides.""",
    """ECE: cases in bins of equal width, the case-weighted gap of stated confidence and agreement; beside it what a
    judge whose every confidence is true would show with these confidences by chance.""",
    """Threshold: the lowest of a grid fixed beforehand whose share of wrong verdicts has a one-sided exact upper bound
    under the target, corrected for the number of thresholds.""",
    """Two people: all pairs of labels of one case. A judge is held beside it with its agreement with single labels,
    since a majority of people is less noisy than one person.""",
    "An undefined figure is never shown as 0, and a failure is never counted as a verdict.",
)
_PAIRS = (
    """Every pair is judged in both orders. A judge that folds both orders gives a win only if the same answer wins
    twice; two ties are a tie; anything else is inconsistent. A judge that averages probabilities names the answer
    with the higher mean.""",
    """Same in both orders: pairs whose two orders name the same answer, of the pairs with two verdicts. First shown:
    verdicts for the answer shown first, of all verdicts that are no tie; 50% without a preference.""",
)


_PACKAGES = ("numpy", "scipy", "scikit-learn", "statsmodels")


def _definitions(study: Study) -> list[str]:
    lines = _COMMON + (_PAIRS if study.pairs else ())
    return [" ".join(line.split()) for line in lines]


def _judge(column: JudgeColumn, runs: Sequence[str]) -> dict[str, Any]:
    made = [judgment for judgment in column.judgments if judgment is not None]
    return {
        "judge": column.judge.name,
        "backend": column.judge.backend,
        "description": column.judge.description,
        "models": sorted({judgment.model for judgment in made}),
        "enforcement": sorted({judgment.enforcement.value for judgment in made}),
        "order_policy": column.judge.order_policy.value,
        "repeats": column.judge.repeats,
        "confidence": None if column.judge.confidence is None else column.judge.confidence.value,
        "judge_hash": sorted({judgment.judge_hash for judgment in made}),
        "runs": list(runs),
    }


def build(study: Study) -> dict[str, Any]:
    """Definitions in words, versions and hashes, what was fixed beforehand, and each judge as it was configured.

    Shape: `{definitions: [text], source, set, rubric, rubric_hash, score_rule, length_policy, ties, seed, resamples,
    unit, groups, chosen, program, packages, judges: [row], runs_left_out}`. `set`: `{id, status, content_hash,
    splits}` or null; `chosen`: `{floor, margin, target, epsilon, slices}` as fixed beforehand; `packages`: versions of
    the libraries that compute; `row`: `judge`, `backend`, `description`, `models`, `enforcement`, `order_policy`,
    `repeats`, `confidence`, `judge_hash`, `runs`.
    """
    dataset, chosen, origin = study.dataset, study.choices, study.labelled_set
    return {
        "definitions": _definitions(study),
        "source": dataset.source,
        "set": None
        if origin is None
        else {
            "id": origin.version.id,
            "status": origin.version.status,
            "content_hash": origin.version.content_hash,
            "splits": [split.value for split in origin.splits],
        },
        "rubric": dataset.rubric.id,
        "rubric_hash": dataset.rubric.content_hash,
        "score_rule": dataset.rubric.rules.score,
        "length_policy": dataset.rubric.rules.length_policy,
        "ties": dataset.rubric.rules.ties,
        "seed": chosen.seed,
        "resamples": chosen.resamples,
        "unit": "group" if study.resampler.clustered else "case",
        "groups": study.resampler.n_groups,
        "chosen": {
            "floor": chosen.floor,
            "margin": chosen.margin,
            "target": chosen.target,
            "epsilon": chosen.epsilon,
            "slices": list(chosen.by),
        },
        "program": __version__,
        "packages": {name: version(name) for name in _PACKAGES},
        "judges": [
            _judge(column, () if origin is None else origin.runs.get(column.judge.name, ()))
            for column in dataset.columns
        ],
        "runs_left_out": [] if origin is None else list(origin.left_out),
    }
