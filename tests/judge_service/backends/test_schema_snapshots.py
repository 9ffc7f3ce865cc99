"""What is sent for each released rubric in each variant, held against stored copies.

After a deliberate change write the copies again: `python -m tests.judge_service.backends.test_schema_snapshots`.
"""

import json
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest

from judge_service.backends.schema_variants import Engine, Variant, by_engine, derive
from rubrics.model import JsonConstraint
from rubrics.registry import all_rubrics

FOLDER = Path(__file__).parent / "schema_snapshots"
VARIANTS: tuple[Variant, ...] = tuple(v for v in get_args(Variant) if v != "none")
ENGINES: tuple[Engine, ...] = get_args(Engine)


def _constraints() -> dict[str, JsonConstraint]:
    return {
        f"{rubric.id} {step}": constraint
        for rubric in all_rubrics()
        for step, constraint in sorted(rubric.sample_constraints().items())
        if isinstance(constraint, JsonConstraint) and not step.endswith(".largest")
    }


def _emitted(variant: Variant) -> dict[str, Any]:
    made = {name: derive(constraint.schema, variant) for name, constraint in _constraints().items()}
    return {
        name: {"schema": prepared.schema, "ignored": sorted({f"{i.path} {i.keyword}" for i in prepared.ignored})}
        for name, prepared in made.items()
    }


def _text(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_sent_is_what_was_stored(variant: Variant) -> None:
    stored = FOLDER / f"{variant}.json"
    assert stored.exists(), f"run python -m {__name__} to store {stored.name}"
    assert _text(_emitted(variant)) == stored.read_text(encoding="utf-8")


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_of_every_rubric_is_closed_and_complete(variant: Variant) -> None:
    for name, constraint in _constraints().items():
        schema = derive(constraint.schema, variant).schema
        assert schema is not None
        jsonschema.Draft202012Validator.check_schema(schema)
        text = json.dumps(schema)
        assert all(f'"{word}"' not in text for word in ("$ref", "$defs", "default", "$schema", "title")), name
        assert schema["type"] == "object"


@pytest.mark.parametrize("engine", ENGINES)
def test_no_rubric_loses_anything_on_a_self_hosted_engine(engine: Engine) -> None:
    for name, constraint in _constraints().items():
        fields = by_engine(constraint, engine)
        assert fields.ignored == (), name
        assert json.dumps(constraint.schema) in json.dumps([dict(fields.parameters), dict(fields.extra)])


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in VARIANTS:
        (FOLDER / f"{each}.json").write_text(_text(_emitted(each)), encoding="utf-8")
