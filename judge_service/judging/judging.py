"""The orchestrator: one case, one rubric, one judge, one judgment.

Drives a rubric's plan, asks both orders of a pair at once, repeats and panels, folds by policy, derives confidence
and attaches trust. A judge's failure ends in an outcome, never in an exception; only bad input and a refused key raise.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from judge_service.backends.base import Subject
from judge_service.backends.catalog import BackendPool
from judge_service.domain.call import Call, Usage
from judge_service.domain.canonical import content_hash
from judge_service.domain.case import Case
from judge_service.domain.identifier import ordered_id
from judge_service.domain.judge import ConfidenceSource, Judge, Limits, OrderPolicy
from judge_service.domain.judgment import Confidence, Flag, Judgment, Votes
from judge_service.domain.outcome import Enforcement, JudgeErrorReason, NotApplicableReason, Outcome
from judge_service.errors import FieldProblem, InvalidInput, NotFound
from judge_service.judging.asking import Asker, FatalJudgeError, NoReply, wants_probabilities
from judge_service.judging.budget import Budget
from judge_service.judging.cache import CallCache
from judge_service.judging.cases import read_case, texts_in
from judge_service.judging.policies import (
    IncompletePair,
    NoProbability,
    answer_of,
    fold_pair,
    majority,
    mean_probabilities,
    orders_of,
    quorum_of,
)
from judge_service.judging.prompts import fence_of, prompts_again
from judge_service.judging.provider import Clock, Gate, gate_here
from judge_service.judging.roster import Roster
from judge_service.judging.trust import TrustSource, Uncalibrated
from rubrics.model import Message, NotApplicable, PairFold, PairPlan, Rubric, Scored, SinglePlan, SlotVerdict
from rubrics.prompt import Fence, suspicious
from rubrics.records import CaseInput, Order, Record

__all__ = ["FatalJudgeError", "Judging"]

_STRENGTH = (Enforcement.GRAMMAR, Enforcement.PROVIDER, Enforcement.REASK, Enforcement.NONE)
_CREDIT: Mapping[str, float] = {"A": 1.0, "tie": 0.5, "B": 0.0}


@dataclass(frozen=True, slots=True)
class Finding:
    """What one pass over a case found, before identity, usage and trust are added."""

    outcome: Outcome
    reason: NotApplicableReason | JudgeErrorReason | None = None
    detail: str | None = None
    score: float | None = None
    label: str | None = None
    confidence: Confidence | None = None
    record: Record | None = None
    votes: Votes | None = None
    flags: frozenset[Flag] = frozenset()

    @classmethod
    def error(cls, reason: JudgeErrorReason, detail: str) -> "Finding":
        """A failure of the judge."""
        return cls(Outcome.JUDGE_ERROR, reason=reason, detail=detail)


@dataclass(frozen=True, slots=True)
class _Work:
    """What stays the same over all calls of one judgment."""

    rubric: Rubric[Any]
    case: Case
    parsed: CaseInput
    dumped: Mapping[str, Any]
    inputs: str
    fence: Fence
    fresh: bool
    budget: Budget | None


@dataclass(slots=True)
class Judging:
    """Judges cases. One instance serves a whole process; it holds the provider gates and nothing of a case."""

    roster: Roster
    backends: BackendPool
    fence_key: bytes = field(kw_only=True, repr=False)
    cache: CallCache | None = field(kw_only=True, default=None)
    trust: TrustSource = field(kw_only=True, default_factory=Uncalibrated)
    clock: Clock = field(kw_only=True, default_factory=Clock)
    gates: Callable[[str, Limits, Clock], Gate] = field(kw_only=True, default=gate_here)
    now: Callable[[], datetime] = field(kw_only=True, default=lambda: datetime.now(UTC))
    _gates: dict[str, Gate] = field(init=False, default_factory=dict)
    _checked: set[tuple[str, str]] = field(init=False, default_factory=set)

    def judge_hash(self, judge: Judge) -> str:
        """The judge's hash; a panel's covers its members too."""
        return self.roster.hash_of(judge)

    def identity(self, case: Case, rubric: Rubric[Any], judge: Judge) -> str:
        """Names the work: rubric, judge and its model's revision, case id and case content as the rubric reads it.

        Raises InvalidInput.
        """
        return self._identity(case, rubric, judge, read_case(rubric, case).case_hash)

    def _identity(self, case: Case, rubric: Rubric[Any], judge: Judge, case_hash: str) -> str:
        return content_hash([rubric.content_hash, self.judge_hash(judge), self.revisions(judge), case.id, case_hash])

    def revisions(self, judge: Judge) -> list[str | None]:
        """What pins the models behind a judge beyond their names; None where a backend has nothing to say."""
        if judge.panel:
            return [self.backends.revision(self.roster.get(name)) for name in judge.panel]
        return [self.backends.revision(judge)]

    def forget(self, judge: Judge) -> None:
        """Drop what is kept of a judge that was changed or removed, so that its new limits hold."""
        self._gates.pop(judge.provider_key, None)

    def check(self, rubric: Rubric[Any], judge: Judge) -> None:
        """Refuse a rubric and judge that cannot work together, before any call.

        Raises InvalidInput naming the judge's field, or what opening the backend raises.
        """
        if judge.panel:
            for name in judge.panel:
                try:
                    member = self.roster.get(name)
                except NotFound as error:
                    raise InvalidInput(error.message, fields=[FieldProblem("judge.panel", error.message)]) from None
                if member.panel:
                    raise InvalidInput(
                        f"The panel {judge.name!r} names the panel {name!r}. Name its members instead.",
                        fields=[FieldProblem("judge.panel", "a panel may not contain a panel")],
                    )
                self.check(rubric, member)
            return
        if judge.elicitation not in rubric.elicitations:
            allowed = ", ".join(rubric.elicitations)
            message = f"{rubric.id} can be asked {allowed}, not {judge.elicitation}."
            raise InvalidInput(message, fields=[FieldProblem("judge.elicitation", message)])
        backend = self.backends.get(judge)
        capabilities = backend.capabilities
        needs = judge.order_policy is OrderPolicy.AVERAGE_PROBABILITY and rubric.kind == "pairwise"
        if needs and capabilities.logprobs is False:
            message = f"Judge {judge.name!r} averages probabilities, but its backend gives none."
            raise InvalidInput(message, fields=[FieldProblem("judge.order_policy", message)])
        wanted = judge.enforcement
        for step, constraint in rubric.sample_constraints().items():
            if len(rubric.elicitations) > 1 and step.endswith(".direct") != (judge.elicitation == "direct"):
                # A step that this judge is never asked must not refuse it.
                continue
            report = backend.compile(constraint)
            if report.error is not None:
                message = f"Judge {judge.name!r} cannot enforce step {step!r} of {rubric.id}: {report.error}"
                raise InvalidInput(message, fields=[FieldProblem("judge", message)])
            if wanted is not None and _STRENGTH.index(report.enforcement) > _STRENGTH.index(wanted):
                message = (
                    f"Judge {judge.name!r} must reach enforcement {wanted.value!r} but reaches "
                    f"{report.enforcement.value!r} for step {step!r} of {rubric.id}."
                )
                raise InvalidInput(message, fields=[FieldProblem("judge.enforcement", message)])

    async def judge(
        self, case: Case, rubric: Rubric[Any], judge: Judge, *, fresh: bool = False, budget: Budget | None = None
    ) -> Judgment:
        """Judge one case. `fresh` asks again although replies are cached. A run shares one `budget` among its cases;
        without one the judge's limits hold for this judgment alone.

        Raises InvalidInput for a case that the rubric refuses or a judge that cannot judge it, FatalJudgeError for
        a refused key, and what opening the backend raises. Everything else is an outcome of the judgment.
        """
        started = time.perf_counter()
        reading = read_case(rubric, case)
        parsed, dumped, case_hash = reading.parsed, reading.dumped, reading.case_hash
        judge_hash = self.judge_hash(judge)
        if (rubric.content_hash, judge_hash) not in self._checked:
            self.check(rubric, judge)
            self._checked.add((rubric.content_hash, judge_hash))
        identity = self._identity(case, rubric, judge, case_hash)
        texts = texts_in(dumped)
        fence = fence_of(self.fence_key, rubric, case_hash, texts)
        work = _Work(rubric, case, parsed, dumped, reading.inputs, fence, fresh, budget or Budget.of(judge.limits))
        nothing = rubric.nothing_to_judge(parsed)
        calls: tuple[Call, ...] = ()
        if nothing is not None:
            finding = _not_applicable(nothing)
        elif judge.panel:
            finding, calls = await self._panel(work, judge)
        else:
            finding, calls = await self._repeats(work, judge)
        reported = next((call.model for call in reversed(calls) if call.error is None), None)
        measured = (rubric.id, rubric.content_hash, judge, judge_hash, reported)
        confidence = finding.confidence
        if confidence is not None:
            confidence = self.trust.calibrated(*measured, confidence)
        usage = Usage()
        for call in calls:
            usage = usage + call.usage
        return Judgment(
            id=ordered_id("jdg"),
            identity=identity,
            rubric=rubric.id,
            rubric_hash=rubric.content_hash,
            judge=judge.name,
            judge_hash=judge_hash,
            model=reported or judge.model or judge.name,
            case_id=case.id,
            case_hash=case_hash,
            group=case.group,
            metadata=dict(case.metadata),
            outcome=finding.outcome,
            reason=finding.reason,
            detail=finding.detail,
            score=finding.score,
            label=finding.label,
            confidence=confidence,
            votes=finding.votes,
            flags=_flags(finding, texts, calls),
            record=None if finding.record is None else finding.record.model_dump(mode="json"),
            enforcement=_weakest(calls),
            calls=calls,
            usage=usage,
            latency_ms=(time.perf_counter() - started) * 1000,
            trust=self.trust.trust(*measured),
            created_at=self.now(),
        )

    def as_of_now(self, judgment: Judgment, judge: Judge | None = None) -> Judgment:
        """A judgment that was recorded earlier with the trust and the calibrated confidence that hold today.

        Unchanged when its judge is not known any more (`judge` None: looked up by name).
        """
        if judge is None:
            try:
                judge = self.roster.get(judgment.judge)
            except NotFound:
                return judgment
        reported = judgment.model if any(call.error is None for call in judgment.calls) else None
        measured = (judgment.rubric, judgment.rubric_hash, judge, judgment.judge_hash, reported)
        changed: dict[str, Any] = {"trust": self.trust.trust(*measured)}
        if judgment.confidence is not None:
            raw = judgment.confidence.model_copy(update={"calibrated": None, "map_version": None})
            changed["confidence"] = self.trust.calibrated(*measured, raw)
        return judgment.model_copy(update=changed)

    def prompts(self, judgment: Judgment, case: Case, rubric: Rubric[Any]) -> tuple[tuple[Message, ...] | None, ...]:
        """What each call of a judgment asked, rendered again; None where that cannot be proven by the call's hash."""
        return prompts_again(judgment, case, rubric, self.fence_key)

    def _asker(self, work: _Work, judge: Judge) -> Asker:
        backend = self.backends.get(judge)
        key = judge.provider_key
        gate = self._gates.get(key)
        if gate is None:
            flying = min(judge.limits.concurrency, backend.capabilities.concurrency or judge.limits.concurrency)
            gate = self.gates(key, judge.limits.model_copy(update={"concurrency": flying}), self.clock)
            self._gates[key] = gate
        return Asker(
            judge=judge,
            backend=backend,
            gate=gate,
            rubric_hash=work.rubric.content_hash,
            judge_hash=self.judge_hash(judge),
            cache=self.cache,
            inputs=work.inputs,
            fresh=work.fresh,
            budget=work.budget,
            clock=self.clock,
            now=self.now,
        )

    async def _panel(self, work: _Work, judge: Judge) -> tuple[Finding, tuple[Call, ...]]:
        members = [self.roster.get(name) for name in judge.panel]
        results = await asyncio.gather(*(self._repeats(work, member) for member in members))
        calls = tuple(call for _, made in results for call in made)
        findings = [finding for finding, _ in results]
        vote = _vote(findings, quorum_of(len(members), judge.quorum))
        # A member that contradicts itself marks the panel too.
        return replace(vote, flags=frozenset(flag for finding in findings for flag in finding.flags)), calls

    async def _repeats(self, work: _Work, judge: Judge) -> tuple[Finding, tuple[Call, ...]]:
        if judge.repeats == 1:
            only, made = await self._pass(work, judge, 0)
            return only, tuple(made)
        results = await asyncio.gather(*(self._pass(work, judge, repeat) for repeat in range(judge.repeats)))
        calls = tuple(call for _, made in results for call in made)
        finding = _vote([one for one, _ in results], quorum_of(judge.repeats, judge.quorum))
        if judge.confidence is not ConfidenceSource.VOTE_SHARE and finding.confidence is not None:
            # The first pass's own confidence speaks of one pass and not of the vote: sources are never mixed.
            finding = replace(finding, confidence=None)
        said = {(one.outcome, one.label) for one, _ in results if one.outcome is not Outcome.JUDGE_ERROR}
        return replace(finding, flags=frozenset({Flag.UNSTABLE} if len(said) > 1 else ())), calls

    async def _pass(self, work: _Work, judge: Judge, repeat: int) -> tuple[Finding, list[Call]]:
        if work.rubric.kind == "pairwise":
            return await self._pair(work, judge, repeat)
        asker = self._asker(work, judge)
        plan = work.rubric.plan(work.parsed, work.fence, judge.elicitation)
        try:
            result = await self._drive(work, plan, asker, None, repeat)
        except NoReply as error:
            return Finding.error(error.reason, error.message), asker.calls
        if isinstance(result, NotApplicable):
            return _not_applicable(result), asker.calls
        return (
            Finding(
                Outcome.SCORED,
                score=result.score,
                label=result.label,
                confidence=_confidence(judge, result),
                record=result.record,
            ),
            asker.calls,
        )

    async def _drive(
        self, work: _Work, plan: SinglePlan | PairPlan, asker: Asker, order: Order | None, repeat: int
    ) -> Any:
        subject = Subject(work.rubric.id, work.case.id, work.dumped, order, repeat)
        try:
            ask = next(plan)
            while True:
                ask = plan.send(await asker.ask(ask, subject))
        except StopIteration as finished:
            return finished.value
        finally:
            plan.close()

    async def _order(
        self, work: _Work, judge: Judge, asker: Asker, order: Order, repeat: int
    ) -> SlotVerdict | NotApplicable | NoReply:
        plan = work.rubric.plan_pair(work.parsed, order, work.fence, judge.elicitation)
        try:
            result: SlotVerdict | NotApplicable = await self._drive(work, plan, asker, order, repeat)
        except NoReply as error:
            return error
        return result

    async def _pair(self, work: _Work, judge: Judge, repeat: int) -> tuple[Finding, list[Call]]:
        drawn = judge.order_policy is OrderPolicy.SINGLE_DRAWN
        draw = int(content_hash([work.case.id, work.dumped, repeat])[:8], 16) if drawn else 0
        orders = orders_of(judge.order_policy, draw)
        askers = {order: self._asker(work, judge) for order in orders}
        asked = [self._order(work, judge, askers[order], order, repeat) for order in orders]
        # A task of its own is for what has company.
        answers = [await asked[0]] if len(asked) == 1 else await asyncio.gather(*asked)
        results = dict(zip(orders, answers, strict=True))
        calls = [call for order in orders for call in askers[order].calls]
        for result in results.values():
            if isinstance(result, NotApplicable):
                return _not_applicable(result), calls
        failed = {order: result for order, result in results.items() if isinstance(result, NoReply)}
        given: dict[Order, SlotVerdict] = {o: r for o, r in results.items() if isinstance(r, SlotVerdict)}
        ab, ba = given.get("AB"), given.get("BA")
        if failed:
            return replace(_incomplete(failed, len(orders)), record=_readings(work, judge, ab, ba)), calls
        try:
            fold = fold_pair(judge.order_policy, ab, ba, judge.tie_band)
        except (IncompletePair, NoProbability) as error:
            reason = JudgeErrorReason.MISSING_VERDICT
            if isinstance(error, IncompletePair):
                reason = JudgeErrorReason.INCOMPLETE_PAIR
            return replace(Finding.error(reason, str(error)), record=_readings(work, judge, ab, ba)), calls
        record = work.rubric.pair_record(fold)
        if fold.outcome is not Outcome.SCORED or fold.verdict is None:
            said = f"AB: {answer_of('AB', ab.slot)}, BA: {answer_of('BA', ba.slot)}" if ab and ba else None
            return Finding(Outcome.INCONSISTENT, detail=said, record=record), calls
        return (
            Finding(
                Outcome.SCORED,
                score=_CREDIT[fold.verdict],
                label=fold.verdict,
                confidence=_pair_confidence(judge, fold),
                record=record,
            ),
            calls,
        )


