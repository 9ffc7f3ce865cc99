import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import BinaryIO

import pytest

from judge_service.domain.calibration_set import ImportResult, LabelCondition, Split
from judge_service.errors import Conflict, InvalidInput, NotFound, StoreError
from judge_service.files.source import Source
from judge_service.sets.importing import ImportOptions, import_cases, import_labels
from judge_service.store import Store
from tests.support.waiting import LONG_ENOUGH_S

from .conftest import MakeFile, pair


def test_a_case_is_one_case_however_often_it_comes(store: Store, file: MakeFile) -> None:
    store.sets.create("d1", "pairwise@1")
    first = import_cases(store, "d1", file([pair("q1", response_a="x"), pair("q2")]))
    assert (first.cases, first.labels) == (ImportResult(added=2), ImportResult(added=2))
    again = import_cases(store, "d1", file([pair("q1", response_a="x")]))
    assert (again.cases, again.labels) == (ImportResult(unchanged=1), ImportResult(unchanged=1))
    with pytest.raises(Conflict, match="'q1'") as caught:
        import_cases(store, "d1", file([pair("q9"), pair("q1", response_a="CHANGED")]))
    assert caught.value.status == 409
    assert [one["field"] for one in caught.value.extra["differences"]] == ["response_a"]
    assert store.sets.get("d1").n_cases == 2
    assert [label.case_id for label in store.labels.of("d1@1")] == ["q1", "q2"]
    store.sets.create("d2", "pairwise@1")
    assert import_cases(store, "d2", file([pair("q1", response_a="z")])).cases.added == 1
    nameless = [{name: value for name, value in pair("q1").items() if name != "id"}] * 2
    for expected in (ImportResult(added=2), ImportResult(unchanged=2)):
        assert import_cases(store, "d1", file(nameless)).cases == expected
    assert len({entry.case.id for entry in store.sets.cases("d1@1")}) == 4


def test_a_doubled_id_refuses_the_file_with_both_lines(store: Store, file: MakeFile) -> None:
    store.sets.create("d3", "pairwise@1")
    with pytest.raises(InvalidInput, match="Nothing was imported") as caught:
        import_cases(store, "d3", file([pair("a"), pair("k"), pair("b"), pair("k", response_a="2")]))
    (problem,) = caught.value.fields
    assert problem.path == "line 4: id"
    assert "at line 2" in problem.message
    assert store.sets.get("d3").n_cases == 0


def test_what_was_found_good_is_what_is_stored(lite: Store, file: MakeFile) -> None:
    given = file([pair("a", "A"), pair("b", "B")])
    opened = []

    def once() -> BinaryIO:
        opened.append(given.name)
        return given.open()

    told: list[tuple[str, int]] = []
    lite.sets.create("s", "pairwise@1")
    done = import_cases(lite, "s", replace(given, open=once), on_progress=lambda *step: told.append(step))
    assert told == [("checked", 2), ("stored", 2)]
    assert (done.cases, done.labels, opened) == (ImportResult(added=2), ImportResult(added=2), ["file.jsonl"])
    assert [(label.case_id, label.label) for label in lite.labels.of("s@1")] == [("a", "A"), ("b", "B")]


