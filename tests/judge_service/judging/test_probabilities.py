"""Token probabilities are read at the verdict's own position."""

import math
from typing import Literal

import pytest
from pydantic import create_model

from judge_service.backends.base import TokenLogprob
from judge_service.judging.probabilities import locate, read_probabilities
from judge_service.judging.reading import read_choice, read_json
from rubrics.model import ChoiceConstraint, JsonConstraint, VerdictField
from rubrics.records import DecodingModel

LABELS = ("A", "B", "tie")
PAIR = create_model("PairReply", __base__=DecodingModel, rationale=(str, ...), verdict=(Literal["A", "B", "tie"], ...))
SHAPE = JsonConstraint(PAIR, {})
FIELD = {"verdict": VerdictField(("verdict",), LABELS)}


def token(text: str, **top: float) -> TokenLogprob:
    return TokenLogprob(text, math.log(top.get(text, 0.9)), tuple((one, math.log(p)) for one, p in top.items()))


def test_locate_finds_the_value_not_a_copy_of_its_name() -> None:
    text = '{"rationale": "\\"verdict\\":\\"B\\"", "n": [{"verdict": "B"}], "verdict" : "A"}'
    at = locate(text, ("verdict",))
    assert at is not None
    assert text[at] == "A"
    assert text[: at - 1].endswith(": ")
    nested = '{"c1":{"verdict":"x"},"c2":{"q":{},"verdict":"y"}}'
    at = locate(nested, ("c2", "verdict"))
    assert at is not None
    assert nested[at] == "y"
    assert locate(nested, ("c3", "verdict")) is None
    assert locate('{"verdict": 3}', ("verdict",)) is None


@pytest.mark.parametrize("merged", [False, True])
def test_the_token_at_the_position_counts_whatever_surrounds_it(merged: bool) -> None:
    raw = '{"rationale":"A is longer","verdict":"B"}'
    alternatives = {"B": 0.3, "A": 0.1, "tie": 0.05, "C": 0.4}
    if merged:
        tokens = [
            *(token(part) for part in ('{"', 'rationale":"', "A", " is longer", '","verdict":')),
            token('"B', **{f'"{text}': p for text, p in alternatives.items()}, A=0.15),
            token('"}'),
        ]
    else:
        tokens = [
            *(token(part) for part in ('{"', 'rationale":"', "A", " is longer", '","verdict":"')),
            token("B", **alternatives),
            token('"}'),
        ]
    found = read_probabilities(raw, read_json(raw, SHAPE), FIELD, tokens)["verdict"]
    assert found.mass == pytest.approx(0.45)
    assert found.values == pytest.approx({"B": 0.3 / 0.45, "A": 0.1 / 0.45, "tie": 0.05 / 0.45})


def test_spelling_variants_of_a_choice_are_summed() -> None:
    shape = ChoiceConstraint(LABELS)
    tokens = [token("A", **{"A": 0.4, " A": 0.1, " B": 0.2, "B": 0.05, "t": 0.05, "ti": 0.05, "Also": 0.1})]
    found = read_probabilities("A", read_choice("A", shape), {"verdict": VerdictField((), LABELS)}, tokens)["verdict"]
    assert found.values == pytest.approx({"A": 0.5 / 0.85, "B": 0.25 / 0.85, "tie": 0.1 / 0.85})
    assert found.mass == pytest.approx(0.85)


def test_labels_that_share_a_first_token_have_no_probability() -> None:
    labels = ("unsupported", "unclear")
    shape = ChoiceConstraint(labels)
    tokens = [token("un", un=0.9), token("clear")]
    read = read_choice("unclear", shape)
    assert read_probabilities("unclear", read, {"verdict": VerdictField((), labels)}, tokens) == {}


def test_no_tokens_or_other_tokens_give_no_number() -> None:
    raw = '{"rationale":"","verdict":"B"}'
    read = read_json(raw, SHAPE)
    assert read_probabilities(raw, read, FIELD, None) == {}
    assert read_probabilities(raw, read, FIELD, [token("something else")]) == {}
    assert read_probabilities(raw, read, FIELD, [token(raw[:-3]), token("Z", Z=0.9)]) == {}


def test_a_wrapper_before_the_reply_shifts_the_position() -> None:
    raw = '<think>A</think>{"rationale":"","verdict":"B"}'
    tokens = [token('<think>A</think>{"rationale":"","verdict":"'), token("B", B=0.6, A=0.2), token('"}')]
    found = read_probabilities(raw, read_json(raw, SHAPE), FIELD, tokens)["verdict"]
    assert found.values["B"] == pytest.approx(0.75)