def _not_applicable(nothing: NotApplicable) -> Finding:
    return Finding(Outcome.NOT_APPLICABLE, reason=nothing.reason, record=nothing.record)


def _readings(work: _Work, judge: Judge, ab: SlotVerdict | None, ba: SlotVerdict | None) -> Record | None:
    """The record of a pair without a verdict: what its readable orders said, so that reports can use them."""
    if ab is None and ba is None:
        return None
    fold = PairFold(policy=judge.order_policy.value, outcome=Outcome.JUDGE_ERROR, verdict=None, ab=ab, ba=ba)
    return work.rubric.pair_record(fold)


def _incomplete(failed: Mapping[Order, NoReply], asked: int) -> Finding:
    said = "; ".join(f"order {order}: {error.reason.value}: {error.message}" for order, error in failed.items())
    if len(failed) == asked:
        return Finding.error(next(iter(failed.values())).reason, said)
    return Finding.error(JudgeErrorReason.INCOMPLETE_PAIR, said)


def _flags(finding: Finding, texts: Sequence[str], calls: Sequence[Call]) -> tuple[Flag, ...]:
    found = set(finding.flags)
    if any(map(suspicious, texts)):
        found.add(Flag.SUSPICIOUS_TEXT)
    if any(call.parameters_dropped for call in calls):
        found.add(Flag.SETTINGS_DROPPED)
    return tuple(flag for flag in Flag if flag in found)


