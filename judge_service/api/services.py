"""What a router may ask of the rest of the service, and how it gets it from a request."""

from typing import Any, Protocol

from starlette.requests import Request

from judge_service.api.components import Component
from judge_service.api.idempotency import Once
from judge_service.api.preflight import Preflight
from judge_service.domain.judge import Judge
from judge_service.errors import FieldProblem, InvalidInput, JudgeServiceError, NotFound
from judge_service.gate.fields import did_you_mean
from judge_service.gate.limits import Admission
from judge_service.gate.route import GuardedRoute
from judge_service.gate.signing_in import SigningIn
from judge_service.judging.judging import Judging
from judge_service.judging.roster import Roster
from judge_service.runs.background import BackgroundRuns
from judge_service.runs.execute import Executor
from judge_service.runs.stored_judges import StoredJudges
from judge_service.runs.stored_rubrics import StoredRubrics
from judge_service.sets.calibrating import Calibrators
from judge_service.sets.watching import Watch
from judge_service.settings import Settings
from judge_service.store import Store
from rubrics.model import Rubric
from rubrics.registry import UnknownRubric, all_rubrics, get_rubric


class Services(Protocol):
    """The parts of the service that routers use. The composition root provides them."""

    settings: Settings
    store: Store
    roster: Roster
    judging: Judging
    executor: Executor
    background: BackgroundRuns
    calibrators: Calibrators
    stored_judges: StoredJudges
    stored_rubrics: StoredRubrics
    preflight: Preflight
    once: Once
    admission: Admission
    watch: Watch
    signing_in: SigningIn

    async def components(self) -> list[Component]:
        """The state of each part."""
        ...


class RubricRoute(GuardedRoute):
    """A route that may name a rubric: one that another process declared is known to this one too."""

    async def prepare(self, request: Request) -> None:
        """Keep declared rubrics in step. Not a dependency of FastAPI's: solving one costs more than this does."""
        await services_of(request).stored_rubrics.fresh()


def services_of(request: Request) -> Services:
    """The services behind a request."""
    services: Services = request.app.state.service
    return services


def _unknown(path: str, noun: str, name: str, known: list[str]) -> InvalidInput:
    near = did_you_mean(name, known)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return InvalidInput(
        f"There is no {noun} {name!a}.{hint}",
        fields=[FieldProblem(path, f"{path}: there is no {noun} {name!a}.{hint}")],
        extra={"suggestions": list(near)},
    )


def rubric_names() -> list[str]:
    """Every rubric version's id and every plain name."""
    return [name for rubric in all_rubrics() for name in (rubric.id, rubric.name)]


def rubric_in(reference: str, *, path: str = "rubric") -> Rubric[Any]:
    """The rubric that a body names. Raises InvalidInput on `path`, with near misses."""
    try:
        return get_rubric(reference)
    except UnknownRubric:
        raise _unknown(path, "rubric", reference, rubric_names()) from None


def judge_in(services: Services, name: str, *, path: str = "judge") -> Judge:
    """The judge that a body names. Raises InvalidInput on `path`, with near misses."""
    try:
        return services.roster.get(name)
    except JudgeServiceError:
        raise _unknown(path, "judge", name, [judge.name for judge in services.roster.all()]) from None


async def named_in(services: Services, rubric: str, judge: str) -> tuple[Rubric[Any], Judge]:
    """The rubric and the judge that a body names: `rubric_in` and `judge_in`.

    What is not known here may have been declared in another process a moment ago, so the tables are read once more.
    """
    try:
        return rubric_in(rubric), judge_in(services, judge)
    except InvalidInput:
        await services.stored_rubrics.fresh(at_once=True)
        await services.stored_judges.fresh(at_once=True)
    return rubric_in(rubric), judge_in(services, judge)


def hash_of(services: Services, judge: Judge) -> str | None:
    """The hash of a judge, None for a panel whose members are not all there."""
    try:
        return services.judging.judge_hash(judge)
    except NotFound:
        return None
