"""The composition root: opens the parts, puts them together, closes them. Used by the server and the command line."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from types import TracebackType

from fastapi import FastAPI

from judge_service import __version__
from judge_service.api import routers
from judge_service.api.components import Component
from judge_service.api.idempotency import Once
from judge_service.api.openapi import DESCRIPTION, document
from judge_service.api.preflight import Preflight
from judge_service.backends import weights
from judge_service.backends.catalog import BackendPool
from judge_service.domain.principal import Role
from judge_service.errors import ConfigurationError, JudgeServiceError, MissingModel
from judge_service.gate import problem
from judge_service.gate.authentication import Authenticator, Gate
from judge_service.gate.context import RequestContext
from judge_service.gate.limits import Admission, BodyLimit, RateLimiter
from judge_service.gate.sessions import Sessions
from judge_service.gate.signing_in import SigningIn
from judge_service.heap import settle_heap
from judge_service.judging.judging import Judging
from judge_service.judging.roster import Roster
from judge_service.reports.trust import StoredTrust
from judge_service.runs.background import BackgroundRuns
from judge_service.runs.execute import Executor
from judge_service.runs.fleet import Fleet
from judge_service.runs.local import LocalRunner
from judge_service.runs.retention import keep_swept
from judge_service.runs.shared_gate import SharedGates
from judge_service.runs.stored_judges import StoredJudges
from judge_service.runs.stored_rubrics import StoredRubrics
from judge_service.runs.worker import SERVICE, this_worker
from judge_service.security.keys import issue
from judge_service.sets.calibrating import Calibrators
from judge_service.sets.drift import DriftChecks
from judge_service.sets.watching import Watch
from judge_service.settings import Settings
from judge_service.store import Store
from judge_service.web.errors import ErrorPages
from judge_service.web.routers import ROUTERS as PAGES
from judge_service.web.shelf import Shelf
from rubrics.registry import get_rubric

AT_ONCE = 512
"""Single judgments under way at once; more are answered 503 with Retry-After. Runs have limits of their own."""
GRACE_S = 10.0
"""How long a stopping service waits for calls in flight."""


@dataclass(slots=True)
class Service:
    """The opened parts of one installation. Close it with `aclose`, or use it as an async context manager."""

    settings: Settings
    store: Store
    roster: Roster
    backends: BackendPool
    judging: Judging
    executor: Executor
    stored_judges: StoredJudges
    stored_rubrics: StoredRubrics
    gates: SharedGates | None = None
    preflight: Preflight = field(init=False)
    once: Once = field(init=False)
    background: BackgroundRuns = field(init=False)
    fleet: Fleet | None = field(init=False, default=None)
    calibrators: Calibrators = field(init=False)
    admission: Admission = field(init=False)
    watch: Watch = field(init=False)
    signing_in: SigningIn = field(init=False)

    def __post_init__(self) -> None:
        runner = LocalRunner(self.store, self.judging, gives_back_to=SERVICE)
        queue = self.store.queue()
        if queue is not None:
            self.fleet = Fleet(
                self.store,
                queue,
                runner,
                get_rubric,
                cases_at_once=self.settings.worker_cases,
                before_chunk=self.stored_rubrics.read,
            )
        take = self.settings.serve_works
        self.background = BackgroundRuns(self.store, runner, get_rubric, fleet=self.fleet, take_chunks=take)
        self.calibrators = Calibrators(self.store, self.judging, self.background)
        self.preflight = Preflight(self.judging)
        self.once = Once(self.store)
        self.admission = Admission(AT_ONCE)
        self.watch = Watch(DriftChecks(self.store, self.judging, self.roster.get))

    @classmethod
    def open(cls, settings: Settings) -> "Service":
        """Open the database (migrating it) and put the parts together. Opens no backend and loads no model.

        Raises ConfigurationError, NewerDatabase or StoreError. Blocks; async callers use a thread.
        """
        roster = Roster.load(settings)
        settings.data_dir.mkdir(parents=True, exist_ok=True)
        store = Store.open(settings.database)
        try:
            backends = BackendPool(settings)
            trust = StoredTrust(store)
            judging = Judging(roster, backends, fence_key=settings.fence_secret, cache=store.cache, trust=trust)
            alone = store.queue() is None and settings.processes == 1
            gates = None if alone else SharedGates(store.shared_limits(), this_worker())
            if gates is not None:
                judging.gates = gates
            executor = Executor(store, judging)
            stored_judges = StoredJudges(store, judging, settings)
            stored_judges.read()
            stored_rubrics = StoredRubrics(store)
            stored_rubrics.read()
        except BaseException:
            store.close()
            raise
        return cls(settings, store, roster, backends, judging, executor, stored_judges, stored_rubrics, gates)

    async def aclose(self) -> None:
        """Let begun cases end, close the backends, then the database. Safe to call twice."""
        try:
            # What is not done within the grace is given back and goes on after the next start.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GRACE_S):
                    await self.watch.aclose()
                    await self.calibrators.aclose()
                    await self.background.aclose()
                    await self.executor.aclose()
            if self.gates is not None:
                await self.gates.aclose()
            await self.backends.aclose()
        finally:
            self.stored_rubrics.close()
            await asyncio.to_thread(self.store.close)

    async def __aenter__(self) -> "Service":
        """The service itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.aclose()

    def first_key(self) -> str | None:
        """Make an admin key if there is no key at all, and return it: it can be shown this once. None otherwise."""
        key, plain = issue("first admin", Role.ADMIN)
        return plain if self.store.keys.add_first(key) else None

    async def components(self) -> list[Component]:
        """What each part can do right now."""
        return await asyncio.to_thread(self._components)

    def _components(self) -> list[Component]:
        try:
            self.store.check()
            database = Component("database", "ok", "answers")
        except JudgeServiceError:
            database = Component("database", "down", "does not answer")
        try:
            weights.locate(self.settings)
            model = Component("embedded model", "ok", "installed; it is loaded by the first case that needs it")
        except MissingModel:
            detail = "not installed: run `judge-service models pull`; judges with another backend work"
            model = Component("embedded model", "missing", detail)
        except ConfigurationError:
            detail = "the file that JUDGE_SERVICE_MODEL_PATH names is not a model; judges with another backend work"
            model = Component("embedded model", "degraded", detail)
        judges = Component("judges", "ok", f"{len(self.roster.all())} configured")
        return [database, model, judges]


