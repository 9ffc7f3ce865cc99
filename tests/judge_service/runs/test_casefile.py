import io
import json
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_service.domain.case import Case
from judge_service.errors import FieldProblem, InvalidInput
from judge_service.runs.casefile import read_cases
from rubrics.registry import get_rubric

PAIRWISE = get_rubric("pairwise@1")
FAITHFULNESS = get_rubric("faithfulness@1")
PAIR = {"prompt": "p", "response_a": "a", "response_b": "b"}


def line(**fields: object) -> str:
    return json.dumps(PAIR | fields, ensure_ascii=False)


def problems(*lines: str | bytes, strict: bool = False) -> dict[str, str]:
    with pytest.raises(InvalidInput) as caught:
        list(read_cases(lines, PAIRWISE, strict=strict))
    return {problem.path: problem.message for problem in caught.value.fields}


def attempt(file: str | bytes) -> tuple[list[Case], tuple[FieldProblem, ...]]:
    """The cases of a file, or what is wrong with it."""
    try:
        return list(read_cases(file, PAIRWISE, strict=False)), ()
    except InvalidInput as error:
        return [], error.fields


def test_a_flat_line_and_a_nested_line_are_the_same_case() -> None:
    flat = line(id="1", group="g", metadata={"k": 1})
    nested = json.dumps({"id": "1", "group": "g", "metadata": {"k": 1}, "input": PAIR})
    expected = Case(id="1", input=PAIR, group="g", metadata={"k": 1})
    assert list(read_cases([flat], PAIRWISE, strict=True)) == [expected]
    assert list(read_cases([nested], PAIRWISE, strict=True)) == [expected]


def test_aliases_and_the_other_rubric_are_read() -> None:
    alias = json.dumps({"id": "1", "question": "p", "answer_a": "a", "answer_b": "b"})
    assert [case.id for case in read_cases([alias], PAIRWISE, strict=True)] == ["1"]
    rows = [
        {"id": "f1", "question": None, "contexts": ["plain text"], "answer": "yes"},
        {"id": "f2", "contexts": [{"id": "c1", "text": "t", "title": "T"}], "answer": "yes"},
    ]
    read = list(read_cases([json.dumps(row) for row in rows], FAITHFULNESS, strict=True))
    assert [case.input["contexts"] for case in read] == [row["contexts"] for row in rows]


def test_unknown_fields_become_metadata_or_are_dropped_and_said() -> None:
    reader = read_cases([line(id="1", language="de", tags=["x"]), line(id="2", language="en")], PAIRWISE, strict=False)
    assert [case.metadata for case in reader] == [{"language": "de"}, {"language": "en"}]
    assert reader.notices == [
        "Kept as metadata: `language` (2 lines).",
        "Ignored, because pairwise@1 has no such field: `tags` (1 line).",
    ]
    assert reader.n_read == 2


def test_strict_refuses_unknown_fields_with_a_near_miss() -> None:
    assert problems(line(id="1", metdata=1), strict=True) == {
        "line 1: metdata": "unknown field; did you mean `metadata`?"
    }


def test_given_metadata_goes_before_a_field_of_the_same_name() -> None:
    read = list(read_cases([line(id="1", k="outer", metadata={"k": "inner"})], PAIRWISE, strict=False))
    assert read[0].metadata == {"k": "inner"}


def test_ids_are_texts_and_stay_as_they_are() -> None:
    ids = ["00123", "2718281828459045235", "12e5", "ü \u2028 x", 7]
    read = list(read_cases([line(id=one) for one in ids], PAIRWISE, strict=True))
    assert [case.id for case in read] == ["00123", "2718281828459045235", "12e5", "ü \u2028 x", "7"]


def test_a_missing_id_is_made_from_the_content_and_repeats() -> None:
    lines = [line(), line(), line(prompt="other"), line(id="own")]
    first = [case.id for case in read_cases(lines, PAIRWISE, strict=True)]
    assert len(set(first)) == 4
    assert first[1] == f"{first[0]}-2"
    assert [case.id for case in read_cases(lines, PAIRWISE, strict=True)] == first


def test_doubled_ids_refuse_the_file_naming_both_lines() -> None:
    found = problems(line(id="k", response_a="1"), line(id="x"), line(id="k", response_a="2"), line(id=1), line(id="1"))
    assert found == {
        "line 3: id": "the id 'k' is on line 1 already",
        "line 5: id": "the id '1' is on line 4 already",
    }


def test_all_bad_lines_are_named_up_to_a_limit() -> None:
    lines = [line(id="ok"), "{", line(id="ok2"), "[1]", json.dumps({"id": "3", "prompt": "p"})]
    found = problems(*lines)
    assert list(found) == ["line 2", "line 4", "line 5: response_a", "line 5: response_b"]
    assert found["line 4"] == "must be one JSON object"
    assert len(problems(*["{"] * 1000)) == 20


def test_cases_before_the_bad_line_come_first_and_none_after() -> None:
    reader = read_cases([line(id="1"), "{", line(id="3")], PAIRWISE, strict=True)
    assert next(reader).id == "1"
    with pytest.raises(InvalidInput, match="see line 2"):
        next(reader)


