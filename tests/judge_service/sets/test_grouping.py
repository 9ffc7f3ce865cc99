from collections.abc import Iterable, Iterator

import pytest

from judge_service.domain.calibration_set import SetCase, SetVersion, Split
from judge_service.domain.case import Case
from judge_service.errors import Conflict, InvalidInput
from judge_service.sets.grouping import freeze_set, propose_groups, split_set
from judge_service.sets.importing import import_cases
from judge_service.sets.leaks import Leak, find_leaks
from judge_service.store import Store
from rubrics.registry import get_rubric

from .conftest import MakeFile, pair

LONG = "Please explain in a few plain words how a heat pump warms a house when it is cold outside today {}"


def entries(n: int, **more: str) -> Iterator[SetCase]:
    for number in range(n):
        fields = {"prompt": f"Topic {number} of area {number * 7}", "response_a": "x" * 3, "response_b": "y", **more}
        yield SetCase(case=Case(id=f"c{number}", input=fields, group=f"g{number // 2}"), split=Split.CALIBRATION)


def test_near_duplicates_and_given_groups_chain(store: Store, file: MakeFile) -> None:
    store.sets.create("s", "pairwise@1")
    rows = [
        pair("a", prompt=LONG.format("please")),
        pair("b", prompt=LONG.format("thanks"), group="doc"),
        pair("c", prompt="Something else altogether", group="doc"),
        pair("d", prompt="  something ELSE altogether "),
        pair("e", prompt="Alone with its own question"),
    ]
    import_cases(store, "s", file(rows))
    proposed = propose_groups(store, "s")
    assert (proposed.n_groups, proposed.largest, proposed.changed, proposed.applied) == (2, 4, 2, False)
    assert proposed.groups[0].model_dump() == {"name": "doc", "case_ids": ("a", "b", "c", "d")}
    assert store.sets.case("s@1", "a").case.group is None  # type: ignore[union-attr]
    propose_groups(store, "s", apply=True)
    assert [entry.case.group for entry in store.sets.cases("s@1")] == ["doc", "doc", "doc", "doc", None]
    assert propose_groups(store, "s", apply=True).changed == 0
    assert import_cases(store, "s", file(rows)).cases.unchanged == 5


def test_a_group_stays_in_one_split_and_later_cases_move_none(store: Store) -> None:
    store.sets.create("s", "pairwise@1")
    store.sets.add_cases("s@1", entries(200))
    shares = {Split.DEVELOPMENT: 1, Split.CALIBRATION: 2, Split.RELEASE: 1}
    done = split_set(store, "s", shares)
    assert sum(done.cases.values()) == 200
    assert sum(done.groups.values()) == 100
    assert done.cases == {split.value: n for split, n in store.sets.split_counts("s@1").items() if n}
    assert 60 <= done.cases["calibration"] <= 140
    before = {entry.case.id: entry.split for entry in store.sets.cases("s@1")}
    assert find_leaks(store, store.sets.get("s")) == ()
    store.sets.add_cases("s@1", entries(260))
    split_set(store, "s", shares)
    after = {entry.case.id: entry.split for entry in store.sets.cases("s@1")}
    assert {name: after[name] for name in before} == before
    assert split_set(store, "s", shares, salt="other").cases != done.cases


def test_stratified_splits_keep_labels_balanced(lite: Store, file: MakeFile) -> None:
    lite.sets.create("s", "pairwise@1")
    import_cases(lite, "s", file([pair(f"c{number}", "AB"[number % 4 == 0]) for number in range(80)]))
    done = split_set(lite, "s", {Split.CALIBRATION: 1, Split.RELEASE: 1}, stratify=True)
    assert done.cases == {"calibration": 40, "release": 40}
    release = {entry.case.id for entry in lite.sets.cases("s@1", Split.RELEASE)}
    assert sum(1 for label in lite.labels.of("s@1") if label.case_id in release and label.label == "B") == 10
    with pytest.raises(InvalidInput, match="fewer groups"):
        split_set(lite, "s", {Split.CALIBRATION: 500, Split.RELEASE: 500}, stratify=True)
    with pytest.raises(InvalidInput):
        split_set(lite, "s", {Split.CALIBRATION: 0})


