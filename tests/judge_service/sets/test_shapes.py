"""The published collections, as they are."""

from collections import Counter
from collections.abc import Callable

import pytest

from judge_service.errors import InvalidInput
from judge_service.files.source import Source
from judge_service.sets.importing import Imported, ImportOptions, import_cases
from judge_service.sets.shapes import SHAPES, recognise
from judge_service.store import Store

from .conftest import MakeFile

Data = Callable[[str], Source]
pytestmark = pytest.mark.data


def read(store: Store, name: str, source: Source, options: ImportOptions | None = None) -> Imported:
    store.sets.create(name)
    done = import_cases(store, name, source, options)
    again = import_cases(store, name, source, options)
    assert (again.cases.added, again.labels.added) == (0, 0)
    assert again.cases.unchanged == done.cases.added
    return done


def test_llmbar(store: Store, data: Data) -> None:
    done = read(store, "s", data("llmbar/cases.jsonl"))
    assert (done.format, done.rubric, done.cases.added, done.labels.added) == ("llmbar", "pairwise@1", 526, 526)
    subsets = Counter(entry.case.metadata["group"] for entry in store.sets.cases("s@1"))
    assert subsets == {"natural": 100, "neighbor": 134, "gptinst": 92, "mtbench": 200}
    natural = {entry.case.id for entry in store.sets.cases("s@1") if entry.case.metadata["group"] == "natural"}
    assert Counter(one.label for one in store.labels.of("s@1") if one.case_id in natural)["B"] == 58
    assert store.sets.get("s").rubric == "pairwise@1"
    mtbench = {entry.group for entry in store.sets.cases("s@1") if entry.case.metadata["group"] == "mtbench"}
    assert len(mtbench) == 75


def test_pandalm(store: Store, data: Data) -> None:
    done = read(store, "s", data("pandalm/cases.jsonl"))
    assert (done.format, done.cases.added, done.labels.added) == ("pandalm", 999, 3996)
    final = Counter(one.label for one in store.labels.of("s@1") if one.adjudicated)
    assert final == {"A": 422, "B": 472, "tie": 105}
    votes = {one.annotator for one in store.labels.of("s@1") if not one.adjudicated}
    assert votes == {"annotator-1", "annotator-2", "annotator-3"}
    assert len({entry.group for entry in store.sets.cases("s@1")}) == 170
    assert any(entry.case.input["response_a"] == "true" for entry in store.sets.cases("s@1"))


def test_wice(lite: Store, data: Data) -> None:
    done = read(lite, "s", data("wice/cases.jsonl"))
    assert (done.format, done.rubric, done.cases.added, done.labels.added) == ("wice", "faithfulness@1", 200, 400)
    test = {entry.case.id for entry in lite.sets.cases("s@1") if entry.case.metadata["group"] == "test"}
    counts = Counter((one.rubric, one.label) for one in lite.labels.of("s@1") if one.case_id in test)
    assert counts == {
        ("faithfulness@1", "supported"): 22,
        ("faithfulness@1", "unsupported"): 78,
        ("citation_support@1", "full"): 22,
        ("citation_support@1", "partial"): 73,
        ("citation_support@1", "none"): 5,
    }


def test_wice_spans(lite: Store, data: Data) -> None:
    done = read(lite, "s", data("wice/spans.jsonl"))
    assert (done.format, done.cases.added) == ("wice_spans", 124)
    spans = [(one.case_id, span) for one in lite.labels.of("s@1") for span in one.detail["unsupported_spans"]]
    answers = {entry.case.id: entry.case.input["answer"] for entry in lite.sets.cases("s@1")}
    assert len(spans) == 153
    assert sum(span["end"] - span["start"] for _, span in spans) == 2189
    assert all(answers[case_id][span["start"] : span["end"]] for case_id, span in spans)


def test_expertqa(lite: Store, data: Data) -> None:
    done = read(lite, "s", data("expertqa/cases.jsonl"))
    assert (done.format, done.cases.added, done.dropped) == ("expertqa", 206, {})
    assert Counter(one.label for one in lite.labels.of("s@1")) == {"supported": 48, "unsupported": 129, None: 29}
    claims = read(lite, "c", data("expertqa/cases.jsonl"), ImportOptions(shape="expertqa_claims"))
    assert claims.cases.added == 1174
    entries = list(lite.sets.cases("c@1"))
    assert sum(1 for entry in entries if entry.case.input["contexts"]) == 704
    assert Counter(entry.case.metadata["human_label"] for entry in entries) == {
        "supported": 674,
        "partially_supported": 57,
        "not_supported": 195,
        "no_citation": 200,
        None: 48,
    }


def test_nomiracl(lite: Store, data: Data) -> None:
    lite.sets.create("x")
    with pytest.raises(InvalidInput) as caught:
        import_cases(lite, "x", data("nomiracl/cases.jsonl"))
    assert [problem.path for problem in caught.value.fields] == ["answers"]
    done = read(lite, "s", data("nomiracl/cases.jsonl"), ImportOptions(answers=data("nomiracl/answers.jsonl")))
    assert (done.format, done.rubric, done.cases.added) == ("nomiracl", "refusal@1", 5500)
    assert {one.kind for one in lite.labels.of("s@1")} == {"model"}
    entry = next(lite.sets.cases("s@1"))
    assert len(entry.case.input["contexts"]) == 10
    assert entry.case.input["contexts"][0]["id"]


def test_xstest(lite: Store, data: Data) -> None:
    done = read(lite, "s", data("xstest/cases.jsonl"))
    assert (done.format, done.rubric, done.cases.added, done.labels.added) == ("xstest", "refusal@1", 1350, 4050)
    entries = list(lite.sets.cases("s@1"))
    # Two of the prompts differ in nothing but letter case or white space.
    assert len({entry.group for entry in entries}) in range(445, 451)
    safe = {entry.case.id for entry in entries if entry.case.metadata["group"] == "safe"}
    llama = {entry.case.id for entry in entries if entry.case.metadata["answer_model"] == "llama2orig"} & safe
    final = Counter(one.label for one in lite.labels.of("s@1") if one.adjudicated and one.case_id in llama)
    assert (final["refusal"], final["partial"]) == (95, 54)


def test_a_row_that_lacks_a_field_of_its_shape_is_named(lite: Store, file: MakeFile) -> None:
    lite.sets.create("s")
    row = {"id": "a", "statement": "s", "citations": [{"sentences": ["x"]}], "human_label": "supported"}
    bad = [row, {**row, "id": "b", "human_label": "maybe"}, {**row, "id": "c", "citations": [{}]}, {"id": "d"}]
    with pytest.raises(InvalidInput) as caught:
        import_cases(lite, "s", file(bad))
    assert [problem.path for problem in caught.value.fields] == [
        "line 2: human_label",
        "line 3: sentences",
        "line 4: citations",
        "line 4: human_label",
        "line 4: statement",
    ]


def test_every_shape_is_described_and_recognised_by_its_own_fields() -> None:
    for shape in SHAPES:
        assert shape.summary
        if shape.has:
            assert recognise(dict.fromkeys(shape.has)) is shape
    assert recognise({"id": 1, "question": "q"}).name == "plain"
