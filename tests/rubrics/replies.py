"""Hypothesis strategies: arbitrary replies that a decoding schema allows, and runs of a plan on them."""

from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st

from rubrics.model import Ask, ChoiceConstraint, JsonConstraint, LabelProbabilities, Reply

TEXT = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["", " ", "\u200b", "same claim", "Same claim.", "same\u00a0claim", "…", "0", "{{ x }}", "a\nb", "ﬁne"]
    ),
)


def value_of(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Any JSON value that a prepared master schema allows; strings short, or exactly at their bound."""
    if "anyOf" in schema:
        return st.one_of(*(value_of(option) for option in schema["anyOf"]))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kind = schema["type"]
    if kind == "object":
        return st.fixed_dictionaries({key: value_of(value) for key, value in schema["properties"].items()})
    if kind == "array":
        return st.lists(value_of(schema["items"]), min_size=schema.get("minItems", 0), max_size=schema["maxItems"])
    if kind == "string":
        least, most = schema.get("minLength", 0), schema["maxLength"]
        return st.one_of(TEXT.filter(lambda text: least <= len(text) <= most), st.just("x" * most))
    if kind == "boolean":
        return st.booleans()
    assert kind == "null"
    return st.none()


def probabilities(draw: Callable[[Any], Any], values: tuple[str, ...]) -> LabelProbabilities:
    """Normalised probabilities over some labels."""
    weights = [draw(st.integers(0, 1000)) for _ in values]
    total = sum(weights)
    shares = [weight / total for weight in weights] if total else [1 / len(values)] * len(values)
    return LabelProbabilities(dict(zip(values, shares, strict=True)), draw(st.floats(0, 1)))


def reply_to(draw: Callable[[Any], Any], ask: Ask) -> Reply:
    """An arbitrary reply that the ask's constraint allows, with or without token probabilities."""
    read = {}
    if draw(st.booleans()):
        read = {key: probabilities(draw, field.values) for key, field in ask.verdicts.items()}
    if isinstance(ask.constraint, ChoiceConstraint):
        return Reply(draw(st.sampled_from(ask.constraint.choices)), read)
    assert isinstance(ask.constraint, JsonConstraint)
    raw = draw(value_of(ask.constraint.schema))
    return Reply(ask.constraint.model.model_validate_json(_json(raw)), read)


def run(plan: Any, answer: Callable[[Ask], Reply]) -> tuple[list[Ask], Any]:
    """Drive a plan to its end: the asks in order and what it returned."""
    asks: list[Ask] = []
    try:
        ask = next(plan)
        while True:
            asks.append(ask)
            ask = plan.send(answer(ask))
    except StopIteration as stop:
        return asks, stop.value


def _json(value: Any) -> str:
    import json

    return json.dumps(value)
