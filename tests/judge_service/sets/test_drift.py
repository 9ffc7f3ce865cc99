"""Drift with scripted judges: one that stays, one that changes, one whose provider reports another model."""

import asyncio
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from judge_service.app import Service
from judge_service.backends.base import BackendFailure, Completion, Request
from judge_service.backends.scripted import ScriptedBackend
from judge_service.domain.calibration_set import Label, SetCase, Split
from judge_service.domain.case import Case
from judge_service.domain.drift import DriftRecord, DriftVerdict
from judge_service.domain.judge import Judge
from judge_service.domain.outcome import Enforcement, JudgeErrorReason
from judge_service.domain.run import RunStatus
from judge_service.errors import Conflict, InvalidInput, NotFound
from judge_service.reports.drift_report import EXIT_CODES, to_markdown
from judge_service.reports.labelled_set import read_set
from judge_service.runs.worker import this_worker
from judge_service.sets import drift as module
from judge_service.sets.drift import Asked
from judge_service.settings import Settings

NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)
JUDGE = Judge(
    name="hosted",
    backend="scripted",
    model="m",
    options={"replies": ["x"]},
    elicitation="direct",
    order_policy="single_ab",
)
Says = Callable[[Request], str]


class Model:
    """What stands behind the provider's name: `say` gives the slot, `name` what the provider reports."""

    def __init__(self) -> None:
        self.say: Says = right
        self.name = "m-2026-01"
        self.calls = 0

    def __call__(self, request: Request) -> Any:
        self.calls += 1
        text = self.say(request)
        if text == "fail":
            raise BackendFailure(JudgeErrorReason.PROVIDER_ERROR, "down")
        return Completion(text, "stop", self.name, Enforcement.NONE)


def number(request: Request) -> int:
    return int(request.subject.case_id.rpartition("-")[2])


def right(request: Request) -> str:
    return "A" if number(request) % 2 else "B"


def wrong_below(limit: int) -> Says:
    return lambda request: {"A": "B", "B": "A"}[right(request)] if number(request) < limit else right(request)


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def service(tmp_path: Path, model: Model) -> Iterator[Service]:
    found = Service.open(Settings(data_dir=tmp_path))
    found.roster.add(JUDGE)
    found.backends.put(JUDGE, ScriptedBackend(model, keep_requests=False))
    yield found
    found.store.close()


def anchored(service: Service, n: int = 80, split: Split = Split.MONITORING, name: str = "anchors") -> str:
    store = service.store
    version = store.sets.create(name, "pairwise@1")
    cases = [
        Case(id=f"c-{i}", input={"prompt": f"Question {i} of {name}?", "response_a": f"a{i}", "response_b": f"b{i}"})
        for i in range(n)
    ]
    store.sets.add_cases(version.id, [SetCase(case=case, split=split) for case in cases])
    labels = []
    for i, case in enumerate(cases):
        labels.append(
            Label(
                set_id=version.id,
                case_id=case.id,
                rubric="pairwise@1",
                annotator="ann",
                label="A" if i % 2 else "B",
                created_at=NOON,
            )
        )
    store.labels.add(version.id, labels)
    store.sets.freeze(version.id, store.sets.digest(version.id))
    return version.id


def check(service: Service, **options: Any) -> DriftRecord:
    asked = Asked(**{"set": "anchors", "judge": "hosted", "repeats": 3, **options})
    return asyncio.run(service.watch.checks.check(asked))


def test_a_judge_that_stays_is_seen_to_stay(service: Service, model: Model) -> None:
    anchored(service)
    first = check(service)
    assert (first.kind, first.verdict) == ("baseline", DriftVerdict.BASELINE_STORED)
    assert model.calls == 3 * 80
    assert first.models == ("m-2026-01",)
    assert first.result["noise_rate"]["value"] == 0.0
    second, third = check(service), check(service)
    assert model.calls == 5 * 80
    assert (second.verdict, second.look) == (DriftVerdict.NO_CHANGE, 1)
    assert (third.verdict, third.look) == (DriftVerdict.NO_CHANGE, 2)
    assert third.result["alpha"] == pytest.approx(second.result["alpha"] / 4)
    assert second.result["correctness"]["mean"]["value"] == 0.0
    assert second.result["largest_unseen"]["value"] == pytest.approx(3 / 80)
    said = to_markdown(second)
    assert said.startswith("### ✓ No change seen")
    assert "Smallest change this look finds with 80% power" in said
    assert [found.id for found in service.store.drift.all(judge="hosted")] == [third.id, second.id, first.id]
    assert service.store.drift.get(second.id) == second
    uses = [use for use in service.store.sets.uses("anchors@1") if use.split is Split.MONITORING]
    assert {use.judge for use in uses} == {"hosted"}


