"""Drift: the anchors of a set judged again and held against a baseline of several repeats.

Owns which cases are anchors, that every repeat is asked past the caches, and what makes a change one of the system.
The arithmetic is `calibration.drift`'s; judging is the ordinary run machinery's, so a check that was stopped goes on.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from judge_service import __version__
from judge_service.domain.calibration_set import SetCase, SetVersion, Split, UsePurpose
from judge_service.domain.canonical import content_hash
from judge_service.domain.case import Case
from judge_service.domain.drift import DriftRecord, DriftVerdict
from judge_service.domain.judge import Judge
from judge_service.domain.judgment import Judgment
from judge_service.domain.outcome import Outcome
from judge_service.domain.run import DRIFT_SOURCE
from judge_service.errors import Conflict, FieldProblem, InvalidInput
from judge_service.judging.budget import Budget
from judge_service.judging.judging import Judging
from judge_service.reports.labelled_set import final_label, results, rubric_of
from judge_service.runs.local import LocalRunner, OnProgress
from judge_service.store import Store
from judge_service.store.store import utc_now
from rubrics.model import Rubric

REPEATS = 5
"""Repeats of a baseline unless said otherwise: with several it is a rate and not one draw."""
MOST_REPEATS = 20
ALPHA = 0.05
_OTHER_ENDINGS = (Outcome.INCONSISTENT.value, Outcome.NOT_APPLICABLE.value)


@dataclass(frozen=True, slots=True)
class Asked:
    """What to check. `split` None: the monitoring split, or every split but release where the set has none.

    `repeats` are those of a baseline that has to be made; `planned` looks share alpha equally, else it shrinks with
    each look.
    """

    set: str
    judge: str
    rubric: str | None = None
    split: Split | None = None
    repeats: int = REPEATS
    new_baseline: bool = False
    planned: int | None = None

    def __post_init__(self) -> None:
        if not 2 <= self.repeats <= MOST_REPEATS:
            raise InvalidInput(fields=[FieldProblem("repeats", f"must lie between 2 and {MOST_REPEATS}")])
        if self.planned is not None and self.planned < 1:
            raise InvalidInput(fields=[FieldProblem("planned", "must be at least 1")])
        if self.split is Split.RELEASE:
            raise InvalidInput(fields=[FieldProblem("split", "a release split is scored once, so it holds no anchors")])


@dataclass(frozen=True)
class Anchors:
    """The cases of a check with people's labels, and what judges them."""

    version: SetVersion
    split: Split | None
    cases: tuple[Case, ...]
    human: tuple[str | None, ...]
    rubric: Rubric[Any]
    judge: Judge
    judge_hash: str
    revisions: tuple[str | None, ...]

    @property
    def key(self) -> list[Any]:
        """What makes two baselines comparable."""
        split = None if self.split is None else self.split.value
        return [self.version.content_hash, split, self.rubric.content_hash, self.judge_hash, list(self.revisions)]


@dataclass(frozen=True, slots=True)
class FreshJudging:
    """Judging past the caches, as work of its own: what others recorded for these cases is neither used nor replaced.

    `salt` names the run: the same run started again finds what it recorded itself.
    """

    judging: Judging
    salt: str

    def identity(self, case: Case, rubric: Rubric[Any], judge: Judge) -> str:
        """The name of this run's own work. Raises InvalidInput for a case that the rubric refuses."""
        return content_hash([DRIFT_SOURCE, self.salt, self.judging.identity(case, rubric, judge)])

    async def judge(
        self, case: Case, rubric: Rubric[Any], judge: Judge, *, fresh: bool = False, budget: Budget | None = None
    ) -> Judgment:
        """Judge one case, always fresh. Raises what judging raises."""
        judgment = await self.judging.judge(case, rubric, judge, fresh=True, budget=budget)
        return judgment.model_copy(update={"identity": self.identity(case, rubric, judge)})