def test_what_leaks_blocks_the_freeze(store: Store, file: MakeFile) -> None:
    store.sets.create("s", "pairwise@1")
    rows = [
        pair("a", group="doc", split="calibration"),
        pair("b", group="doc", split="release"),
        pair("c", prompt="Same?", response_a="One", response_b="two", split="calibration"),
        pair("d", prompt=" same? ", response_a="TWO", response_b="one", split="release"),
        pair("e", prompt="Same prompt", response_a="1", split="calibration"),
        pair("f", prompt="Same prompt", response_a="2", split="development"),
    ]
    import_cases(store, "s", file(rows))
    with pytest.raises(Conflict, match="cannot be frozen") as caught:
        freeze_set(store, "s")
    leaks = {(leak["kind"], tuple(leak["case_ids"])) for leak in caught.value.extra["leaks"]}
    assert leaks == {("group", ("a", "b")), ("text", ("c", "d")), ("text", ("e", "f"))}
    assert store.sets.get("s").status == "open"
    propose_groups(store, "s", apply=True)
    split_set(store, "s", {Split.CALIBRATION: 1, Split.RELEASE: 1})
    frozen = freeze_set(store, "s")
    assert frozen.status == "frozen"
    assert freeze_set(store, "s") == frozen
    for change in (lambda: propose_groups(store, "s", apply=True), lambda: split_set(store, "s", {Split.RELEASE: 1})):
        with pytest.raises(Conflict, match="frozen"):
            change()


def test_an_example_of_the_prompt_belongs_to_development(lite: Store) -> None:
    rubric = get_rubric("pairwise@1")
    lite.sets.create("s", rubric.id)
    case = Case(id="shown", input=dict(rubric.examples[0].case))
    lite.sets.add_cases("s@1", [SetCase(case=case, split=Split.CALIBRATION)])
    (leak,) = find_leaks(lite, lite.sets.get("s"))
    assert (leak.kind, leak.case_ids) == ("few_shot", ("shown",))
    lite.sets.assign("s@1", splits={"shown": Split.DEVELOPMENT})
    assert freeze_set(lite, "s").status == "frozen"


def test_one_answer_to_different_contexts_is_no_leak(lite: Store, file: MakeFile) -> None:
    lite.sets.create("s", "faithfulness@1")
    rows = [
        {"id": "a", "answer": "I do not know.", "contexts": ["Rome"], "split": "calibration"},
        {"id": "b", "answer": "I do not know.", "contexts": ["Oslo"], "split": "release"},
        {"id": "c", "answer": "I do not know.", "contexts": ["oslo "], "split": "monitoring"},
    ]
    import_cases(lite, "s", file(rows))
    (leak,) = find_leaks(lite, lite.sets.get("s"))
    assert leak.case_ids == ("b", "c")


def test_an_empty_set_is_not_frozen(lite: Store) -> None:
    lite.sets.create("s")
    with pytest.raises(Conflict, match="no case"):
        freeze_set(lite, "s")