def test_a_judge_that_changes_is_found(service: Service, model: Model) -> None:
    anchored(service)
    check(service)
    model.say = wrong_below(16)
    found = check(service)
    assert found.verdict is DriftVerdict.JUDGE_CHANGED
    assert set(found.result["alarm"]) == {"verdicts", "correctness"}
    assert found.result["flip_rate"]["value"] == pytest.approx(0.2)
    assert found.result["correctness"]["mean"]["value"] == pytest.approx(-0.2)
    assert found.result["correctness_test"]["value"] == pytest.approx(2 * 0.25**16)
    assert found.result["moves"] == [{"from": "A", "to": "B", "n": 8}, {"from": "B", "to": "A", "n": 8}]
    assert found.result["changed_cases"] == [f"c-{i}" for i in range(16)]
    assert EXIT_CODES[found.verdict] == 1
    assert "Verdicts flip more than repeats of the baseline did." in to_markdown(found)


def test_another_reported_model_is_a_changed_system(service: Service, model: Model) -> None:
    anchored(service)
    check(service)
    model.name = "m-2026-02"
    found = check(service)
    assert found.verdict is DriftVerdict.SYSTEM_CHANGED
    assert found.result["alarm"] == []
    assert found.result["reasons"] == ["m-2026-02 answered, not m-2026-01."]
    assert "the calibration no longer holds" in to_markdown(found)
    renewed = check(service, new_baseline=True)
    assert renewed.kind == "baseline"
    assert check(service).verdict is DriftVerdict.NO_CHANGE


def test_a_changed_configuration_is_known_without_a_call(service: Service, model: Model) -> None:
    anchored(service)
    check(service)
    before = model.calls
    service.roster.add(JUDGE.model_copy(update={"elicitation": "reasoned"}))
    found = check(service)
    assert model.calls == before
    assert found.verdict is DriftVerdict.SYSTEM_CHANGED
    assert found.runs == ()
    assert found.result == {
        "asked": False,
        "reasons": ["The judge's configuration changed since the baseline was made."],
    }
    service.roster.add(JUDGE)
    # What asked nothing was no look.
    assert check(service).look == 1


