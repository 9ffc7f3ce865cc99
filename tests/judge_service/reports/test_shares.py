"""Shares keep every case in the denominator unless it is left out by name, and refusals are split by what was due."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_service.domain.calibration_set import Label, LabelCondition
from judge_service.domain.case import Case
from judge_service.errors import InvalidInput
from judge_service.reports.dataset import Dataset, LabelledItem
from judge_service.reports.shares import shares
from judge_service.reports.statistics import Rules, statistics
from rubrics.registry import get_rubric

NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)
VALUE = st.sampled_from(["refusal", "partial", "compliance", None])


def label(case_id: str, said: str | None, annotator: str = "rule", **more: Any) -> Label:
    more = {"kind": "model"} | more
    return Label(
        id=f"l-{case_id}-{annotator}-{len(more)}",
        set_id="s@1",
        case_id=case_id,
        rubric="refusal@1",
        annotator=annotator,
        label=said,
        created_at=NOON,
        **more,
    )


def dataset(rows: list[tuple[Any, ...]]) -> Dataset:
    """Rows of (final label, the rule's label, answerable, metadata `part`, group)."""
    items = []
    for number, (final, rule, answerable, part, group) in enumerate(rows):
        name = f"c{number}"
        given = {"question": "q", "answer": "a", "answerable": answerable}
        case = Case(id=name, input=given, group=group, metadata={"part": part, "half": number % 2})
        items.append(LabelledItem(case, final, given=(label(name, rule),)))
    return Dataset(get_rubric("refusal@1"), "s@1", "", tuple(items), ())


def counted(data: Dataset, *keys: str, by: tuple[str, ...] = (), leave_out: tuple[str, ...] = ()) -> list[Any]:
    found = shares(data, keys, by=by, leave_out=leave_out, resamples=100, seed=1)
    json.dumps(found, allow_nan=False)
    return found


ROWS = [
    (None, "refusal", False, "x", None),
    (None, "refusal", False, "x", None),
    (None, "compliance", False, "x", None),
    (None, None, False, "y", None),
    (None, "refusal", True, "y", None),
    (None, "compliance", True, "y", None),
    (None, "partial", True, None, None),
    (None, "refusal", None, None, None),
]


def test_labels_of_a_rule_are_counted_where_people_labelled_nothing() -> None:
    (whole,) = counted(dataset(ROWS), "label:rule")
    assert (whole["n"], whole["denominator"], whole["missing"], whole["kinds"]) == (8, 8, 1, {"model": 8})
    assert whole["counts"] == {"refusal": 4, "partial": 1, "compliance": 2}
    assert whole["shares"]["refusal"]["value"] == 0.5
    assert whole["missing_share"]["value"] == 0.125
    (final,) = counted(dataset(ROWS), "label")
    assert (final["missing"], final["shares"]["refusal"]["value"]) == (8, 0.0)
    assert "kinds" not in final


def test_refusals_are_split_by_whether_an_answer_was_due() -> None:
    (whole,) = counted(dataset(ROWS), "label:rule")
    found = whole["refusals"]
    assert [found[f"n_{name}"] for name in ("answerable", "unanswerable", "unknown")] == [3, 4, 1]
    values = {name: figure["value"] for name, figure in found.items() if isinstance(figure, dict)}
    third = pytest.approx(1 / 3)
    assert values == {
        "precision": pytest.approx(2 / 3),
        "recall": 0.5,
        "missed_refusal_rate": 0.25,
        "over_refusal_rate": third,
        "correct_attempt_rate": third,
        "partial_answerable": third,
        "partial_unanswerable": 0.0,
        "missing_answerable": 0.0,
        "missing_unanswerable": 0.25,
    }
    assert found["recall"]["method"] == "wilson"


def test_rates_without_a_denominator_are_null_with_the_reason() -> None:
    (whole,) = counted(dataset([(None, "compliance", True, "x", None)]), "label:rule")
    for name in ("precision", "recall", "missed_refusal_rate", "missing_unanswerable"):
        assert whole["refusals"][name]["value"] is None
        assert whole["refusals"][name]["undefined_reason"]


def test_what_is_left_out_is_counted_and_in_no_denominator() -> None:
    (whole,) = counted(dataset(ROWS), "part", leave_out=("missing", "y"))
    assert (whole["n"], whole["denominator"]) == (8, 3)
    assert whole["left_out"] == {"missing": 2, "y": 3}
    assert whole["counts"] == {"x": 3, "y": 3}
    assert whole["shares"].keys() == {"x"}
    assert (whole["shares"]["x"]["value"], whole["shares"]["x"]["denominator"]) == (1.0, 3)
    assert "missing_share" not in whole


def test_slices_hold_every_case_that_has_the_keys() -> None:
    found = counted(dataset(ROWS), "label:rule", by=("part", "part,half"))
    assert [(row["by"], row["value"], row["n"]) for row in found] == [
        (None, None, 8),
        ("part", "x", 3),
        ("part", "y", 3),
        ("part,half", "x,0", 2),
        ("part,half", "x,1", 1),
        ("part,half", "y,0", 1),
        ("part,half", "y,1", 2),
    ]


def test_intervals_draw_whole_groups() -> None:
    rows = [(None, "refusal" if n % 3 else "compliance", True, "x", f"g{n // 2}") for n in range(60)]
    (whole,) = counted(dataset(rows), "label:rule")
    assert whole["shares"]["refusal"]["method"] != "wilson"
    assert whole["shares"]["refusal"]["low"] < 2 / 3 < whole["shares"]["refusal"]["high"]


def test_of_several_labels_of_one_annotator_the_blind_human_one_counts() -> None:
    labels = (
        label("c0", "partial", "ada"),
        label("c0", "compliance", "ada", kind="human", condition=LabelCondition.ASSISTED),
        label("c0", "refusal", "ada", kind="human", adjudicated=False),
    )
    case = Case(id="c0", input={"question": "q", "answer": "a"})
    data = Dataset(get_rubric("refusal@1"), "s@1", "", (LabelledItem(case, None, given=labels),), ())
    (whole,) = counted(data, "label:ada")
    assert whole["counts"] == {"refusal": 1, "partial": 0, "compliance": 0}
    assert whole["kinds"] == {"human": 1}


@pytest.mark.parametrize(
    ("keys", "leave_out", "field"),
    [
        (("nothing",), (), "shares"),
        (("label:nobody",), (), "shares"),
        (("part",), ("z",), "leave_out"),
        ((), ("x",), "leave_out"),
    ],
)
def test_a_name_that_occurs_nowhere_is_refused(keys: tuple[str, ...], leave_out: tuple[str, ...], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        counted(dataset(ROWS), *keys, leave_out=leave_out)
    assert [problem.path for problem in caught.value.fields] == [field]


def test_statistics_of_a_set_without_labels_of_people_can_be_sliced() -> None:
    found = statistics(dataset(ROWS), Rules(resamples=100), by=["part"], shares=["label:rule"])
    assert found["slices"] == {"part": []}
    assert [row["value"] for row in found["shares"]] == [None, "x", "y"]
    with pytest.raises(InvalidInput):
        statistics(dataset(ROWS), Rules(resamples=100), by=["nothing"])
    assert statistics(dataset(ROWS), Rules(resamples=100))["shares"] == []


@given(rows=st.lists(st.tuples(VALUE, VALUE, st.sampled_from([True, False, None]), st.sampled_from("xy"), st.none())))
def test_counts_and_shares_add_up(rows: list[tuple[Any, ...]]) -> None:
    found = counted(dataset(rows), "label", by=("part",))
    for row in found:
        assert sum(row["counts"].values()) + row["missing"] == row["n"] == row["denominator"]
        if row["n"]:
            total = sum(share["value"] for share in row["shares"].values()) + row["missing_share"]["value"]
            assert total == pytest.approx(1)
        refusals = row["refusals"]
        assert sum(refusals[f"n_{name}"] for name in ("answerable", "unanswerable", "unknown")) == row["n"]
    assert sum(row["n"] for row in found[1:]) == found[0]["n"]