def _weakest(calls: Sequence[Call]) -> Enforcement:
    reached = [call.enforcement for call in calls if call.error is None]
    return max(reached, key=_STRENGTH.index) if reached else Enforcement.NONE


def _confidence(judge: Judge, scored: Scored) -> Confidence | None:
    source = judge.confidence
    if source is ConfidenceSource.VERBALISED:
        value = scored.verbalised_confidence
    elif source in (ConfidenceSource.TOKEN_PROBABILITY, ConfidenceSource.CLASSIFIER):
        value = scored.token_confidence
    else:
        value = None
    return None if value is None or source is None else Confidence(value=value, source=source)


def _pair_confidence(judge: Judge, fold: PairFold) -> Confidence | None:
    """Token probability of the verdict in one order; with both orders the averaged vector's entry."""
    mean = mean_probabilities(fold.ab, fold.ba)
    if not wants_probabilities(judge) or judge.confidence is None or mean is None or fold.verdict is None:
        return None
    both = fold.ab is not None and fold.ba is not None
    source = ConfidenceSource.ORDER_AVERAGE if both else judge.confidence
    if source is ConfidenceSource.ORDER_AVERAGE and not both:
        return None
    return Confidence(value=min(max(mean[fold.verdict], 0.0), 1.0), source=source)


