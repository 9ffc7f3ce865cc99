"""How far a project's labels can be trusted: agreement among people, each person's own figures, qualification, drift.

Owns what a lead sees while labelling goes on. Figures are `calibration`'s; under 30 pairs of labels there are counts
only. Reads labels of the project's condition; "cannot say" is missing data.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import median
from typing import Any

from pydantic import BaseModel, ConfigDict

from calibration import raters
from calibration.agreement import Agreement, PairedLabels
from calibration.estimate import Estimate
from calibration.intervals import newcombe, proportion
from calibration.resample import Resampler, joint_types
from judge_service.annotation.forms import read_answer
from judge_service.domain.annotation import ProjectCase, State
from judge_service.errors import InvalidInput
from judge_service.store import Store
from judge_service.store.standing import Step
from rubrics.model import Rubric
from rubrics.registry import get_rubric

FEWEST_PAIRS = 30
"""Pairs of labels below which agreement is not computed."""
RESAMPLES = 1000
DRIFT_FEWEST = 20
"""Labels of one person below which no drift is looked for."""

Votes = Mapping[str, Mapping[str, str]]
"""Case -> name -> label."""


class PersonFigures(BaseModel):
    """One person's figures. `agreement`: with the others' labels on the same cases, pair by pair.

    `first_side`: share of pairs whose first-shown answer was preferred, with n. `drift`: agreement with the others in
    the first and in the second half of the person's labels, and its difference.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    person: str
    name: str
    done: int
    cannot_say: int
    skipped: int
    flagged: int
    open: int
    median_seconds: float | None
    n_seconds: int
    first_side: dict[str, Any]
    agreement: dict[str, Any]
    qualification: dict[str, Any]
    drift: dict[str, Any]


