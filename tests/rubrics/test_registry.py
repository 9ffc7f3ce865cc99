from collections.abc import Iterator
from importlib.metadata import EntryPoint

import pytest

from rubrics import registry
from rubrics.registry import UnknownRubric, UnusableRubric, all_rubrics, get_rubric


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    yield
    all_rubrics.cache_clear()


def announce(monkeypatch: pytest.MonkeyPatch, *entries: EntryPoint) -> None:
    all_rubrics.cache_clear()
    monkeypatch.setattr(registry, "entry_points", lambda group: entries if group == "judge_service.rubrics" else ())


def test_the_librarys_versions_are_found() -> None:
    assert [rubric.id for rubric in all_rubrics()] == [
        "citation_support@1",
        "faithfulness@1",
        "pairwise@1",
        "refusal@1",
    ]


def test_a_version_or_the_newest_of_a_name() -> None:
    assert get_rubric("pairwise@1") is get_rubric("pairwise") is get_rubric(" pairwise@1 ")


@pytest.mark.parametrize(
    ("wrong", "suggestion"),
    [
        ("faithfulnes", "faithfulness@1"),
        ("Faithfulness@1", "faithfulness@1"),
        ("citation-support@1", "citation_support@1"),
        ("pairwise@7", "pairwise@1"),
        ("pairwise@", "pairwise@1"),
        ("refusals@1", "refusal@1"),
    ],
)
def test_near_misses_are_suggested(wrong: str, suggestion: str) -> None:
    with pytest.raises(UnknownRubric) as caught:
        get_rubric(wrong)
    assert caught.value.suggestions == (suggestion,)
    assert isinstance(caught.value, KeyError)
    assert str(caught.value) == (
        f"There is no rubric {wrong!r}. Did you mean {suggestion}? "
        "Known: citation_support@1, faithfulness@1, pairwise@1, refusal@1."
    )


def test_nothing_near_lists_what_there_is() -> None:
    with pytest.raises(UnknownRubric, match=r"There is no rubric 'zzz'\. Known: citation_support@1") as caught:
        get_rubric("zzz")
    assert caught.value.suggestions == ()


def test_an_installed_package_adds_a_rubric(monkeypatch: pytest.MonkeyPatch) -> None:
    announce(monkeypatch, EntryPoint("mine", "tests.rubrics.custom:Brevity", registry.ENTRY_POINT_GROUP))
    assert get_rubric("brevity").title == "Short enough"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("tests.rubrics.nowhere:RUBRIC", "cannot be loaded"),
        ("tests.rubrics.custom:NOT_A_RUBRIC", "is not a Rubric"),
        ("rubrics.library.pairwise_v1.rubric:RUBRIC", "redefines pairwise@1"),
    ],
)
def test_an_unusable_announcement_is_named(monkeypatch: pytest.MonkeyPatch, value: str, problem: str) -> None:
    announce(monkeypatch, EntryPoint("mine", value, registry.ENTRY_POINT_GROUP))
    with pytest.raises(UnusableRubric, match=rf"entry point 'mine' \({value}\) .*{problem}|{problem}"):
        all_rubrics()
