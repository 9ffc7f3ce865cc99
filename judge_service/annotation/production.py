"""From production: cases of a run drawn into the monitoring split of a set, with the probability that each one had.

Owns the two draws: a random share, and more of what is uncertain or was marked as bad. Both are independent, so that
the probability of a case is known exactly: 1 - (1 - p_random) (1 - p_uncertain).
"""

import random
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from judge_service.annotation.sampling import BASE, draw, feedback_of, probabilities, weight
from judge_service.domain.calibration_set import INCLUSION_PROBABILITY, ImportResult, SetCase, Split
from judge_service.domain.outcome import Outcome
from judge_service.errors import FieldProblem, InvalidInput, NotFound
from judge_service.store import Store

PROBABILITY = INCLUSION_PROBABILITY
PAGE = 500


class Sampled(BaseModel):
    """What was drawn. `judged` cases of the run could be; failures are among them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    set_id: str
    run: str
    judged: int
    drawn: int
    random: int
    cases: ImportResult


class SampleRequest(BaseModel):
    """How many cases to draw from a run: about `n`, of which the share `random_share` blindly."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={"examples": [{"run": "run-0a1b2c", "n": 50, "random_share": 0.5}]},
    )

    run: str = Field(min_length=1, max_length=100, description="The id of a run.")
    n: int = Field(ge=1, le=100_000, description="Cases to draw; one that both draws chose counts once.")
    random_share: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="Drawn at random; the others oversample what is uncertain or marked bad.",
    )


def sample_run(store: Store, reference: str, request: SampleRequest, *, seed: int | None = None) -> Sampled:
    """Draw cases of a run into the monitoring split of an open set.

    Raises NotFound for set and run, InvalidInput when the run has another rubric or no judged case, Conflict for a
    frozen set and for a case id that the set holds with another content.
    """
    version = store.sets.get(reference)
    run = store.runs.get(request.run)
    if run is None:
        raise NotFound(f"There is no run {request.run!r}.")
    if version.rubric is not None and run.rubric != version.rubric:
        message = f"run: it was judged under {run.rubric}, the set is labelled under {version.rubric}."
        raise InvalidInput(message, fields=[FieldProblem("run", message)])
    found = _weights(store, run.id)
    if not found:
        raise InvalidInput("run: no case of it is judged yet.", fields=[FieldProblem("run", "no case is judged yet")])
    drawn = random.Random(seed) if seed is not None else random.SystemRandom()
    n = min(request.n, len(found))
    blindly = max(1, round(n * request.random_share))
    chances = _chances([each for _, each in found], blindly, n - blindly)
    chosen = {one.case_id for one in draw([(identity, BASE) for identity, _ in found], blindly, drawn)}
    if n > blindly:
        chosen |= {one.case_id for one in draw(found, n - blindly, drawn)}
    probability = {identity: chance for (identity, _), chance in zip(found, chances, strict=True)}
    cases = []
    wanted = sorted(chosen)
    for start in range(0, len(wanted), PAGE):
        for identity, case in store.runs.cases_of(run.id, wanted[start : start + PAGE]).items():
            metadata = {**case.metadata, PROBABILITY: probability[identity]}
            cases.append(SetCase(case=case.model_copy(update={"metadata": metadata}), split=Split.MONITORING))
    kept = _without_known(store, version.id, sorted(cases, key=lambda entry: entry.case.id))
    added = store.sets.add_cases(version.id, kept)
    return Sampled(set_id=version.id, run=run.id, judged=len(found), drawn=len(cases), random=blindly, cases=added)


def _without_known(store: Store, set_id: str, cases: Sequence[SetCase]) -> list[SetCase]:
    """Cases that an earlier draw put there with the same content keep the probability that they had then."""
    known = store.sets.named(set_id, [entry.case.id for entry in cases])
    there = {case_id: entry.case.input for case_id, entry in known.items()}
    return [entry for entry in cases if there.get(entry.case.id) != entry.case.input]


def _chances(weights: Sequence[float], blindly: int, others: int) -> list[float]:
    """Of being drawn by either draw."""
    first = probabilities([BASE] * len(weights), blindly)
    if not others:
        return first
    second = probabilities(weights, others)
    return [1 - (1 - one) * (1 - two) for one, two in zip(first, second, strict=True)]


def _weights(store: Store, run_id: str) -> list[tuple[str, float]]:
    """Identity and weight of every judged case of a run. Judgments with an error are as uncertain as can be."""
    found: list[tuple[str, float]] = []
    after = -1
    while page := store.runs.results(run_id, after=after, limit=PAGE):
        after = page[-1][0]
        for _, judgment in page:
            each = weight([judgment], feedback_of(judgment.metadata))
            if judgment.outcome is Outcome.JUDGE_ERROR:
                each += 1.0
            found.append((judgment.identity, each))
    return found