@dataclass(slots=True)
class DriftChecks:
    """Makes baselines and checks. `find` gives a configured judge by its name."""

    store: Store
    judging: Judging
    find: Callable[[str], Judge]
    now: Callable[[], Any] = field(default=utc_now)

    def anchors(self, asked: Asked) -> Anchors:
        """The anchors of a frozen set with what judges them. Raises NotFound, Conflict and InvalidInput."""
        judge = self.find(asked.judge)
        version = self.store.sets.get(asked.set)
        if version.status != "frozen":
            raise Conflict(f"The set {version.id} is not frozen: its cases may still change, so they are no anchors.")
        labels: dict[str, list[Any]] = {}
        for label in self.store.labels.of(version.id):
            labels.setdefault(label.case_id, []).append(label)
        rubric = rubric_of(version, {label.rubric for given in labels.values() for label in given}, asked.rubric)
        self.judging.check(rubric, judge)
        split, entries = self._chosen(version, asked.split)
        names = set(rubric.scale.names)
        human = []
        for entry in entries:
            final = final_label(label for label in labels.get(entry.case.id, ()) if label.rubric == rubric.id)
            human.append(final.label if final.label in names else None)
        return Anchors(
            version,
            split,
            tuple(entry.case for entry in entries),
            tuple(human),
            rubric,
            judge,
            self.judging.judge_hash(judge),
            tuple(self.judging.revisions(judge)),
        )

    def _chosen(self, version: SetVersion, wanted: Split | None) -> tuple[Split | None, list[SetCase]]:
        split = wanted or Split.MONITORING
        entries = list(self.store.sets.cases(version.id, split))
        if not entries and wanted is None:
            split = None  # type: ignore[assignment]
            parts = [part for part in Split if part is not Split.RELEASE]
            entries = [entry for part in parts for entry in self.store.sets.cases(version.id, part)]
        if not entries:
            raise InvalidInput(
                f"{version.id} has no case {'outside its release split' if wanted is None else f'in {wanted.value}'}.",
                fields=[FieldProblem("split", "holds no case")],
            )
        return split, entries

    def baseline_of(self, anchors: Anchors) -> DriftRecord | None:
        """The newest baseline of this judge and rubric on this set and split, whatever configuration made it."""
        known = self.store.drift.all(set_id=anchors.version.id, judge=anchors.judge.name)
        mine = (found for found in known if found.kind == "baseline" and found.split is anchors.split)
        return next((found for found in mine if found.rubric.partition("@")[0] == anchors.rubric.name), None)

    async def check(
        self, asked: Asked, *, concurrency: int | None = None, on_progress: OnProgress | None = None
    ) -> DriftRecord:
        """Judge the anchors and store what came of it: a baseline where there is none, else a check against it.

        What is known to have changed needs no call. The same check that was stopped goes on where it was. Raises what
        judging raises, and Conflict when the judge gave no verdict at all for a baseline.
        """
        anchors = await asyncio.to_thread(self.anchors, asked)
        baseline = await asyncio.to_thread(self.baseline_of, anchors)
        if baseline is None or asked.new_baseline:
            return await self._baseline(anchors, asked.repeats, concurrency, on_progress)
        checks = await asyncio.to_thread(self._checks, baseline)
        look = len(checks) + 1
        if asked.planned is not None and look > asked.planned:
            message = f"{len(checks)} looks were taken at baseline {baseline.id}: plan more, or make a new baseline."
            raise InvalidInput(message, fields=[FieldProblem("planned", message)])
        reasons = _changed(anchors, baseline)
        if reasons:
            result = {"asked": False, "reasons": reasons}
            return await self._store(anchors, baseline, look, (), (), DriftVerdict.SYSTEM_CHANGED, result)
        run = await self._run(anchors, [baseline.id, "look", look], concurrency, on_progress)
        return await self._weigh(anchors, baseline, look, run, asked.planned)

    def _checks(self, baseline: DriftRecord) -> list[DriftRecord]:
        """The looks that asked the judge: only these spend alpha."""
        known = self.store.drift.all(set_id=baseline.set_id, judge=baseline.judge)
        return [found for found in known if found.baseline == baseline.id and found.runs]

    async def _baseline(
        self, anchors: Anchors, repeats: int, concurrency: int | None, on_progress: OnProgress | None
    ) -> DriftRecord:
        known = await asyncio.to_thread(self.store.drift.all, set_id=anchors.version.id, judge=anchors.judge.name)
        place = sum(found.kind == "baseline" for found in known)
        name = content_hash([DRIFT_SOURCE, *anchors.key, place])[:32]
        runs = [
            await self._run(anchors, [name, "repeat", repeat], concurrency, on_progress) for repeat in range(repeats)
        ]
        columns, models = await asyncio.to_thread(self._read, anchors, runs)
        if not any(verdict is not None for column in columns for verdict in column):
            raise Conflict(
                f"{anchors.judge.name} gave no verdict on any anchor, so there is no baseline. See run {runs[0]}."
            )
        figures = await asyncio.to_thread(_noise, columns)
        verdict, result = DriftVerdict.BASELINE_STORED, {"repeats": repeats, **figures}
        return await self._store(anchors, None, 0, tuple(runs), models, verdict, result, record_id=f"drift_{name}")

    async def _run(
        self, anchors: Anchors, name: Sequence[Any], concurrency: int | None, on_progress: OnProgress | None
    ) -> str:
        run_id = f"run_{content_hash([DRIFT_SOURCE, *name])[:32]}"
        run = await LocalRunner(self.store, FreshJudging(self.judging, run_id)).run(
            anchors.cases,
            anchors.rubric,
            anchors.judge,
            run_id=run_id,
            source=f"{DRIFT_SOURCE}{anchors.version.id}",
            concurrency=concurrency,
            on_progress=on_progress,
        )
        counts = await asyncio.to_thread(self.store.runs.counts, run_id)
        # One that was cancelled too: anchors that nobody asked about would count as failures of the judge.
        if sum(count.n for count in counts) < len(anchors.cases):
            raise Conflict(f"The anchors were not all judged: {run.message or f'run {run.id} was {run.status}.'}")
        return run_id

    def _read(self, anchors: Anchors, runs: Sequence[str]) -> tuple[list[list[str | None]], tuple[str, ...]]:
        """The verdict of every anchor in each run, and the models that answered."""
        columns, models = [], set()
        for run in runs:
            found = {}
            for judgment in results(self.store, run):
                found[judgment.case_id] = _verdict(judgment)
                if any(call.error is None for call in judgment.calls):
                    models.add(judgment.model)
            columns.append([found.get(case.id) for case in anchors.cases])
        return columns, tuple(sorted(models))

    async def _weigh(
        self, anchors: Anchors, baseline: DriftRecord, look: int, run: str, planned: int | None
    ) -> DriftRecord:
        columns, before = await asyncio.to_thread(self._read, anchors, baseline.runs)
        [now], models = await asyncio.to_thread(self._read, anchors, [run])
        classes = [*anchors.rubric.scale.names, *_OTHER_ENDINGS]

        def compute() -> tuple[Any, list[dict[str, Any]], list[str]]:
            from calibration.drift import drift_from_repeats, drifted_towards, usual_verdicts

            found = drift_from_repeats(columns, now, anchors.human, classes, look=look, alpha=ALPHA, planned=planned)
            usual = usual_verdicts(columns)
            table = drifted_towards(usual, now, classes)
            moves = [
                {"from": classes[x], "to": classes[y], "n": int(table[x, y])}
                for x in range(len(classes))
                for y in range(len(classes))
                if x != y and table[x, y]
            ]
            cases = [case.id for case, x, y in zip(anchors.cases, usual, now, strict=True) if x != y]
            return found, sorted(moves, key=lambda move: -int(move["n"])), cases

        found, moves, cases = await asyncio.to_thread(compute)
        reasons = [f"{', '.join(models)} answered, not {', '.join(before)}."] if models and models != before else []
        if found.alarm and not reasons and baseline.program != __version__:
            reasons.append(f"judge-service went from {baseline.program} to {__version__}: the change may be its own.")
        verdict = (
            DriftVerdict.SYSTEM_CHANGED
            if reasons
            else DriftVerdict.JUDGE_CHANGED
            if found.alarm
            else DriftVerdict.NOT_ENOUGH
            if not found.flip_rate.n
            else DriftVerdict.NO_CHANGE
        )
        figures = found.to_dict()
        result = {"asked": True, "reasons": reasons, **figures, "moves": moves, "changed_cases": cases[:100]}
        return await self._store(anchors, baseline, look, (run,), models, verdict, result)

    async def _store(
        self,
        anchors: Anchors,
        baseline: DriftRecord | None,
        look: int,
        runs: tuple[str, ...],
        models: tuple[str, ...],
        verdict: DriftVerdict,
        result: dict[str, Any],
        *,
        record_id: str | None = None,
    ) -> DriftRecord:
        now = self.now()
        held = None if baseline is None else baseline.id
        name = content_hash([DRIFT_SOURCE, held, look, list(runs), now.isoformat()])
        record = DriftRecord(
            id=record_id or f"drift_{name[:32]}",
            kind="baseline" if baseline is None else "check",
            set_id=anchors.version.id,
            set_hash=anchors.version.content_hash or "",
            split=anchors.split,
            rubric=anchors.rubric.id,
            rubric_hash=anchors.rubric.content_hash,
            judge=anchors.judge.name,
            judge_hash=anchors.judge_hash,
            revisions=anchors.revisions,
            models=models,
            program=__version__,
            baseline=held,
            look=look,
            n=len(anchors.cases),
            runs=runs,
            verdict=verdict,
            result=result,
            created_at=now,
        )

        def work() -> DriftRecord:
            if runs and anchors.split is not None:
                purpose, who = UsePurpose.SCORED, anchors.judge.name
                self.store.sets.record_use(anchors.version.id, anchors.split, anchors.judge_hash, purpose, judge=who)
            return self.store.drift.add(record)

        return await asyncio.to_thread(work)


