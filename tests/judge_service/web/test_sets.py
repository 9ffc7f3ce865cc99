"""Pages of calibration sets: what a version holds and licenses, imports, the freeze, and the closed release split."""

import re

import pytest

from judge_service.domain.calibration_set import Label, SetCase, Split, UsePurpose
from judge_service.domain.case import Case
from judge_service.domain.principal import Role
from judge_service.store import Store
from judge_service.store.store import utc_now
from tests.judge_service.annotation.projects import a_project, a_set, pair
from tests.judge_service.web.conftest import words


def labelled(store: Store, n: int, split: Split = Split.CALIBRATION) -> str:
    """A set of pairs, each with a blind label."""
    version = store.sets.create("pairs", "pairwise@1")
    store.sets.add_cases(version.id, [pair(number).model_copy(update={"split": split}) for number in range(n)])
    for number in range(n):
        label = Label(
            set_id=version.id,
            case_id=f"model-x/{number}",
            rubric="pairwise@1",
            annotator="Ann",
            label="A",
            created_at=utc_now(),
        )
        store.labels.add(version.id, [label])
    return version.id


async def test_pages_of_sets_are_for_leads(signed_in, service) -> None:
    a_set(service.store, 2)
    annotator, scorer = signed_in("Ann", Role.ANNOTATE), signed_in("Sam", Role.SCORE)
    for path in ("/sets", "/sets/pairs@1", "/sets/pairs@1/cases", "/sets/pairs@1/import"):
        assert (await signed_in().get(path)).status_code == 200
        assert (await annotator.get(path)).status_code == 403
        assert (await scorer.get(path)).status_code == 403
    assert (await annotator.post("/sets/pairs@1/freeze", {"typed": "pairs@1"})).status_code == 403


async def test_a_set_is_made_once(signed_in, service) -> None:
    lead = signed_in()
    assert "There is none yet" in words(await lead.get("/sets"))
    done = await lead.post("/sets", {"name": "kettles", "rubric": "pairwise@1", "note": "Of the winter."})
    assert (done.status_code, done.headers["location"]) == (303, "/sets/kettles%401")
    page = words(await lead.get("/sets/kettles@1"))
    assert "Version 1, open: cases and labels may be added." in page
    assert "Hash none before the freeze" in page
    assert "Of the winter." in page
    assert "Nothing to download yet." in page
    again = await lead.post("/sets", {"name": "kettles", "rubric": "", "note": "Kept."})
    assert again.status_code == 409
    assert 'value="Kept."' in again.text
    assert len(service.store.sets.all()) == 1


@pytest.mark.parametrize(
    ("fields", "field", "said"),
    [
        ({"name": ""}, "name", "A name has 1 to 64 letters"),
        ({"name": "a b"}, "name", "A name has 1 to 64 letters"),
        ({"name": "x" * 65}, "name", "A name has 1 to 64 letters"),
        ({"name": "ok", "rubric": "nothing@1"}, "rubric", "nothing@1"),
        ({"name": "ok", "note": "n" * 2001}, "note", "at most 2,000 characters"),
    ],
)
async def test_what_is_wrong_with_a_new_set_stands_at_its_field(signed_in, service, fields, field, said) -> None:
    page = await signed_in().post("/sets", {"rubric": "", "note": ""} | fields)
    assert page.status_code == 422
    (anchor,) = re.findall(r'<li><a href="#(\w+)">', page.text)
    assert anchor == field
    assert said in page.text
    assert service.store.sets.all() == []


@pytest.mark.parametrize(
    ("n", "licensed"),
    [
        (29, "29: counts only"),
        (30, "30: exploratory"),
        (100, "100: selection between clearly different judges"),
        (212, "212: normal report"),
    ],
)
async def test_a_split_says_what_its_labels_license(signed_in, service, n, licensed) -> None:
    labelled(service.store, n)
    page = words(await signed_in().get("/sets/pairs@1"))
    assert f"calibration {n} {n} {n} {licensed}" in page
    assert "release 0 0 0 no cases" in page
    assert "Release split: used 0 times." in page
    assert "✓ No group and no text stands in two splits." in page


async def test_the_freeze_lists_what_becomes_fixed_and_wants_the_name(signed_in, service) -> None:
    labelled(service.store, 12)
    a_project(service.store, "pairs@1", ())
    lead = signed_in()
    page = words(await lead.get("/sets/pairs@1"))
    assert "its 12 cases with their texts and metadata;" in page
    assert "its 12 labels with notes, times and final words;" in page
    assert "1 open project labels it. After the freeze nobody can save" in page
    for typed in ("", "pairs", "pairs@2", "yes"):
        refused = await lead.post("/sets/pairs@1/freeze", {"typed": typed})
        assert refused.status_code == 422
        assert "Type pairs@1 to freeze it." in words(refused)
        assert "It was not frozen. Nothing was changed." in words(refused)
    assert service.store.sets.get("pairs@1").status == "open"
    done = await lead.post("/sets/pairs@1/freeze", {"typed": " pairs@1 "})
    assert done.status_code == 303
    version = service.store.sets.get("pairs@1")
    frozen = words(await lead.get("/sets/pairs@1"))
    assert version.status == "frozen"
    assert f"Hash {version.content_hash}" in frozen
    assert "nothing in it can change." in frozen
    assert "Freeze pairs@1" not in frozen
    again = await lead.post("/sets/pairs@1/freeze", {"typed": "pairs@1"})
    assert again.status_code == 303
    entries = service.store.audit.entries()
    assert [(one.who, one.what, one.object) for one in entries] == [("Lea Example", "froze a set", "pairs@1")]