def create_app(settings: Settings | None = None, *, service: Service | None = None) -> FastAPI:
    """The HTTP service. Parts are opened when it starts and closed when it stops.

    With `service`, that one is used and left open: for callers that build their own. On the first start an admin
    key is made and written once to standard error, never to the log.
    """
    settings = service.settings if service is not None else settings or Settings()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        running = service if service is not None else await asyncio.to_thread(Service.open, settings)
        besides: list[asyncio.Task[None]] = []
        try:
            authenticator = Authenticator(running.store.keys.get, running.store.keys.touch)
            limiter = RateLimiter(settings.requests_per_minute)
            sessions = Sessions(
                running.store.users.session,
                running.store.users.touch,
                idle=timedelta(hours=settings.session_idle_hours),
                public_url=settings.public_url,
            )
            app.state.gate = Gate(authenticator, limiter, max_json_depth=settings.max_json_depth, sessions=sessions)
            absolute = timedelta(hours=settings.session_hours)
            running.signing_in = SigningIn(running.store.users, authenticator, absolute=absolute)
            app.state.service = running
            app.state.reports = Shelf()
            first = await asyncio.to_thread(running.first_key)
            await running.background.resume_interrupted()
            if settings.keep_days is not None:
                besides.append(asyncio.create_task(keep_swept(running.store, settings.keep_days), name="retention"))
            if settings.processes > 1:
                besides.append(asyncio.create_task(running.background.keep_resuming(), name="runs given back"))
            if first is not None:
                sys.stderr.write(f"Admin key, shown this once: {first}\n")
                sys.stderr.flush()
            settle_heap()
            yield
        finally:
            for task in besides:
                task.cancel()
            await asyncio.gather(*besides, return_exceptions=True)
            if service is None:
                await running.aclose()

    app = FastAPI(
        title="judge-service",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        # A redirect would be built from the Host header, which is the client's to choose.
        redirect_slashes=False,
        lifespan=lifespan,
    )
    routers.include(app)
    for router in PAGES:
        app.include_router(router)
    app.openapi = lambda: document(app)  # type: ignore[method-assign]
    problem.install(app)
    app.add_middleware(BodyLimit, limit=settings.max_body_bytes)
    app.add_middleware(RequestContext)
    app.add_middleware(ErrorPages)
    return app
