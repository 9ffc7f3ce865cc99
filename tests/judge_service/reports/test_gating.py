import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from calibration.intervals import mean_t, proportion
from judge_service.domain.judge import Judge
from judge_service.errors import Conflict, InvalidInput
from judge_service.reports.gating import (
    EXIT_CODES,
    Requirements,
    Verdict,
    Wanted,
    could_not_run,
    decide,
    to_markdown,
)
from judge_service.reports.run_report import run_report
from judge_service.store import Store
from tests.judge_service.reports.runs import open_store, run_of

JUDGE = Judge(name="old", backend="scripted", model="m")
OTHER = Judge(name="new", backend="scripted", model="m", sampling={"seed": 9})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path) as opened:
        yield opened


def report(estimate: dict[str, Any], *, lost: int = 0, **changes: Any) -> dict[str, Any]:
    """A run report with what a gate reads."""
    n = estimate["n"]
    found = {
        "run": {"id": "run_1", "rubric": "faithfulness@1", "judge": "j", "status": "finished", "source": None},
        "scale": {"labels": [], "minimum": 0.0, "maximum": 1.0, "higher_is_better": True},
        "numbers": {
            "n_total": n + lost,
            "n_scored": n,
            "coverage": proportion(n, n + lost).to_dict(),
            "mean_score": estimate,
            "labels": {},
            "corrected": None,
            "reasons": {},
            "outcomes": {"scored": n, "judge_error": lost, "not_judged": 0, "inconsistent": 0, "not_applicable": 0},
        },
        "trust": [{"level": "uncalibrated", "reason": "Nothing is stored."}],
        "comparison": None,
    }
    return found | changes


def verdict(estimate: dict[str, Any], minimum: float, **options: Any) -> str:
    required = Requirements(minimums=(Wanted("faithfulness", minimum),), **options)
    return decide([report(estimate)], required)["verdict"]


@pytest.mark.parametrize(
    ("passed", "n", "minimum", "expected"),
    [
        (270, 300, 0.85, "pass"),
        (240, 300, 0.85, "fail"),
        (261, 300, 0.85, "not enough evidence"),
        (29, 29, 0.5, "not enough evidence"),
        (30, 30, 0.85, "pass"),
        (0, 40, 0.1, "fail"),
    ],
)
def test_the_lower_end_decides(passed: int, n: int, minimum: float, expected: str) -> None:
    low, _ = proportion_confint(passed, n, method="wilson")
    assert (expected == "pass") == (low >= minimum and n >= 30)
    assert verdict(proportion(passed, n).to_dict(), minimum) == expected


def test_the_point_decides_when_asked_and_only_with_enough_cases() -> None:
    assert verdict(proportion(261, 300).to_dict(), 0.85, point=True) == "pass"
    assert verdict(proportion(254, 300).to_dict(), 0.85, point=True) == "fail"
    assert verdict(proportion(29, 29).to_dict(), 0.5, point=True) == "not enough evidence"
    assert verdict(proportion(9, 10).to_dict(), 0.5, point=True, min_n=10) == "pass"


def test_an_open_check_says_how_many_cases_would_decide_it() -> None:
    estimate = proportion(261, 300).to_dict()
    [check, _] = decide([report(estimate)], Requirements(minimums=(Wanted("score", 0.85),)))["checks"]
    half, margin = estimate["value"] - estimate["low"], estimate["value"] - 0.85
    assert check["needed"] == math.ceil(300 * (half / margin) ** 2)
    n = check["needed"]
    # With that many cases and the same value, it is nearly a pass.
    low, _ = proportion_confint(round(0.87 * n), n, method="wilson")
    assert low == pytest.approx(0.85, abs=0.002)
    exactly = decide([report(proportion(255, 300).to_dict())], Requirements(minimums=(Wanted("score", 0.85),)))
    assert exactly["verdict"] == "not enough evidence"
    assert exactly["checks"][0]["needed"] is None


def test_scores_that_are_all_alike_have_the_end_of_the_rule_of_three() -> None:
    alike = mean_t([0.9] * 60).to_dict()
    assert alike["low"] is None
    # 3 of 60 at worst: 0.9 - 0.9 * 3/60.
    assert verdict(alike, 0.855) == "pass"
    assert verdict(alike, 0.856) == "not enough evidence"
    grouped = alike | {"details": {"groups": 12}}
    assert verdict(grouped, 0.68) == "not enough evidence"
    assert verdict(grouped, 0.675) == "pass"