def _verdict(judgment: Judgment) -> str | None:
    """The label, or how else the case ended; None for a judge error."""
    if judgment.outcome is Outcome.JUDGE_ERROR:
        return None
    return judgment.label if judgment.outcome is Outcome.SCORED else judgment.outcome.value


def _changed(anchors: Anchors, baseline: DriftRecord) -> list[str]:
    """What is known to be another than for the baseline, before anything is asked."""
    reasons = []
    if baseline.rubric_hash != anchors.rubric.content_hash:
        before = baseline.rubric if baseline.rubric != anchors.rubric.id else f"another content of {baseline.rubric}"
        reasons.append(f"The baseline was made under {before}, not under this {anchors.rubric.id}.")
    if baseline.judge_hash != anchors.judge_hash:
        reasons.append("The judge's configuration changed since the baseline was made.")
    elif baseline.revisions != anchors.revisions:
        reasons.append("The judge's model file is another than that of the baseline.")
    return reasons


def _noise(columns: Sequence[Sequence[str | None]]) -> dict[str, Any]:
    from calibration.drift import noise_between

    if not any(sum(verdict is not None for verdict in given) >= 2 for given in zip(*columns, strict=True)):
        raise Conflict("No anchor has a verdict in two repeats, so there is no baseline.")
    rate, bound = noise_between(columns)
    return {"noise_rate": rate.to_dict(), "noise": bound}