def test_another_program_cannot_be_told_from_the_judge(
    service: Service, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    anchored(service)
    check(service)
    monkeypatch.setattr(module, "__version__", "99.0.0")
    assert check(service).verdict is DriftVerdict.NO_CHANGE
    model.say = wrong_below(16)
    found = check(service)
    assert found.verdict is DriftVerdict.SYSTEM_CHANGED
    assert "to 99.0.0: the change may be its own." in found.result["reasons"][0]


def test_a_wavering_judge_has_its_noise_taken_off(service: Service, model: Model) -> None:
    anchored(service)
    draw = random.Random(2)
    model.say = lambda request: right(request) if draw.random() < 0.8 else "tie"
    first = check(service, repeats=5)
    assert 0.2 < first.result["noise_rate"]["value"] < 0.45
    assert first.result["noise"] > first.result["noise_rate"]["value"]
    found = check(service)
    assert found.verdict is DriftVerdict.NO_CHANGE
    assert found.result["flip_rate"]["value"] > 0.05


def test_a_judge_that_stops_answering_is_a_changed_judge(service: Service, model: Model) -> None:
    anchored(service)
    check(service)
    model.say = lambda request: "fail" if number(request) < 40 else right(request)
    found = check(service)
    assert found.verdict is DriftVerdict.JUDGE_CHANGED
    assert found.result["alarm"] == ["correctness", "failures"]
    assert found.result["usable"]["mean"]["value"] == pytest.approx(-0.5)
    model.say = lambda _: "fail"
    silent = check(service)
    assert silent.verdict is DriftVerdict.JUDGE_CHANGED
    assert silent.result["flip_rate"]["value"] is None
    assert "cannot be computed" in to_markdown(silent)
    service.store.drift.add(silent)


def test_no_baseline_is_made_of_failures_only(service: Service, model: Model) -> None:
    anchored(service)
    model.say = lambda _: "fail"
    with pytest.raises(Conflict, match="gave no verdict on any anchor"):
        check(service)
    assert service.store.drift.all() == []


def test_too_few_anchors_see_nothing_and_say_so(service: Service, model: Model) -> None:
    anchored(service, n=2)
    check(service)
    model.say = wrong_below(2)
    found = check(service)
    assert found.verdict is DriftVerdict.NO_CHANGE
    assert found.result["smallest_flip_rate"]["undefined_reason"] == "too_few_cases"
    assert "Too few anchors for any rate of flips to be seen" in to_markdown(found)


def test_nothing_recorded_is_used_or_replaced(service: Service, model: Model) -> None:
    set_id = anchored(service)
    case = next(iter(service.store.sets.cases(set_id))).case
    rubric = service.watch.checks.anchors(Asked("anchors", "hosted")).rubric
    own = asyncio.run(service.executor.execute(case, rubric, JUDGE))
    model.say = wrong_below(80)
    check(service)
    assert model.calls == 1 + 3 * 80
    assert service.store.judgments.current(own.identity) == own
    with pytest.raises(NotFound):
        read_set(service.store, set_id, judges=["hosted"])


def dies_at_the_hundredth(model: Model) -> Says:
    """A provider that refuses the key in the middle of a check."""

    def say(request: Request) -> str:
        if model.calls == 100:
            raise BackendFailure(JudgeErrorReason.PROVIDER_ERROR, "key revoked", fatal=True)
        return right(request)

    return say


def test_a_check_that_was_stopped_goes_on(service: Service, model: Model) -> None:
    anchored(service)
    model.say = dies_at_the_hundredth(model)
    with pytest.raises(Conflict, match="not all judged"):
        check(service)
    spent = model.calls
    model.say = right
    assert check(service).verdict is DriftVerdict.BASELINE_STORED
    assert model.calls < spent + 3 * 80 - 90
    assert len(service.store.drift.all()) == 1


def test_a_check_whose_run_was_cancelled_weighs_no_part_of_it(service: Service, model: Model) -> None:
    anchored(service)
    model.say = dies_at_the_hundredth(model)
    with pytest.raises(Conflict, match="key revoked"):
        check(service)
    model.say = right
    [stopped] = service.store.runs.list(status=RunStatus.FAILED)
    service.store.runs.start(stopped.id, f"{this_worker().split('|')[0]}|999999999|1|token", resume=True)
    service.store.runs.cancel(stopped.id)
    with pytest.raises(Conflict, match=f"run {stopped.id} was cancelled"):
        check(service)
    assert service.store.drift.all() == []
    assert check(service).verdict is DriftVerdict.BASELINE_STORED


def test_runs_of_a_check_are_resumed_by_it_alone(service: Service) -> None:
    anchored(service)
    found = check(service)

    async def resume() -> None:
        with pytest.raises(Conflict, match="part of a drift check"):
            await service.background.resume(found.runs[0])

    asyncio.run(resume())


def test_which_cases_are_anchors(service: Service) -> None:
    anchored(service, 10, Split.CALIBRATION, "plain")
    anchored(service, 10, Split.RELEASE, "release")
    found = check(service, set="plain")
    assert (found.split, found.n) == (None, 10)
    with pytest.raises(InvalidInput, match="no case outside its release split"):
        check(service, set="release")
    with pytest.raises(InvalidInput):
        check(service, set="plain", split=Split.MONITORING)
    for options in ({"split": Split.RELEASE}, {"repeats": 1}, {"repeats": 21}, {"planned": 0}):
        with pytest.raises(InvalidInput):
            check(service, set="plain", **options)
    service.store.sets.create("open", "pairwise@1")
    with pytest.raises(Conflict, match="not frozen"):
        check(service, set="open")
    with pytest.raises(NotFound):
        check(service, set="none")
    with pytest.raises(NotFound):
        check(service, set="plain", judge="nobody")


def test_planned_looks_share_the_level(service: Service) -> None:
    anchored(service, 20)
    check(service)
    assert check(service, planned=2).result["alpha"] == pytest.approx(0.025)
    check(service, planned=2)
    with pytest.raises(InvalidInput, match="2 looks were taken"):
        check(service, planned=2)