def test_no_interval_is_no_evidence() -> None:
    few = proportion(50, 60).to_dict() | {"low": None, "high": None, "interval_reason": "too_few_groups"}
    assert verdict(few, 0.1) == "not enough evidence"
    mixed = few | {"value": None, "undefined_reason": "mixed_conditions"}
    assert verdict(mixed, 0.1) == "not enough evidence"


def test_nothing_scored_is_never_a_pass_and_never_a_plain_failure(store: Store) -> None:
    run = run_of(store, {f"case-{i}": "timeout" for i in range(40)}, JUDGE)
    found = run_report(store, run.id)
    for required in (
        Requirements(minimums=(Wanted("score", 0.0),)),
        Requirements(min_coverage=0.0, max_error_rate=1.0),
        Requirements(min_coverage=0.9),
        Requirements(minimums=(Wanted("score", 0.0),), point=True, max_error_rate=0.0),
    ):
        decision = decide([found], required)
        assert decision["verdict"] == "not enough evidence"
        assert decision["exit_code"] == 2


def test_coverage_and_errors_are_counted(store: Store) -> None:
    ends = ["A"] * 45 + ["timeout"] * 3 + ["inconsistent", "empty"]
    run = run_of(store, {f"case-{i}": end for i, end in enumerate(ends)}, JUDGE)
    found = run_report(store, run.id)
    assert decide([found], Requirements(min_coverage=0.9, max_error_rate=0.06))["verdict"] == "pass"
    assert decide([found], Requirements(min_coverage=0.91))["verdict"] == "fail"
    assert decide([found], Requirements(min_coverage=0.9, max_error_rate=0.05))["verdict"] == "fail"
    text = to_markdown(decide([found], Requirements(min_coverage=0.91)))
    assert text.startswith("### ✕ Failed")
    assert "45 of 50 scored (90.0%)" in text
    assert "judge\\_error:timeout 3" in text.replace("judge error", "judge\\_error")


def test_figures_by_label_and_by_correction(store: Store) -> None:
    run = run_of(store, {f"case-{i}": "A" if i % 4 else "B" for i in range(200)}, JUDGE)
    found = run_report(store, run.id)

    def of(name: str, limit: float, *, largest: bool = False) -> str:
        wanted = (Wanted(name, limit),)
        required = Requirements(maximums=wanted) if largest else Requirements(minimums=wanted)
        return decide([found], required)["verdict"]

    assert of("label:A", 0.65) == "pass"
    assert of("label:B", 0.35, largest=True) == "pass"
    assert of("label:B", 0.28, largest=True) == "not enough evidence"
    assert of("label:B", 0.2, largest=True) == "fail"
    for name in ("label:C", "rogan_gladen:A", "faithfulness", "ppi:A"):
        with pytest.raises(InvalidInput, match="label:A, label:B, label:tie, pairwise"):
            of(name, 0.5)
    with pytest.raises(InvalidInput, match="several runs"):
        decide([found, found], Requirements(minimums=(Wanted("score", 0.5),)))


def test_corrected_figures_come_from_the_report() -> None:
    found = report(proportion(50, 100).to_dict())
    found["numbers"]["labels"] = {"supported": proportion(50, 100).to_dict()}
    way = {"rogan_gladen": proportion(90, 100).to_dict(), "ppi_plus_plus": proportion(40, 100).to_dict()}
    found["numbers"]["corrected"] = {"labels": {"supported": way}}
    for name, expected in (("rogan_gladen", "pass"), ("ppi", "fail"), ("label", "fail")):
        required = Requirements(minimums=(Wanted(f"{name}:supported", 0.7),))
        assert decide([found], required)["verdict"] == expected


def pair_of_reports(store: Store, before: list[str], after: list[str]) -> dict[str, Any]:
    a = run_of(store, {f"case-{i}": end for i, end in enumerate(before)}, JUDGE)
    b = run_of(store, {f"case-{i}": end for i, end in enumerate(after)}, OTHER)
    return run_report(store, b.id, compare=a.id)