def test_what_changes_while_leaks_are_looked_for_is_not_frozen(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.sets.create("s", "pairwise@1")
    store.sets.add_cases("s@1", entries(4))

    def changing(store: Store, version: SetVersion, *, near: bool) -> tuple[Leak, ...]:
        found = find_leaks(store, version, near=near)
        store.sets.assign(version.id, splits={"c0": Split.RELEASE})
        return found

    with monkeypatch.context() as during:
        during.setattr("judge_service.sets.grouping.find_leaks", changing)
        with pytest.raises(Conflict, match="changed while it was being frozen"):
            freeze_set(store, "s")
    # c0 and c1 are of one group: the next try finds the leak.
    with pytest.raises(Conflict, match="more than one split"):
        freeze_set(store, "s")


def test_cases_of_one_source_document_stay_together(lite: Store, file: MakeFile) -> None:
    lite.sets.create("s", "faithfulness@1")
    shared = "The kettle holds one point seven litres and boils them in three minutes."
    rows = [
        {
            "id": "a",
            "answer": "It holds 1.7 litres.",
            "contexts": ["Cats sleep most of the day.", shared],
            "split": "release",
        },
        {"id": "b", "answer": "It is fast.", "contexts": [f" {shared.upper()}"], "split": "calibration"},
        {"id": "c", "answer": "No idea.", "contexts": ["Dogs bark at the postman every day."], "split": "release"},
    ]
    import_cases(lite, "s", file(rows))
    assert [(leak.kind, leak.case_ids) for leak in find_leaks(lite, lite.sets.get("s"))] == [("text", ("a", "b"))]
    assert propose_groups(lite, "s").groups[0].case_ids == ("a", "b")


SOURCE = (
    "The kettle of {} holds one point seven litres of water and boils all of it in three minutes flat, after which it "
    "switches itself off and keeps the water warm for a further hour unless somebody lifts it from its base."
)


def grounded(case_id: str, context: str, split: Split, group: str | None = None) -> SetCase:
    fields = {"question": f"What of {case_id}?", "contexts": [context], "answer": f"So says {case_id}."}
    return SetCase(case=Case(id=case_id, input=fields, group=group), split=split)


def test_near_duplicate_sources_in_two_splits_block_the_freeze(store: Store) -> None:
    store.sets.create("s", "faithfulness@1")
    store.sets.add_cases(
        "s@1",
        [
            grounded("a", SOURCE.format("Arden"), Split.CALIBRATION),
            grounded("b", "Bread needs flour, water, salt, yeast and some hours of rest.", Split.RELEASE),
            grounded("c", SOURCE.format("Cole"), Split.RELEASE),
            grounded("d", SOURCE.format("Dunn"), Split.CALIBRATION),
        ],
    )
    version = store.sets.get("s")
    assert find_leaks(store, version) == ()
    (leak,) = find_leaks(store, version, near=True)
    assert leak == Leak(kind="near_duplicate", what="What of a?", case_ids=("a", "c", "d"))
    with pytest.raises(Conflict, match="more than one split") as refused:
        freeze_set(store, "s")
    assert refused.value.extra["leaks"] == [leak.model_dump(mode="json")]
    # The remedy that the refusal names.
    assert propose_groups(store, "s", apply=True).groups[0].case_ids == ("a", "c", "d")
    split_set(store, "s", {Split.CALIBRATION: 1, Split.RELEASE: 1})
    assert freeze_set(store, "s").status == "frozen"


def test_near_duplicate_prompts_and_answers_are_proposed_and_no_leak(lite: Store) -> None:
    lite.sets.create("s", "faithfulness@1")
    made = [
        SetCase(
            case=Case(
                id=str(number),
                input={"question": LONG.format(name), "contexts": [f"page {number}"], "answer": SOURCE.format(name)},
            ),
            split=split,
        )
        for number, (name, split) in enumerate([("please", Split.RELEASE), ("thanks", Split.CALIBRATION)])
    ]
    lite.sets.add_cases("s@1", made)
    assert propose_groups(lite, "s").largest == 2
    assert freeze_set(lite, "s").status == "frozen"


def test_texts_are_read_where_they_are_compared_and_not_held(lite: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    lite.sets.create("s", "faithfulness@1")
    plain = (
        grounded(f"p{n}", f"alone {n} with {n * 7} words of {n * 13} its own {n * 17}", Split.RELEASE)
        for n in range(300)
    )
    near = (grounded(f"n{n}", SOURCE.format(f"maker{n}"), Split.RELEASE) for n in range(20))
    lite.sets.add_cases("s@1", plain)
    lite.sets.add_cases("s@1", near)
    read: list[int] = []
    at = lite.sets.at

    def counted(set_id: str, positions: Iterable[int]) -> dict[int, SetCase]:
        found = at(set_id, positions)
        read.append(len(found))
        return found

    monkeypatch.setattr(lite.sets, "at", counted)
    found = propose_groups(lite, "s")
    assert found.largest == 20
    assert set(found.groups[0].case_ids) == {f"n{n}" for n in range(20)}
    assert max(read) <= 20
    assert sum(read) < 100
