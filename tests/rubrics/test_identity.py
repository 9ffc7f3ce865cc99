"""A released version is pinned; whatever changes what it does changes its hash, and nothing else does."""

import json
from pathlib import Path
from typing import Any

import pytest

import rubrics.prompt
from rubrics import identity
from rubrics.identity import LOCK_FILE, canonical_json, changed_releases, release, released, rubric_hash, source_digests
from rubrics.model import Example
from rubrics.registry import built_in_rubrics, get_rubric
from rubrics.replay import check_direction, read_reply, replay
from tests.rubrics.custom import Brevity, Inverted, OneSided


def test_no_released_version_has_changed() -> None:
    problems = changed_releases(built_in_rubrics(), released())
    assert not problems, "\n".join(problems)


def test_a_changed_release_is_told_how_to_add_a_version() -> None:
    problems = changed_releases(built_in_rubrics(), {**released(), "pairwise@1": "0" * 64})
    assert len(problems) == 1
    assert problems[0].startswith("pairwise@1 was released and has changed (a file of rubrics/library/pairwise_v1")
    assert "copy the folder to pairwise_v2, set `version = 2`" in problems[0]
    assert "python -m rubrics.identity release pairwise@2" in problems[0]


def test_new_and_missing_versions_are_named() -> None:
    locked = released()
    del locked["refusal@1"]
    problems = changed_releases(built_in_rubrics(), {**locked, "pairwise@0": "0"})
    assert problems == [
        "refusal@1 is new: release it with `python -m rubrics.identity release refusal@1`.",
        "pairwise@0 was released and is missing: judgments made under it could not be read. Restore its folder.",
    ]


def test_a_release_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / LOCK_FILE
    written = release("refusal@1", path)
    assert json.loads(path.read_text()) == {"refusal@1": written} == {"refusal@1": get_rubric("refusal").content_hash}
    with pytest.raises(ValueError, match="refusal@1 is released already"):
        release("refusal@1", path)


def test_the_hash_covers_every_source_of_the_folder() -> None:
    assert set(source_digests(get_rubric("pairwise@1"))) == {
        "__init__.py",
        "compare.md.j2",
        "records.py",
        "rubric.py",
        "system.md.j2",
    }
    assert set(source_digests(get_rubric("faithfulness@1"))) >= {"extract.md.j2", "verify_system.md.j2", "records.py"}


def test_new_lines_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    assert identity._file_digest(b"a\r\nb\rc\n") == identity._file_digest(b"a\nb\nc\n")
    assert identity._file_digest(b"a\nb") != identity._file_digest(b"a\nb\n")


def test_a_shared_helper_that_alters_prompts_alters_the_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {rubric.id: rubric_hash(rubric) for rubric in built_in_rubrics()}
    assert before == {rubric.id: rubric.content_hash for rubric in built_in_rubrics()}
    monkeypatch.setattr(rubrics.prompt, "_WORD_JOINER", "\u200b")
    changed = {rubric.id for rubric in built_in_rubrics() if rubric_hash(rubric) != before[rubric.id]}
    assert changed >= {"pairwise@1", "faithfulness@1"}


def test_generated_schemas_are_not_part_of_the_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    rubric = get_rubric("faithfulness@1")
    before = rubric_hash(rubric)
    import rubrics.library.faithfulness_v1.rubric as module
    from rubrics.model import JsonConstraint

    monkeypatch.setattr(module, "json_constraint", lambda model: JsonConstraint(model, {"another": "pydantic"}))
    assert rubric_hash(rubric) == before


def test_name_version_and_examples_count() -> None:
    class Renamed(Brevity):
        name = "terse"

    class Second(Brevity):
        version = 2

    hashes = {rubric_hash(rubric) for rubric in (Brevity(), Renamed(), Second(), Inverted(), OneSided())}
    assert len(hashes) == 5


def test_canonical_json_is_one_form() -> None:
    assert canonical_json({"b": 1, "a": ["ü", None]}) == '{"a":["ü",null],"b":1}'
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical_json(float("nan"))


@pytest.mark.parametrize("rubric", built_in_rubrics(), ids=lambda rubric: rubric.id)
def test_good_examples_score_above_bad_ones(rubric: Any) -> None:
    check_direction(rubric)


@pytest.mark.parametrize(
    ("rubric", "problem"),
    [(Inverted(), "the direction is inverted"), (OneSided(), "at least one good and one bad")],
)
def test_the_self_test_fails_on_an_inverted_direction(rubric: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        check_direction(rubric)


def test_examples_must_fit_their_plan() -> None:
    rubric = Brevity()
    with pytest.raises(ValueError, match="has no reply for step look"):
        replay(rubric, Example({"text": "a"}, (), "good"))
    with pytest.raises(ValueError, match="more replies than the plan asks for"):
        replay(rubric, Example({"text": "a"}, ("short", "long"), "good"))
    with pytest.raises(ValueError, match="is none of short, long"):
        replay(rubric, Example({"text": "a"}, ("medium",), "good"))
    ask = replay(get_rubric("pairwise"), get_rubric("pairwise").examples[0]).asks[0]
    with pytest.raises(ValueError, match="verdict"):
        read_reply(ask, {"rationale": "", "verdict": "C"})


def test_command_line_of_a_release(capsys: pytest.CaptureFixture[str]) -> None:
    assert identity._main([]) == 2
    assert identity._main(["release", "pairwise@1"]) == 1
    assert identity._main(["release", "nowhere@1"]) == 1
    said = capsys.readouterr().err
    assert "usage: python -m rubrics.identity release NAME@VERSION" in said
    assert "pairwise@1 is released already" in said
    assert "There is no rubric 'nowhere@1'" in said