@pytest.mark.parametrize(
    ("raw", "path", "says"),
    [
        ('{"id": "1", "id": "2"}', "line 1: id", "more than once"),
        ('{"id": "1", "input": {"prompt": "a", "prompt": "b"}}', "line 1: prompt", "more than once"),
        ('{"id": "1", "x": NaN}', "line 1", "NaN"),
        ('{"id": "1", "x": -Infinity}', "line 1", "Infinity"),
        ('{"id": "1", "x": 1e999}', "line 1", "too large"),
        ('{"id": "1", "x": ' + "9" * 5000 + "}", "line 1", "5000 digits"),
        ('{"id": "1", "x": ' + "[" * 100 + "]" * 100 + "}", "line 1", "nested deeper"),
        ('{"id": "1", "x": ' + "[" * 200_000, "line 1", "nested deeper"),
        ('{"id": "1", "x": "\\ud800"}', "line 1", "surrogate"),
        ('{"id": "\\udfff"}', "line 1", "surrogate"),
        ('{"id": "1"} {"id": "2"}', "line 1", "is not JSON"),
        ("null", "line 1", "one JSON object"),
        ('"text"', "line 1", "one JSON object"),
        (b'{"id": "\xff"}', "line 1", "not UTF-8 at byte 9"),
        ("{}".encode("utf-16"), "line 1", "UTF-16"),
        ('{"id": ""}', "line 1: id", "must not be empty"),
        ('{"id": true}', "line 1: id", "text or a whole number"),
        ('{"id": 1.5}', "line 1: id", "text or a whole number"),
        ('{"id": "1", "group": []}', "line 1: group", "text or a whole number"),
        ('{"id": "1", "metadata": 1}', "line 1: metadata", "must be an object"),
        ('{"id": "1", "metadata": {"a": [1]}}', "line 1: metadata.a", "must be a text"),
        ('{"id": "1", "input": 3}', "line 1: input", "must be an object"),
        ('{"id": "1", "input": {}, "prompt": "p"}', "line 1: prompt", "under `input`"),
        (json.dumps({"id": "x" * 513, **PAIR}), "line 1: id", "at most 512"),
    ],
)
def test_what_is_no_case_is_refused_with_its_line(raw: str | bytes, path: str, says: str) -> None:
    found = problems(raw)
    assert path in found
    assert says in found[path]


def test_texts_with_odd_characters_stay_unchanged() -> None:
    odd = "a\u2028b\u0085c\x0bd\x0ce\u2029 \U0001f600 \x00 {{ x }} tab\t"
    text = line(id="1", prompt=odd)
    for whole in (text, text + "\n", f"\n\n{text}\r\n  \n"):
        for form in (whole, whole.encode(), io.StringIO(whole), io.BytesIO(whole.encode())):
            assert [case.input["prompt"] for case in read_cases(form, PAIRWISE, strict=True)] == [odd]


def test_a_byte_order_mark_is_skipped_at_the_start_only() -> None:
    text = "\ufeff" + line(id="1") + "\n" + line(id="2")
    assert [case.id for case in read_cases(text.encode(), PAIRWISE, strict=True)] == ["1", "2"]
    assert [case.id for case in read_cases(text, PAIRWISE, strict=True)] == ["1", "2"]
    assert "line 2" in problems(line(id="1"), "\ufeff" + line(id="2"))


def test_an_empty_file_has_no_cases() -> None:
    assert list(read_cases(b"", PAIRWISE, strict=True)) == []
    assert list(read_cases("\n \n", PAIRWISE, strict=True)) == []


@given(st.text())
def test_any_text_gives_cases_or_a_refusal(text: str) -> None:
    cases, refusal = attempt(text)
    assert bool(cases) + bool(refusal) <= 1
    assert all(problem.path.startswith("line ") for problem in refusal)


@given(st.binary())
def test_any_bytes_give_cases_or_a_refusal(data: bytes) -> None:
    cases, refusal = attempt(data)
    assert bool(cases) + bool(refusal) <= 1


SCALARS = st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.text()


@given(st.dictionaries(st.text(min_size=1), SCALARS | st.lists(SCALARS), max_size=5))
def test_any_object_gives_a_case_or_a_refusal(extra: dict[str, object]) -> None:
    cases, refusal = attempt(json.dumps(extra | PAIR))
    assert bool(cases) != bool(refusal)
    assert all(set(PAIR.items()) <= set(case.input.items()) for case in cases)


def test_memory_does_not_hold_the_cases() -> None:
    def lines(n: int) -> Iterator[str]:
        for number in range(n):
            yield line(id=str(number), prompt=f"{number} " + "x" * 5000)

    def peak(n: int) -> int:
        tracemalloc.start()
        for _ in read_cases(lines(n), PAIRWISE, strict=True):
            continue
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    small, large = peak(200), peak(2000)
    assert (large - small) / 1800 < 400  # bytes a case: the id's hash, not the 5,000 characters


def test_the_reader_is_lazy() -> None:
    def endless() -> Iterator[str]:
        number = 0
        while True:
            number += 1
            yield line(id=str(number))

    reader = read_cases(endless(), PAIRWISE, strict=True)
    assert [next(reader).id for _ in range(3)] == ["1", "2", "3"]
