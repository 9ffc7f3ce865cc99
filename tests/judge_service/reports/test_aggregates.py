from dataclasses import replace
from typing import Any

import pytest

from judge_service.domain.calibration import Calibration
from judge_service.domain.outcome import Outcome
from judge_service.errors import InvalidInput
from judge_service.reports.aggregates import Correction, aggregate_rows, corrected, slices
from judge_service.store import ResultRow
from rubrics.registry import get_rubric

RUBRIC = get_rubric("faithfulness@1")


def row(number: int, score: float | None, outcome: Outcome | None = Outcome.SCORED, **changes: Any) -> ResultRow:
    fields: dict[str, Any] = {
        "case_id": f"c{number}",
        "identity": f"i{number}",
        "group": None,
        "metadata": {},
        "outcome": outcome,
        "reason": None,
        "label": None if score is None else "supported" if score == 1 else "unsupported",
        "score": score,
        "enforcement": "grammar",
        "judge_hash": "j",
        "model": "m",
    }
    return ResultRow(**(fields | changes))


def failed(number: int, **changes: Any) -> ResultRow:
    return row(number, None, Outcome.JUDGE_ERROR, reason="timeout", **changes)


def test_a_mean_says_what_it_leaves_out() -> None:
    rows = [
        row(1, 1.0),
        row(2, 0.5),
        failed(3),
        row(4, None, Outcome.NOT_APPLICABLE, reason="no_claims"),
        row(5, None, None),
    ]
    found = aggregate_rows(RUBRIC, rows)
    assert found["n_total"] == 5
    assert found["n_scored"] == 2
    assert found["n_failed"] == 2
    assert found["coverage"]["value"] == 0.4
    assert found["mean_score"]["value"] == 0.75
    assert found["mean_score"]["n"] == 2
    assert found["bounds"] == {"low": 0.375, "high": 0.875, "n": 4}
    assert found["reasons"] == {"judge_error:timeout": 1, "not_applicable:no_claims": 1}
    assert found["outcomes"]["not_judged"] == 1
    assert found["corrected"] is None


def test_nothing_scored_has_no_mean_and_says_why() -> None:
    found = aggregate_rows(RUBRIC, [failed(1), failed(2)])
    assert found["mean_score"]["value"] is None
    assert found["mean_score"]["undefined_reason"] == "empty"
    assert found["bounds"] == {"low": 0.0, "high": 1.0, "n": 2}
    assert aggregate_rows(RUBRIC, [])["coverage"]["undefined_reason"] == "empty"


def test_grouped_cases_have_a_clustered_interval() -> None:
    rows = [row(i, float(i % 4 < 2), group=f"g{i // 4}") for i in range(80)]
    alone = aggregate_rows(RUBRIC, [row(i, float(i % 4 < 2)) for i in range(80)])["mean_score"]
    grouped = aggregate_rows(RUBRIC, rows)["mean_score"]
    assert alone["method"] == "wilson"
    assert grouped["method"] == "clustered_t"
    assert grouped["details"]["groups"] == 20
    assert grouped["value"] == alone["value"] == 0.5


def test_different_enforcement_is_not_averaged_unless_said() -> None:
    rows = [row(1, 1.0), row(2, 0.0, enforcement="none")]
    found = aggregate_rows(RUBRIC, rows)
    assert found["mean_score"]["undefined_reason"] == "mixed_conditions"
    assert found["bounds"] is None
    assert found["by_enforcement"]["grammar"]["value"] == 1.0
    assert found["labels"]["supported"]["value"] is None
    assert aggregate_rows(RUBRIC, rows, mix=True)["mean_score"]["value"] == 0.5


def test_slices_count_what_has_no_key() -> None:
    rows = [row(i, 1.0, metadata={"language": "en", "gold": True}) for i in range(31)]
    rows += [row(40, 0.0, metadata={"language": "de"}), row(41, 0.0)]
    found = slices(RUBRIC, rows, "language", mix=False, correction=None)
    assert found["without_key"] == 1
    assert found["values"]["en"]["no_verdict"] is False
    assert found["values"]["de"]["no_verdict"] is True
    assert list(slices(RUBRIC, rows, "gold", mix=False, correction=None)["values"]) == ["true"]
    with pytest.raises(InvalidInput):
        slices(RUBRIC, rows, "nothing", mix=False, correction=None)


def correction(true_pass: int, missed: int, true_fail: int, false_alarm: int) -> Correction:
    human = ["supported"] * (true_pass + missed) + ["unsupported"] * (true_fail + false_alarm)
    judge = (
        ["supported"] * true_pass + ["unsupported"] * missed + ["unsupported"] * true_fail + ["supported"] * false_alarm
    )
    made = Calibration.model_construct(id="cal_1", set_id="set@1")
    return Correction(made, judge, human, list(range(len(human))), frozenset({"i0"}))