def _vote(findings: Sequence[Finding], quorum: int) -> Finding:
    """The majority of several findings. Below the quorum there is no verdict; a split vote is inconsistent."""
    cast = [finding for finding in findings if finding.label is not None]
    counts = Counter(finding.label for finding in cast if finding.label is not None)
    share = max(counts.values()) / len(cast) if cast else None
    votes = Votes(counts=dict(sorted(counts.items())), cast=len(cast), asked=len(findings), share=share)
    if len(cast) >= quorum:
        vote = majority([finding.label for finding in cast if finding.label is not None])
        if vote.label is None:
            said = ", ".join(f"{label} {count}" for label, count in votes.counts.items())
            return Finding(Outcome.INCONSISTENT, detail=f"the votes are split: {said}", votes=votes)
        winner = next(finding for finding in cast if finding.label == vote.label)
        confidence = Confidence(value=vote.share, source=ConfidenceSource.VOTE_SHARE)
        return replace(winner, confidence=confidence, votes=votes)
    others = [finding for finding in findings if finding.label is None]
    outcome = Counter((finding.outcome, finding.reason) for finding in others).most_common(1)[0][0]
    first = next(finding for finding in others if (finding.outcome, finding.reason) == outcome)
    said = f"{len(cast)} of {len(findings)} votes could be counted, {quorum} are needed"
    detail = said if first.detail is None else f"{said}; {first.detail}"
    return replace(first, detail=detail, record=None, votes=votes)