def test_no_room_for_what_was_read_stores_nothing(lite: Store, file: MakeFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("judge_service.sets.importing.pickle.dump", full)
    lite.sets.create("s", "pairwise@1")
    with pytest.raises(StoreError, match="No space left on device"):
        import_cases(lite, "s", file([pair("a")]))
    assert lite.sets.get("s").n_cases == 0


def test_another_label_by_the_same_annotator_is_refused(store: Store, file: MakeFile) -> None:
    store.sets.create("s", "pairwise@1")
    import_cases(store, "s", file([pair("a", "A", annotator="ada")]))
    with pytest.raises(Conflict, match="labels"):
        import_cases(store, "s", file([pair("b"), pair("a", "B", annotator="ada")]))
    assert store.sets.get("s").n_cases == 1
    assert import_cases(store, "s", file([pair("a", "B", annotator="bob")])).labels.added == 1
    assert {(one.annotator, one.label) for one in store.labels.of("s@1")} == {("ada", "A"), ("bob", "B")}


def test_bad_rows_are_named_and_nothing_is_kept(lite: Store, file: MakeFile) -> None:
    lite.sets.create("s", "pairwise@1")
    rows = [
        pair("ok"),
        {"id": "x", "prompt": "p", "response_a": "a"},
        pair("y", "C"),
        pair("z", split="testing"),
        pair("w", human_label=None, group=["g"]),
        pair("v", annotators="A;B"),
        pair("u", seconds="soon"),
    ]
    with pytest.raises(InvalidInput) as caught:
        import_cases(lite, "s", file(rows))
    assert [problem.path for problem in caught.value.fields] == [
        "line 2: response_b",
        "line 3: label",
        "line 4: split",
        "line 5: group",
        "line 6: annotators",
        "line 7: seconds",
    ]
    assert "C" in caught.value.fields[1].message
    assert lite.sets.get("s").n_cases == 0
    with pytest.raises(NotFound):
        import_cases(lite, "nothing", file([pair()]))


def test_what_a_plain_row_may_say(lite: Store, file: MakeFile) -> None:
    lite.sets.create("s", "pairwise@1")
    row = pair(
        "a",
        "tie",
        annotators={"ada": "A", "bob": "cannot_say", "cyd": "TIE"},
        group=7,
        split="release",
        language="en",
        metadata={"year": 2024},
        tags=["x"],
        note="settled by talk",
    )
    assert import_cases(lite, "s", file([row])).dropped == {"tags": 1}
    entry = lite.sets.case("s@1", "a")
    assert entry is not None
    assert (entry.case.group, entry.split, entry.source_line) == ("7", Split.RELEASE, 1)
    assert entry.case.metadata == {"language": "en", "year": 2024}
    found = {one.annotator: one for one in lite.labels.of("s@1")}
    assert {name: (one.label, one.adjudicated) for name, one in found.items()} == {
        "ada": ("A", False),
        "bob": (None, False),
        "cyd": ("tie", False),
        "final": ("tie", True),
    }
    assert found["final"].note == "settled by talk"
    assert found["bob"].detail == {"label": "cannot_say"}


def test_fields_and_words_are_mapped(lite: Store, file: MakeFile) -> None:
    lite.sets.create("s", "pairwise@1")
    content = "Nr;Question;One;Two;Best;Secret\r\n00123;Why?;so;because;1;x\r\n0124;Who?;me;you;0;y\r\n"
    options = ImportOptions(
        names={
            "Nr": "id",
            "Question": "prompt",
            "One": "response_a",
            "Two": "response_b",
            "Best": "label",
            "Secret": "",
        },
        labels={"1": "A", "2": "B", "0": "tie"},
        annotator="panel",
        condition=LabelCondition.ASSISTED,
        split=Split.MONITORING,
    )
    done = import_cases(lite, "s", file(content, "x.csv"), options)
    assert (done.cases.added, done.labels.added) == (2, 2)
    assert [entry.case.id for entry in lite.sets.cases("s@1")] == ["00123", "0124"]
    assert [entry.case.metadata for entry in lite.sets.cases("s@1")] == [{}, {}]
    assert [(one.label, one.annotator, one.condition) for one in lite.labels.of("s@1")] == [
        ("A", "panel", "assisted"),
        ("tie", "panel", "assisted"),
    ]
    assert {entry.split for entry in lite.sets.cases("s@1")} == {Split.MONITORING}


def test_labels_join_by_id_or_are_listed(store: Store, file: MakeFile) -> None:
    """Case 037: a mistyped id is listed, a model's label is marked as one."""
    store.sets.create("s", "faithfulness@1")
    cases = [{"id": name, "answer": f"answer {name}", "contexts": ["text"]} for name in ("c1", "c2", "c3", "c4", "c5")]
    import_cases(store, "s", file(cases))
    labels = [
        {"id": "c1", "label": "pass", "by": "human"},
        {"id": "c2", "label": "fail", "by": "human"},
        {"id": "c9", "label": "pass", "by": "human"},
        {"id": "c3", "label": "pass", "by": "model"},
    ]
    options = ImportOptions(labels={"pass": "supported", "fail": "unsupported"})
    done = import_labels(store, "s", file(labels, "labels.jsonl"), options)
    assert done.labels == ImportResult(added=3, unjoined=("c9",))
    assert {(one.case_id, one.label, one.kind, one.rubric) for one in store.labels.of("s@1")} == {
        ("c1", "supported", "human", "faithfulness@1"),
        ("c2", "unsupported", "human", "faithfulness@1"),
        ("c3", "supported", "model", "faithfulness@1"),
    }
    again = import_labels(store, "s", file(labels, "labels.jsonl"), options)
    assert again.labels == ImportResult(unchanged=3, unjoined=("c9",))


def test_a_label_table_may_say_all_of_a_label(lite: Store, file: MakeFile) -> None:
    lite.sets.create("s", "pairwise@1")
    import_cases(lite, "s", file([pair("a", None)]))
    content = (
        "case_id,annotator,label,order_shown,seconds,note,condition,adjudicated,created_at\n"
        'a,ada,B,BA,12.5,"long, and\nbroken",blind,false,2026-03-29T12:00:00Z\n'
        "a,lead,A,,,,assisted,yes,\n"
    )
    assert import_labels(lite, "s", file(content, "labels.csv")).labels.added == 2
    ada, lead = sorted(lite.labels.of("s@1"), key=lambda one: one.annotator)
    assert (ada.order_shown, ada.seconds, ada.note) == ("BA", 12.5, "long, and\nbroken")
    assert ada.created_at.isoformat() == "2026-03-29T12:00:00+00:00"
    assert (lead.adjudicated, lead.condition, lead.seconds, lead.order_shown) == (True, "assisted", None, None)
    for bad, path in (
        ("case_id,label\na,A\na,B\n", "record 3: annotator"),
        ("case_id,label,order_shown\na,A,CD\n", "record 2: order_shown"),
        ("case_id,label,colour\na,A,red\n", "record 2: colour"),
        ("label\nA\n", "record 2: case_id"),
        ("case_id,label,created_at\na,A,2026-03-29T12:00:00\n", "record 2: created_at"),
    ):
        with pytest.raises(InvalidInput) as caught:
            import_labels(lite, "s", file(bad, "labels.csv"))
        assert caught.value.fields[0].path == path


def test_without_a_rubric_a_plain_file_cannot_be_read(lite: Store, file: MakeFile) -> None:
    lite.sets.create("s")
    with pytest.raises(InvalidInput) as caught:
        import_cases(lite, "s", file([pair()]))
    assert caught.value.fields[0].path == "line 1: rubric"
    import_cases(lite, "s", file([pair()]), ImportOptions(rubric="pairwise"))
    assert lite.sets.get("s").rubric == "pairwise@1"
    with pytest.raises(InvalidInput, match="format"):
        import_cases(lite, "s", file([pair()]), ImportOptions(shape="excel"))


def test_labels_listed_in_a_flat_row_are_labels(store: Store, file: MakeFile) -> None:
    store.sets.create("d9", "pairwise@1")
    flat = {"prompt": "p", "response_a": "a", "response_b": "b"}
    rows = [
        flat | {"id": "q1", "labels": [{"annotator": "x", "label": "A"}, {"annotator": "y", "label": None}]},
        flat | {"id": "q2", "labels": {"x": "B", "y": "tie"}},
        flat | {"id": "q3", "labels": "not labels but a word"},
        flat | {"id": "q4", "human_label": "B", "final_label": "A"},
    ]
    done = import_cases(store, "d9", file(rows))
    assert (done.cases, done.labels, done.dropped) == (ImportResult(added=4), ImportResult(added=5), {})
    said = [(label.case_id, label.annotator, label.label) for label in store.labels.of("d9@1")]
    assert said == [("q1", "x", "A"), ("q1", "y", None), ("q2", "x", "B"), ("q2", "y", "tie"), ("q4", "gold", "B")]
    # What is no label of the row stays with its case.
    kept = {entry.case.id: entry.case.metadata for entry in store.sets.cases("d9@1")}
    assert (kept["q3"], kept["q4"]) == ({"labels": "not labels but a word"}, {"final_label": "A"})


def test_a_file_without_a_record_is_refused_and_a_frozen_set_takes_what_it_holds(lite: Store, file: MakeFile) -> None:
    lite.sets.create("s", "pairwise@1")
    for text, name in (("id,prompt,response_a,response_b\n", "h.csv"), ("\n", "e.jsonl")):
        with pytest.raises(InvalidInput, match="Nothing was imported"):
            import_cases(lite, "s", file(text, name))
    excel = "sep=;\r\nid;prompt;response_a;response_b;human_label\r\nx;Why, then?;yes;no;A\r\n"
    assert import_cases(lite, "s", file(excel, "x.csv")).cases.added == 1
    lite.sets.freeze("s@1", lite.sets.digest("s@1"))
    again = import_cases(lite, "s", file(excel, "x.csv"))
    assert (again.cases.unchanged, again.labels.unchanged) == (1, 1)
    with pytest.raises(Conflict, match="frozen"):
        import_cases(lite, "s", file(excel.replace("x;", "y;"), "y.csv"))


def test_of_files_that_differ_at_one_moment_one_is_stored_whole_and_the_other_not_at_all(
    database_url: str, file: MakeFile
) -> None:
    n = 1200
    with Store.open(database_url) as first, Store.open(database_url) as second:
        first.sets.create("s", "pairwise@1")
        # The last case differs: it stands behind the first thousand, which is stored by itself.
        files = [
            file([*(pair(f"{name}{i}") for i in range(n)), pair("both", prompt=f"By {name}?")], f"{name}.jsonl")
            for name in "xy"
        ]
        ready = threading.Barrier(2)

        def one(store: Store, source: Source) -> object:
            ready.wait(LONG_ENOUGH_S)
            try:
                return import_cases(store, "s", source)
            except Conflict as error:
                return error

        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(one, (first, second), files))
        (refused,) = (one for one in found if isinstance(one, Conflict))
        assert [problem.path for problem in refused.fields] == ["both: prompt"]
        version = first.sets.get("s")
        assert (version.n_cases, version.n_labels) == (n + 1, n + 1)
        assert len({entry.case.id[0] for entry in first.sets.cases("s@1")}) == 2


def test_the_same_file_at_one_moment_is_stored_once(database_url: str, file: MakeFile) -> None:
    with Store.open(database_url) as first, Store.open(database_url) as second:
        first.sets.create("s", "pairwise@1")
        source = file([pair(f"c{i}") for i in range(300)])
        with ThreadPoolExecutor(4) as pool:
            done = list(pool.map(lambda store: import_cases(store, "s", source), (first, second) * 2))
        assert sorted(one.cases.added for one in done) == [0, 0, 0, 300]
        assert sorted(one.labels.added for one in done) == [0, 0, 0, 300]
        version = second.sets.get("s")
        assert (version.n_cases, version.n_labels) == (300, 300)
