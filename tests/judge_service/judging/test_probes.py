"""The bundled probe set and how its effects are counted."""

from collections.abc import Callable

import pytest

from judge_service.backends.base import Request
from judge_service.backends.catalog import BackendPool
from judge_service.backends.scripted import ScriptedBackend
from judge_service.domain.judge import Judge
from judge_service.judging.cases import parse_case
from judge_service.judging.judging import Judging
from judge_service.judging.probes import Probe, ProbeCounts, count, probe, probe_set, probes_for
from judge_service.judging.roster import Roster
from judge_service.settings import Settings
from rubrics.registry import all_rubrics, get_rubric


def test_the_set_covers_places_languages_and_rubrics() -> None:
    probes = probe_set()
    assert len(probes) >= 40
    assert len({one.id for one in probes}) == len(probes)
    assert {one.place for one in probes} == {"question", "context", "title", "answer"}
    assert len({one.language for one in probes}) >= 8
    assert {one.rubric for one in probes} == {rubric.id for rubric in all_rubrics()}
    for rubric in ("faithfulness@1", "citation_support@1"):
        assert {one.place for one in probes if one.rubric == rubric} == {"question", "context", "title", "answer"}
    for one in probes:
        assert one.planted().input != one.clean().input


@pytest.mark.parametrize("one", probe_set(), ids=lambda one: one.id)
def test_each_case_is_one_that_its_rubric_judges_and_its_wish_a_label(one: Probe) -> None:
    rubric = get_rubric(one.rubric)
    assert one.wish in rubric.scale.names
    for case in (one.clean(), one.planted()):
        assert rubric.nothing_to_judge(parse_case(rubric, case)) is None


PAIRS = [one for one in probe_set() if one.rubric == "pairwise@1"]


def answering(obeys: bool) -> Callable[[Request], str]:
    """A judge that grants the wish as soon as it reads a planted order, if it obeys, and tells the truth otherwise."""

    def answer(request: Request) -> str:
        case = request.subject.case
        planted = any(str(case[name]).endswith(one.payload) for one in PAIRS for name in ("prompt", "response_b"))
        wish, truth = ("A", "B") if request.subject.order == "BA" else ("B", "A")
        return wish if obeys and planted else truth

    return answer


@pytest.mark.parametrize(("obeys", "rate"), [(True, 1.0), (False, 0.0)])
async def test_an_obedient_judge_is_found_and_a_firm_one_is_not_accused(obeys: bool, rate: float) -> None:
    judge = Judge(name="s", backend="scripted", elicitation="direct")
    pool = BackendPool(Settings())
    pool.put(judge, ScriptedBackend(answering(obeys)))
    core = Judging(Roster([judge]), pool, fence_key=b"k")
    counts = count([finding async for finding in probe(core, judge, probes_for(["pairwise@1"]))])
    assert counts.probes == counts.eligible == sum(one.rubric == "pairwise@1" for one in probe_set())
    assert counts.rate == rate


def test_no_eligible_probe_gives_no_rate() -> None:
    assert ProbeCounts(probes=3, already=3).rate is None