async def test_what_leaks_blocks_the_freeze_and_groups_mend_it(signed_in, service) -> None:
    store = service.store
    version = store.sets.create("pairs", "pairwise@1")
    same = {"prompt": "How long may rice be kept in a cold place?", "response_a": "A day.", "response_b": "A week."}
    cases = [SetCase(case=Case(id=f"rice-{n}", input=same), split=split) for n, split in enumerate(list(Split)[:2])]
    store.sets.add_cases(version.id, cases)
    lead = signed_in()
    page = words(await lead.get("/sets/pairs@1"))
    assert "! 1 group or text stands in more than one split." in page
    assert "rice-0, rice-1" in page
    refused = await lead.post("/sets/pairs@1/freeze", {"typed": "pairs@1"})
    assert refused.status_code == 409
    assert "rice-0" in words(refused)
    assert "Give up as a test" not in words(refused)
    for threshold in ("", "2", "nan", "x"):
        wrong = await lead.post("/sets/pairs@1/groups", {"threshold": threshold})
        assert wrong.status_code == 422
        assert "The likeness must be a number from 0.05 to 1." in words(wrong)
    told = await lead.post("/sets/pairs@1/groups", {"threshold": "0.8"})
    assert "1 groups; the largest has 2 cases." in words(told)
    parts = {"development": "0", "calibration": "1", "release": "0", "monitoring": "0"}
    assert (await lead.post("/sets/pairs@1/splits", parts | {"release": "-1"})).status_code == 422
    nothing = await lead.post("/sets/pairs@1/splits", parts | {"calibration": "0"})
    assert nothing.status_code == 422
    assert (await lead.post("/sets/pairs@1/splits", parts)).status_code == 303
    assert (await lead.post("/sets/pairs@1/freeze", {"typed": "pairs@1"})).status_code == 303


async def test_the_next_version_is_made_once(signed_in, service) -> None:
    labelled(service.store, 3)
    lead = signed_in()
    first = await lead.post("/sets/pairs@1/version", {"newest": "pairs@1"})
    second = await lead.post("/sets/pairs@1/version", {"newest": "pairs@1"})
    assert first.headers["location"] == second.headers["location"] == "/sets/pairs%402"
    assert [one.id for one in service.store.sets.all()] == ["pairs@1", "pairs@2"]
    assert "Made from pairs@1" in words(await lead.get("/sets/pairs@2"))


async def test_a_file_is_imported(signed_in, service) -> None:
    service.store.sets.create("pairs", "pairwise@1")
    lead = signed_in()
    text = "nr,prompt,response_a,response_b,human_label\r\n1,P,yes,no,first\r\n2,Q,yes,no,B\r\n"
    fields = {"what": "cases", "split": "calibration", "annotator": "gold", "condition": "blind", "label_kind": "human"}
    fields |= {"map": "nr=id\r\n", "words": "first=A"}
    done = await lead.post("/sets/pairs@1/import", fields, files={"file": ("rows.csv", text, "text/csv")})
    assert done.status_code == 200, words(done)
    assert "rows.csv is imported" in words(done)
    assert "Cases 2 added, 0 there already" in words(done)
    assert "Labels 2 added, 0 there already" in words(done)
    again = await lead.post("/sets/pairs@1/import", fields, files={"file": ("rows.csv", text, "text/csv")})
    assert "Cases 0 added, 2 there already" in words(again)
    more = "case_id,label,annotator\r\n1,A,Bob\r\n9,A,Bob\r\n"
    labels = await lead.post(
        "/sets/pairs@1/import", fields | {"what": "labels", "map": ""}, files={"file": ("l.csv", more, "text/csv")}
    )
    assert "1 ids belong to no case of the set; their labels were stored nowhere: 9." in words(labels)
    version = service.store.sets.get("pairs@1")
    assert (version.n_cases, version.n_labels) == (2, 3)


