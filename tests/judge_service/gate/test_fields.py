import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from judge_service.errors import FieldProblem
from judge_service.gate.fields import LIMIT, did_you_mean, field_path, field_problems


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=2, max_length=4)
    weight: float = Field(gt=0)

    @field_validator("weight")
    @classmethod
    def _not_thirteen(cls, value: float) -> float:
        if value == 13:
            raise ValueError("13 is not wanted")
        return value


class Outer(BaseModel):
    criteria: list[Inner]


def problems(value: object, **options: str) -> tuple[FieldProblem, ...]:
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate(value)
    return field_problems(caught.value.errors(include_input=False), **options)


def test_paths_name_fields_and_places():
    assert field_path(("case", "contexts", 0, "text")) == "case.contexts[0].text"
    assert field_path((2, "a")) == "[2].a"


@pytest.mark.parametrize(
    ("inner", "path", "message"),
    [
        ({"weight": 1}, "criteria[0].name", "criteria[0].name is required."),
        ({"name": "a", "weight": 1}, "criteria[0].name", "criteria[0].name must have at least 2 characters."),
        ({"name": "abcde", "weight": 1}, "criteria[0].name", "criteria[0].name must have at most 4 characters."),
        ({"name": "ab", "weight": 13}, "criteria[0].weight", "criteria[0].weight: 13 is not wanted"),
        ({"name": "ab", "weight": 1, "x": 1}, "criteria[0].x", "criteria[0].x is not a field of this request."),
        ({"name": "ab", "weight": -1}, "criteria[0].weight", "criteria[0].weight: input should be greater than 0."),
    ],
)
def test_a_problem_names_its_field_and_says_what_to_do(inner, path, message):
    assert problems({"criteria": [inner]}) == (FieldProblem(path, message),)


def test_what_was_sent_is_not_repeated():
    found = problems({"criteria": [{"name": "SECRET-SECRET", "weight": "SECRET"}]})
    assert "SECRET" not in str(found)


def test_a_prefix_stands_before_the_path():
    assert problems({}, prefix="case")[0].path == "case.criteria"


def test_very_many_problems_are_cut():
    found = problems({"criteria": [{"name": "ab"}] * (LIMIT + 7)})
    assert len(found) == LIMIT + 1
    assert found[-1].message == "7 more fields are not valid."


def test_near_names():
    assert did_you_mean("longr", ["longer", "overlap"]) == ("longer",)
    assert did_you_mean("zzz", ["longer", "overlap"]) == ()