class Quality(BaseModel):
    """A project at a glance. `alpha` and `pairs` are null with `reason` `few_pairs` below 30 pairs of labels."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    n_cases: int
    n_with_enough_labels: int
    n_labels: int
    n_pairs: int
    n_disagreements: int
    n_adjudicated: int
    reason: str | None
    alpha: dict[str, Any] | None
    pairs: tuple[dict[str, Any], ...]
    people: tuple[PersonFigures, ...]


def quality(store: Store, project_id: str) -> Quality:
    """The figures of a project as it stands. Raises NotFound. Blocks."""
    rubric = get_rubric(store.projects.get(project_id).rubric)
    counts = store.standing.counts(project_id)
    known = store.standing.qualification(project_id)
    names = {one.person: one.name for one in store.projects.members(project_id)}
    votes = store.standing.votes(project_id)
    n_pairs = sum(len(mine) * (len(mine) - 1) // 2 for mine in votes.values())
    few = n_pairs < FEWEST_PAIRS
    own: dict[str, list[Step]] = {person: [] for person in names}
    for one in store.standing.steps(project_id):
        own[one.person].append(one)
    people = tuple(_person(rubric, known, own[person], person, name, votes) for person, name in names.items())
    return Quality(
        n_cases=counts.cases,
        n_with_enough_labels=counts.with_enough_labels,
        n_labels=counts.labels,
        n_pairs=n_pairs,
        n_disagreements=sum(len(set(mine.values())) > 1 for mine in votes.values()),
        n_adjudicated=counts.adjudicated,
        reason="few_pairs" if few else None,
        alpha=None if few else _alpha(rubric, votes).to_dict(),
        pairs=() if few else tuple(_pairs(rubric, votes)),
        people=people,
    )


def _alpha(rubric: Rubric[Any], votes: Votes) -> Estimate:
    names = sorted({name for mine in votes.values() for name in mine})
    cases = sorted(case_id for case_id, mine in votes.items() if len(mine) > 1)
    ratings = [[votes[case_id].get(name) for case_id in cases] for name in names]
    metric = "ordinal" if rubric.scale.ordered else "nominal"
    # Few kinds of cases: counted by kind, the resamples cost little.
    resampler = Resampler(len(cases), resamples=RESAMPLES, types=joint_types(*ratings))
    return raters.alpha(ratings, metric, classes=rubric.scale.names, resampler=resampler)


def _pairs(rubric: Rubric[Any], votes: Votes) -> list[dict[str, Any]]:
    """Agreement and kappa of every two people who share enough cases; counts for the others."""
    names = sorted({name for mine in votes.values() for name in mine})
    rows = []
    for one, other in combinations(names, 2):
        shared = [mine for _, mine in sorted(votes.items()) if one in mine and other in mine]
        if not shared:
            continue
        row: dict[str, Any] = {"people": [one, other], "n": len(shared)}
        row["same"] = sum(mine[one] == mine[other] for mine in shared)
        if len(shared) < FEWEST_PAIRS:
            rows.append(row | {"kappa": None, "reason": "few_pairs"})
            continue
        labels = PairedLabels.of([mine[one] for mine in shared], [mine[other] for mine in shared], rubric.scale.names)
        kinds = joint_types(labels.judge, labels.human)
        figures = Agreement(labels, labels.resampler(resamples=RESAMPLES).with_types(kinds))
        weights = "quadratic" if rubric.scale.ordered else None
        rows.append(row | {"kappa": figures.kappa(weights).to_dict(), "agreement": figures.raw().to_dict()})
    return rows


def _person(
    rubric: Rubric[Any],
    known: Mapping[str, ProjectCase],
    mine: Sequence[Step],
    person: str,
    name: str,
    votes: Votes,
) -> PersonFigures:
    labels = [one for one in mine if one.state is State.SAVED and one.case_id not in known]
    labels.sort(key=lambda one: one.changed_at)
    seconds = [one.seconds for one in labels if one.seconds is not None]
    sides = [one.answer["answers"].get("label") for one in labels if one.answer is not None and one.order is not None]
    firsts, decided = sides.count("first"), sides.count("first") + sides.count("second")
    compared = [(one.case_id, *_others(votes, one.case_id, name)) for one in labels]
    return PersonFigures(
        person=person,
        name=name,
        done=len(labels),
        cannot_say=sum(name not in votes.get(one.case_id, {}) for one in labels),
        skipped=sum(one.state is State.SKIPPED for one in mine),
        flagged=sum(one.flag is not None for one in mine),
        open=sum(one.state is State.OPEN for one in mine),
        median_seconds=median(seconds) if seconds else None,
        n_seconds=len(seconds),
        first_side=_share(firsts, decided),
        agreement=_agreement([(same, n) for _, same, n in compared]),
        qualification=_qualification(rubric, known, mine),
        drift=_drift([(same, n) for _, same, n in compared if n]),
    )


def _others(votes: Votes, case_id: str, name: str) -> tuple[int, int]:
    """How many of the others' labels on a case are the same as one's own, of how many."""
    said = votes.get(case_id, {})
    if name not in said:
        return 0, 0
    others = [label for who, label in said.items() if who != name]
    return sum(label == said[name] for label in others), len(others)


def _share(part: int, whole: int) -> dict[str, Any]:
    """A share with its interval, or the reason why there is none."""
    return proportion(part, whole).to_dict()


def _agreement(compared: Sequence[tuple[int, int]]) -> dict[str, Any]:
    return _share(sum(same for same, _ in compared), sum(n for _, n in compared))


def _qualification(rubric: Rubric[Any], known: Mapping[str, ProjectCase], mine: Sequence[Step]) -> dict[str, Any]:
    """How many of the known answers the person gave; skipped ones count as not given."""
    given = [one for one in mine if one.case_id in known and one.state is not State.OPEN]
    right = 0
    for one in given:
        case = known[one.case_id]
        if one.state is State.SAVED and one.answer is not None and case.input is not None and case.answer is not None:
            try:
                said = read_answer(rubric, case.input, one.answer, one.order).label
            except InvalidInput:
                # A rubric that changed since reads the answer no more: it does not count as right.
                continue
            right += said == case.answer["label"]
    return _share(right, len(given)) | {"of": len(known)}


def _drift(compared: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """Agreement with the others early and late. A difference is shown with the interval of two independent shares."""
    if len(compared) < DRIFT_FEWEST:
        return {"early": None, "late": None, "difference": None, "n": len(compared), "reason": "few_labels"}
    half = len(compared) // 2
    early, late = compared[:half], compared[half:]
    a, n = sum(same for same, _ in early), sum(n for _, n in early)
    b, m = sum(same for same, _ in late), sum(n for _, n in late)
    return {
        "early": _share(a, n),
        "late": _share(b, m),
        "difference": newcombe(b, m, a, n).to_dict(),
        "n": len(compared),
        "reason": None,
    }