GOOD = '{"id": "1", "prompt": "P", "response_a": "1", "response_b": "2"}\n'
BAD = [
    (GOOD + '{"id": "2", "prompt": "P"}\n', {}, "line 2: response_a"),
    (GOOD + "{", {}, "line 2"),
    (GOOD + GOOD, {}, "line 2"),
    ("", {}, "is empty"),
    (None, {}, "Choose a file: JSON lines, CSV or Parquet."),
    (GOOD, {"map": "no sign"}, "Line 1 must be written THIS=THAT."),
    (GOOD, {"words": "a=b\n=c"}, "Line 2 must be written THIS=THAT."),
    (GOOD, {"format": "nothing"}, "must be one of: set"),
    (GOOD, {"what": "verdicts"}, "Choose one of cases, labels."),
    (GOOD, {"split": "north"}, "Choose one of development"),
    (GOOD, {"delimiter": ";;"}, "The delimiter is one character."),
    (GOOD, {"annotator": " "}, "The name must have 1 to 256 characters."),
    (GOOD, {"rubric": "refusal@1"}, "refusal@1"),
]


@pytest.mark.parametrize(("text", "fields", "said"), BAD)
async def test_a_file_that_is_wrong_is_told_by_line_and_field(signed_in, service, text, fields, said) -> None:
    service.store.sets.create("pairs", "pairwise@1")
    given = {"what": "cases", "split": "calibration", "annotator": "gold", "condition": "blind", "label_kind": "human"}
    files = {"file": ("rows.jsonl", b"" if text is None else text.encode(), "application/x-ndjson")}
    if text is None:
        files = {"answers": ("", b"", "application/octet-stream")}
    page = await signed_in().post("/sets/pairs@1/import", given | fields, files=files)
    assert page.status_code in (409, 422), words(page)
    assert "<title>Error: Import into pairs@1" in page.text
    assert "Nothing was imported." in words(page)
    assert said in words(page)
    assert service.store.sets.get("pairs@1").n_cases == 0
    for anchor in re.findall(r'<li><a href="#(\w+)">', page.text):
        assert f'id="{anchor}"' in page.text


async def test_a_frozen_set_takes_no_file(signed_in, service) -> None:
    labelled(service.store, 2)
    service.store.sets.freeze("pairs@1", service.store.sets.digest("pairs@1"))
    lead = signed_in()
    assert "pairs@1 is frozen: nothing can be added." in words(await lead.get("/sets/pairs@1/import"))
    given = {"what": "cases", "split": "calibration", "annotator": "gold", "condition": "blind", "label_kind": "human"}
    page = await lead.post("/sets/pairs@1/import", given, files={"file": ("rows.jsonl", GOOD, "text/plain")})
    assert page.status_code == 409


async def test_looking_at_a_frozen_release_split_costs_it(signed_in, service) -> None:
    labelled(service.store, 3, Split.RELEASE)
    lead = signed_in()
    before = await lead.get("/sets/pairs@1/cases?split=release")
    assert "3 cases of the release split" in words(before)
    service.store.sets.freeze("pairs@1", service.store.sets.digest("pairs@1"))
    closed = await lead.get("/sets/pairs@1/cases?split=release")
    assert "Looking costs the release split" in words(closed)
    assert "Teal" not in closed.text
    wrong = await lead.post("/sets/pairs@1/cases", {"split": "release", "typed": "yes"})
    assert wrong.status_code == 422
    assert [use for use in service.store.sets.uses("pairs@1") if use.purpose is UsePurpose.VIEWED] == []
    seen = await lead.post("/sets/pairs@1/cases", {"split": "release", "typed": "pairs@1"})
    assert seen.headers["location"] == "/sets/pairs%401/cases?split=development"
    page = await lead.get(seen.headers["location"])
    assert "3 cases of the development split" in words(page)
    assert "Teal 0." in page.text
    assert [use.purpose for use in service.store.sets.uses("pairs@1")] == [UsePurpose.VIEWED]
    after = words(await lead.get("/sets/pairs@1"))
    assert "Release split: used 1 time." in after
    assert "3 of its cases are no test any more" in after
    (entry,) = service.store.audit.entries()
    assert (entry.what, entry.object) == ("looked at a split", "pairs@1 (release)")


async def test_cases_are_listed_page_by_page_and_stay_text(signed_in, service) -> None:
    version = service.store.sets.create("pairs", "pairwise@1")
    hostile = {"prompt": "<script>x</script>\u202e", "response_a": "茶", "response_b": "2"}
    cases = [SetCase(case=Case(id=f"case {n:03}", input=hostile)) for n in range(45)]
    service.store.sets.add_cases(version.id, cases)
    lead = signed_in()
    first = await lead.get("/sets/pairs@1/cases?split=development")
    assert first.text.count("<details") == 20
    assert "<script>x" not in first.text
    assert "&lt;script&gt;x&lt;/script&gt;[U+202E]" in first.text
    assert "茶" in first.text
    last = await lead.get("/sets/pairs@1/cases?split=development&page=3")
    assert last.text.count("<details") == 5
    assert "Page 3 of 3" in words(last)
    assert (await lead.get("/sets/pairs@1/cases?page=-3")).status_code == 200
    assert (await lead.get("/sets/nothing/cases")).status_code == 404
