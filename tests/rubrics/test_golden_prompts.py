"""Every prompt of every example, as the judge reads it, with the fixed fence."""

from typing import Any

import pytest

from rubrics.model import JsonConstraint
from rubrics.registry import built_in_rubrics
from rubrics.replay import replay
from tests.rubrics.stored import matches_stored

EXAMPLES = [
    pytest.param(rubric, number, id=f"{rubric.id}-{number}")
    for rubric in built_in_rubrics()
    for number in range(1, len(rubric.examples) + 1)
]


@pytest.mark.parametrize(("rubric", "number"), EXAMPLES)
def test_prompts_are_as_stored(rubric: Any, number: int) -> None:
    played = replay(rubric, rubric.examples[number - 1])
    for at, ask in enumerate(played.asks, start=1):
        text = "\n".join(f"=== {message.role}\n{message.content}" for message in ask.messages) + "\n"
        matches_stored("prompts", f"{rubric.name}_v{rubric.version}.{number}.{at}-{ask.step}.txt", text)


@pytest.mark.parametrize(("rubric", "number"), EXAMPLES)
def test_what_an_ask_names_exists(rubric: Any, number: int) -> None:
    for ask in replay(rubric, rubric.examples[number - 1]).asks:
        assert ask.step in rubric.steps
        roles = [message.role for message in ask.messages]
        assert roles == ["system", *["user", "assistant"] * (len(roles) // 2 - 1), "user"]
        for field in ask.verdicts.values():
            if isinstance(ask.constraint, JsonConstraint):
                node: Any = ask.constraint.schema
                for name in field.path:
                    node = node["properties"][name]
                assert node["enum"] == list(field.values)
            else:
                assert field.path == ()
                assert field.values == ask.constraint.choices


@pytest.mark.parametrize("rubric", built_in_rubrics(), ids=lambda rubric: rubric.id)
def test_a_version_states_its_rules(rubric: Any) -> None:
    assert rubric.title
    assert rubric.question
    assert rubric.rules.score
    assert rubric.rules.length_policy
    assert "empty_answer" in rubric.rules.nothing_to_judge
    assert len(set(rubric.scale.names)) >= 2
    assert set(rubric.scale.names) | {"cannot_say"} == set(
        rubric.label_model.model_json_schema()["properties"]["label"]["enum"]
    )
    assert {example.quality for example in rubric.examples} == {"good", "bad"}
    assert all(label.description for label in rubric.scale.labels)
