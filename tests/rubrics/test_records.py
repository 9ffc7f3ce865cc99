from typing import Any

import pytest
from pydantic import ValidationError

from rubrics.records import DecodingModel
from rubrics.registry import get_rubric
from rubrics.schema import json_constraint


@pytest.mark.parametrize(
    ("rubric", "case", "path"),
    [
        ("pairwise", {"prompt": "\ud800", "response_a": "a", "response_b": "b"}, ("prompt",)),
        ("faithfulness", {"answer": "a \udfff", "contexts": ["x"]}, ("answer",)),
        ("faithfulness", {"answer": "a", "contexts": ["x", "\ud83d"]}, ("contexts", 1, "text")),
        ("citation_support", {"answer": "a", "contexts": [{"text": "x", "title": "\ud83d"}]}, ("contexts", 0, "title")),
        ("refusal", {"question": "\ud800", "answer": "a"}, ("question",)),
    ],
)
def test_half_a_surrogate_pair_is_refused_with_its_field(
    rubric: str, case: dict[str, Any], path: tuple[Any, ...]
) -> None:
    with pytest.raises(ValidationError) as caught:
        get_rubric(rubric).case_model.model_validate(case)
    error = caught.value.errors()[0]
    assert tuple(part for part in error["loc"] if part != "sources") == path
    assert "half of a surrogate pair" in error["msg"]


def test_a_whole_pair_is_a_character() -> None:
    case = get_rubric("pairwise").case_model.model_validate(
        {"prompt": "\U0001f600", "response_a": "a", "response_b": "b"}
    )
    assert case.model_dump()["prompt"] == "\U0001f600"


def test_replies_are_read_strictly() -> None:
    ask = get_rubric("refusal").sample_constraints()["refusal"]
    model: type[DecodingModel] = ask.model  # type: ignore[union-attr]
    good = {"quote": "", "rationale": "", "refusal": "partial", "confidence": 50}
    assert (
        model.model_validate_json('{"quote":"","rationale":"","refusal":"partial","confidence":50}').model_dump()
        == good
    )
    for key, value in [("confidence", "50"), ("confidence", 50.5), ("confidence", 101), ("confidence", True)]:
        with pytest.raises(ValidationError):
            model.model_validate({**good, key: value})
    for wrong in [
        {**good, "score": 1},
        {k: v for k, v in good.items() if k != "refusal"},
        {**good, "refusal": "Partial"},
    ]:
        with pytest.raises(ValidationError):
            model.model_validate(wrong)
    assert json_constraint(model) is json_constraint(model)
