"""What pages may ask of the rest of the service. The composition root provides it."""

from typing import Protocol

from starlette.requests import Request

from judge_service.gate.signing_in import SigningIn
from judge_service.judging.judging import Judging
from judge_service.judging.roster import Roster
from judge_service.runs.background import BackgroundRuns
from judge_service.runs.stored_judges import StoredJudges
from judge_service.settings import Settings
from judge_service.store import Store


class Services(Protocol):
    """The parts of the service that pages use."""

    settings: Settings
    store: Store
    roster: Roster
    judging: Judging
    stored_judges: StoredJudges
    signing_in: SigningIn
    background: BackgroundRuns


def services_of(request: Request) -> Services:
    """The services behind a request."""
    services: Services = request.app.state.service
    return services
