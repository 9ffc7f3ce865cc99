"""Recorded verdicts: what is read, what is refused with its line, what is not counted."""

import json
from typing import Any

import pytest

from judge_service.errors import InvalidInput
from judge_service.reports.agreement import agreement_rows
from judge_service.reports.recorded import read_labelled_cases, read_recorded


def lines(*objects: Any) -> list[bytes]:
    return [item if isinstance(item, bytes) else json.dumps(item).encode() + b"\n" for item in objects]


def case(name: str, label: str | None = "A", **more: Any) -> dict[str, Any]:
    return {"id": name, "human_label": label, "prompt": "p", **more}


def verdict(name: str, said: str | None, order: str = "AB", **more: Any) -> dict[str, Any]:
    return {"case_id": name, "judge": "j", "strategy": "s", "order": order, "verdict": said, **more}


def problems(error: pytest.ExceptionInfo[InvalidInput]) -> list[str]:
    return [f"{field.path}: {field.message}" for field in error.value.fields]


def test_one_row_with_every_figure_by_its_name() -> None:
    cases = read_labelled_cases(lines(case("a"), case("b", "B"), case("c", "B"), case("d", "A")))
    recorded = read_recorded(
        cases,
        lines(
            verdict("a", "first"),
            verdict("a", "second", "BA"),  # A in both orders: right twice
            verdict("b", "first"),
            verdict("b", "first", "BA"),  # A, then B: flips to the first
            verdict("c", None),
            verdict("c", None, "BA"),
            verdict("d", "second"),
            verdict("d", "tie", "BA"),
        ),
    )
    (row,) = agreement_rows(recorded)
    assert (row["group"], row["judge"], row["strategy"], row["n"]) == ("all", "j", "s", 4)
    assert (row["accuracy_AB"], row["accuracy_BA"], row["accuracy"], row["both_correct"]) == (25.0, 50.0, 37.5, 25.0)
    assert row["positional_agreement"] == 50.0
    assert row["positional_agreement_parsed"] == 25.0
    assert (row["flips"], row["flips_to_first"], row["flips_to_second"]) == (1, 1, 0)
    assert [row[f"verdicts_{name}"] for name in ("first", "second", "tie", "null")] == [3, 2, 1, 2]
    low, high = row["intervals"]["accuracy_AB"]
    assert low < 25.0 < high
    assert row["estimates"]["accuracy_AB"]["n"] == 4


def test_a_single_order_leaves_null_with_a_reason() -> None:
    cases = read_labelled_cases(lines(case("a"), case("b")))
    (row,) = agreement_rows(read_recorded(cases, lines(verdict("a", "first"), verdict("b", "first"))))
    assert row["accuracy"] == row["accuracy_AB"] == 100.0
    assert row["accuracy_BA"] is None
    assert row["positional_agreement"] is None
    assert row["reasons"]["accuracy_BA"] == row["reasons"]["positional_agreement"] == "single_order"
    assert row["kappa_AB"] is None
    assert row["reasons"]["kappa_AB"] == "one_class"


def test_a_case_without_a_line_stays_in_the_denominator() -> None:
    cases = read_labelled_cases(lines(case("a"), case("b")))
    (row,) = agreement_rows(read_recorded(cases, lines(verdict("a", "first"), verdict("a", "second", "BA"))))
    assert row["n"] == 2
    assert row["accuracy"] == 50.0
    assert row["n_missing"] == 2


def test_bad_lines_are_named_and_nothing_is_counted() -> None:
    cases = read_labelled_cases(lines(case("a")))
    with pytest.raises(InvalidInput) as error:
        read_recorded(
            cases,
            lines(
                b"{nonsense\n",
                [1],
                verdict("a", "A"),
                verdict("a", "first", "XY"),
                {"case_id": "a"},
                b'{"case_id": "a", "case_id": "b"}\n',
                b'{"case_id": "a", "judge": "j", "order": "AB", "verdict": NaN}\n',
                b"\xff\n",
            ),
            "v.jsonl",
        )
    said = problems(error)
    for number in range(1, 9):
        assert any(f"v.jsonl line {number}" in problem for problem in said), number
    assert any(problem.startswith("v.jsonl line 3: verdict:") for problem in said)
    assert any("'case_id' stands twice" in problem for problem in said)
    assert any("line 8: is not UTF-8" in problem for problem in said)


def test_a_second_verdict_is_refused_even_when_it_says_the_same() -> None:
    cases = read_labelled_cases(lines(case("a")))
    with pytest.raises(InvalidInput) as error:
        read_recorded(cases, lines(verdict("a", "first"), verdict("a", "first")))
    assert problems(error) == ["verdicts line 2: a second verdict of j (s) on a, order AB; the first is on line 1"]


def test_doubled_case_ids_and_unknown_labels_are_refused() -> None:
    with pytest.raises(InvalidInput) as error:
        read_labelled_cases(lines(case("a"), case("a"), case("b", "C")), "c.jsonl")
    assert problems(error)[0] == "c.jsonl line 2: id: 'a' stands on line 1 already"
    assert problems(error)[1].startswith("c.jsonl line 3: human_label:")


def test_verdicts_of_unlisted_cases_are_listed_and_not_counted() -> None:
    cases = read_labelled_cases(lines(case("a"), case("u", None)))
    recorded = read_recorded(cases, lines(verdict("zz", "first"), verdict("a", "first"), verdict("u", "first")))
    assert [(line.number, line.verdict.case_id) for line in recorded.unknown] == [(1, "zz")]
    assert [line.verdict.case_id for line in recorded.verdicts] == ["a"]
    assert recorded.unlabelled == 1
    assert agreement_rows(recorded)[0]["n"] == 1


def test_lines_end_in_a_newline_only_and_a_mark_at_the_start_is_read_over() -> None:
    text = json.dumps(case("a", prompt="one\u2028two\u0085three"), ensure_ascii=False).encode()
    cases = read_labelled_cases([b"\xef\xbb\xbf" + text + b"\n", b"\n", *lines(case("b"))])
    assert list(cases) == ["a", "b"]


def test_many_problems_are_counted_and_the_first_are_listed() -> None:
    with pytest.raises(InvalidInput, match="has 50 problems") as error:
        read_labelled_cases([b"x\n"] * 50)
    assert len(error.value.fields) == 20


def test_an_empty_file_is_refused() -> None:
    with pytest.raises(InvalidInput, match="holds no case"):
        read_labelled_cases([])
