"""Judges as leads see them: trust per rubric with its reason, settings, hash, measurements."""

from datetime import UTC, datetime

import pytest

from judge_service.domain.calibration import Calibration
from judge_service.domain.calibration_set import Split
from judge_service.domain.principal import Role
from rubrics.registry import get_rubric
from tests.judge_service.annotation.projects import a_set
from tests.judge_service.web.conftest import words


def measured(service, **more) -> Calibration:
    """A measurement of the judge `overlap` on a frozen set."""
    a_set(service.store, 3)
    version = service.store.sets.freeze("pairs@1", service.store.sets.digest("pairs@1"))
    judge, rubric = service.roster.get("overlap"), get_rubric("pairwise@1")
    made = Calibration(
        id="cal_1",
        rubric=rubric.id,
        rubric_hash=rubric.content_hash,
        judge=judge.name,
        judge_hash=service.judging.judge_hash(judge),
        models=("overlap-2",),
        set_id=version.id,
        set_hash=str(version.content_hash),
        split=Split.CALIBRATION,
        runs=(),
        n=212,
        groups=212,
        agreement=0.84,
        agreement_low=0.801,
        agreement_high=0.872,
        kappa=0.66,
        created_at=datetime(2026, 1, 15, tzinfo=UTC),
    ).model_copy(update=more)
    service.store.calibrations.add(made, {})
    return made


async def test_judges_are_for_leads(signed_in) -> None:
    for path in ("/judges", "/judges/overlap"):
        assert (await signed_in("Ann", Role.ANNOTATE).get(path)).status_code == 403
        assert (await signed_in().get(path)).status_code == 200
    assert (await signed_in().get("/judges/nobody")).status_code == 404


async def test_nothing_measured_is_said_in_words(signed_in, service) -> None:
    page = words(await signed_in().get("/judges"))
    assert "overlap ? Uncalibrated under every rubric" in page
    one = words(await signed_in().get("/judges/overlap"))
    assert "pairwise@1 ? Uncalibrated No agreement with people has been measured" in one
    assert "Not measured Not measured none yet" in one
    assert "Model as reported not measured yet" in one
    assert f"Hash {service.judging.judge_hash(service.roster.get('overlap'))}" in one


async def test_trust_stands_with_its_interval_and_report(signed_in, service) -> None:
    measured(service)
    page = await signed_in().get("/judges/overlap")
    assert "✓ Calibrated Measured on 212 labelled cases of pairs@1, split calibration." in words(page)
    assert "84.0% 80.1 to 87.2 n = 212 0.66 n = 212 interval in the report pairs@1" in words(page)
    assert 'href="/reports/pairs%401?rubric=pairwise%401"' in page.text
    assert "Model as reported overlap-2" in words(page)
    listed = words(await signed_in().get("/judges"))
    assert "overlap ✓ Calibrated pairwise@1: 84.0% (80.1 to 87.2, n = 212)" in listed


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"judge_hash": "0" * 64}, "↻ Stale The judge's configuration changed since it was measured."),
        ({"rubric_hash": "0" * 64}, "↻ Stale Measured under another content of it, not under this pairwise@1."),
        ({"shortcoming": "Only 212 labels."}, "◔ Insufficient Only 212 labels."),
    ],
)
async def test_stale_says_what_changed(signed_in, service, changed, said) -> None:
    measured(service, **changed)
    assert said in words(await signed_in().get("/judges/overlap"))
    assert said.partition(" ")[2].partition(" ")[0] in words(await signed_in().get("/judges"))


async def test_a_figure_that_is_undefined_says_so(signed_in, service) -> None:
    measured(service, kappa=None, agreement_low=None, agreement_high=None)
    page = words(await signed_in().get("/judges/overlap"))
    assert "84.0% no interval n = 212 Undefined the report says why" in page
    assert "None" not in page.split()