def test_corrected_shares_are_those_of_the_definitions() -> None:
    # Rogan & Gladen with p 0.7 of 200, sensitivity 0.9, specificity 0.8, 50 labels each.
    rows = [row(i, 1.0) for i in range(140)] + [row(i, 0.0) for i in range(140, 200)]
    found = corrected(RUBRIC, rows, correction(45, 5, 40, 10))["labels"]["supported"]
    assert found["raw"]["value"] == 0.7
    assert found["rogan_gladen"]["value"] == pytest.approx(0.714286, abs=1e-6)
    assert found["rogan_gladen"]["low"] == pytest.approx(0.58422, abs=1e-5)
    assert found["rogan_gladen"]["high"] == pytest.approx(0.86393, abs=1e-5)
    assert found["ppi_plus_plus"]["details"]["unlabelled"] == 199
    assert found["labels_alone"]["value"] == 0.5


def test_a_judge_no_better_than_chance_corrects_nothing() -> None:
    rows = [row(i, float(i % 2)) for i in range(40)]
    found = corrected(RUBRIC, rows, correction(25, 25, 25, 25))["labels"]["supported"]
    assert found["rogan_gladen"]["undefined_reason"] == "judge_not_better_than_chance"
    few = corrected(RUBRIC, rows, correction(5, 2, 5, 2))["labels"]["supported"]
    assert few["ppi_plus_plus"]["undefined_reason"] == "too_few_labels"


def test_errors_counted_on_unevenly_drawn_cases_correct_nothing() -> None:
    rows = [row(i, float(i % 2)) for i in range(40)]
    found = corrected(RUBRIC, rows, replace(correction(45, 5, 40, 10), uneven=True))["labels"]["supported"]
    assert found["raw"]["value"] == 0.5
    for way in ("rogan_gladen", "ppi_plus_plus", "labels_alone"):
        assert found[way]["value"] is None
        assert found[way]["undefined_reason"] == "unequal_probabilities"


def repeated(number: int, share: float | None, *, cast: int = 5, asked: int = 5, **changes: Any) -> ResultRow:
    return row(number, 1.0, votes_asked=asked, votes_cast=cast, vote_share=share, **changes)


def test_mean_self_consistency_has_n_interval_and_unstable_share() -> None:
    rows = [repeated(1, 0.8), repeated(2, 1.0), repeated(3, 0.6), repeated(4, 1.0), row(5, 1.0), failed(6)]
    found = aggregate_rows(RUBRIC, rows)
    mean = found["self_consistency"]
    assert mean["value"] == pytest.approx(0.85)
    assert (mean["n"], mean["method"], mean["undefined_reason"]) == (4, "t", None)
    # Student's t with 3 degrees of freedom: 0.85 -+ 3.1824 * 0.1915 / 2, cut at 1.
    assert mean["low"] == pytest.approx(0.5453, abs=1e-3)
    assert mean["high"] == 1.0
    assert mean["details"]["votes"] == [5]
    assert (found["unstable"]["value"], found["unstable"]["numerator"], found["unstable"]["n"]) == (0.5, 2.0, 4)


def test_one_repeated_case_has_a_value_and_no_interval_and_none_has_a_reason() -> None:
    alone = aggregate_rows(RUBRIC, [repeated(1, 0.8)])["self_consistency"]
    assert (alone["value"], alone["low"], alone["n"], alone["interval_reason"]) == (0.8, None, 1, "n_below_2")
    for rows in ([], [row(1, 1.0)], [repeated(1, 1.0, cast=1)], [repeated(1, None, cast=0)]):
        found = aggregate_rows(RUBRIC, rows)
        assert (found["self_consistency"]["value"], found["self_consistency"]["n"]) == (None, 0)
        assert found["self_consistency"]["undefined_reason"] == found["unstable"]["undefined_reason"] == "no_repeats"


def test_failed_repeats_and_different_numbers_of_votes_are_told() -> None:
    mean = aggregate_rows(RUBRIC, [repeated(1, 1.0, cast=3), repeated(2, 0.8)])["self_consistency"]
    assert mean["value"] == pytest.approx(0.9)
    assert mean["flags"] == ["unequal_repeats"]
    assert (mean["details"]["votes"], mean["details"]["cases_with_failed_repeats"]) == ([3, 5], 1)


def test_groups_make_the_interval_of_self_consistency_clustered() -> None:
    rows = [repeated(n, (0.8, 1.0)[n % 4 < 2], group=f"g{n // 2}") for n in range(40)]
    mean = aggregate_rows(RUBRIC, rows)["self_consistency"]
    assert (mean["value"], mean["method"], mean["details"]["groups"]) == (pytest.approx(0.9), "clustered_t", 20)