@pytest.mark.parametrize(
    ("before", "after", "drop", "expected"),
    [
        (["A"] * 200, ["A"] * 200, 0.05, "pass"),
        (["A"] * 200, ["A"] * 200, 0.01, "not enough evidence"),
        (["A"] * 200, ["A"] * 150 + ["B"] * 50, 0.02, "fail"),
        (["A"] * 100 + ["B"] * 100, ["A"] * 104 + ["B"] * 96, 0.02, "pass"),
        (["A"] * 20, ["A"] * 20, 0.5, "not enough evidence"),
        (["A"] * 40, ["timeout"] * 40, 0.5, "not enough evidence"),
    ],
)
def test_a_drop_is_held_against_the_paired_difference(
    store: Store, before: list[str], after: list[str], drop: float, expected: str
) -> None:
    found = pair_of_reports(store, before, after)
    decision = decide([found], Requirements(max_drop=drop, max_error_rate=1.0))
    assert decision["verdict"] == expected
    if found["comparison"]["decisive"]["low"] is not None and expected != "not enough evidence":
        assert (found["comparison"]["decisive"]["low"] >= -drop) == (expected == "pass")


def test_what_a_gate_cannot_decide_about_is_refused(store: Store) -> None:
    fine = report(proportion(90, 100).to_dict())
    for state in ("queued", "running", "cancelling"):
        with pytest.raises(Conflict, match="has not ended"):
            decide([fine | {"run": fine["run"] | {"status": state}}], Requirements(min_coverage=0.1))
    apart = {"comparable": False, "headline": "Not comparable: a@1 and a@2", "differences": ["They differ."]}
    with pytest.raises(Conflict, match="Not comparable: a@1 and a@2"):
        decide([fine | {"comparison": apart}], Requirements(max_drop=0.1))
    with pytest.raises(InvalidInput):
        decide([fine], Requirements(max_drop=0.1))
    with pytest.raises(InvalidInput):
        decide([], Requirements(min_coverage=0.1))


def test_an_uncalibrated_judge_is_no_evidence_where_that_is_asked() -> None:
    fine = report(proportion(95, 100).to_dict())
    required = Requirements(minimums=(Wanted("score", 0.5),), calibrated=True)
    decision = decide([fine], required)
    assert decision["verdict"] == "not enough evidence"
    assert "Nothing is stored." in to_markdown(decision)
    trusted = fine | {"trust": [{"level": "calibrated", "reason": "Measured on 200 labelled cases."}]}
    assert decide([trusted], required)["verdict"] == "pass"


@pytest.mark.parametrize("text", ["faithfulness", "=0.5", "a=b", "a=nan", "a=inf", "a=1e999", "", "a=0.5=0.6", "a=--1"])
def test_what_is_no_requirement_is_refused_with_the_option(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Wanted.parse(text, "--min")
    assert refused.value.fields[0].path == "--min"


def test_requirements_are_read() -> None:
    assert Wanted.parse(" label:not supported = 0.25 ", "--min") == Wanted("label:not supported", 0.25)
    assert to_markdown(could_not_run("No *run*.")) == "### ! Could not run\n\nNo \\*run\\*.\n"
    assert [EXIT_CODES[verdict] for verdict in Verdict] == [0, 1, 2, 3]


@given(st.integers(1, 400), st.integers(0, 400), st.floats(0, 1), st.integers(0, 60))
def test_a_pass_has_its_evidence(n: int, passed: int, minimum: float, lost: int) -> None:
    passed = min(passed, n)
    estimate = proportion(passed, n).to_dict()
    decision = decide([report(estimate, lost=lost)], Requirements(minimums=(Wanted("score", minimum),)))
    share_lost = lost / (n + lost)
    if decision["verdict"] == "pass":
        assert n >= 30
        assert estimate["low"] >= minimum
        assert share_lost <= 0.1
    elif decision["verdict"] == "fail":
        assert (n >= 30 and passed / n < minimum) or share_lost > 0.1
    assert decision["exit_code"] == EXIT_CODES[Verdict(decision["verdict"])]


@given(st.integers(30, 300), st.integers(0, 300), st.floats(0, 1), st.floats(0, 1))
def test_a_stricter_minimum_never_turns_a_failure_into_a_pass(n: int, passed: int, one: float, two: float) -> None:
    assume(passed <= n)
    estimate = proportion(passed, n).to_dict()
    easy, hard = sorted((one, two))
    order = ["pass", "not enough evidence", "fail"]
    assert order.index(verdict(estimate, easy)) <= order.index(verdict(estimate, hard))
