import json

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_service.backends.base import BackendFailure
from judge_service.backends.baseline import BaselineBackend, BaselineOptions, open_backend
from judge_service.domain.judge import Judge
from judge_service.errors import ConfigurationError
from judge_service.settings import Settings
from rubrics.model import JsonConstraint
from tests.support.asks import choice_ask, extract_ask, pair_ask, request, verify_ask

PASSAGES = {"p1": "The tower opened in 1931. It is 300 m high.", "p2": "It was not designed by Smith."}


async def _pair(kind, first, second, order, **options) -> str:
    backend = BaselineBackend(kind, BaselineOptions(**options))
    reply = await backend.complete(request(pair_ask(first, second), order=order))
    return json.loads(reply.text)["verdict"]


async def test_longer_prefers_the_longer_answer_wherever_it_stands() -> None:
    assert await _pair("longer", "aaaa", "aa", "AB") == "first"
    assert await _pair("longer", "aa", "aaaa", "BA") == "second"
    assert await _pair("longer", "aa", "bb", "AB") == "tie"


async def test_constant_speaks_in_the_callers_frame() -> None:
    assert await _pair("constant", "x", "y", "AB") == "first"
    assert await _pair("constant", "x", "y", "BA") == "second"
    assert await _pair("constant", "x", "y", "AB", answer="B") == "second"
    assert await _pair("constant", "x", "y", "BA", answer="B") == "first"
    assert await _pair("constant", "x", "y", "BA", answer="tie") == "tie"
    with pytest.raises(BackendFailure, match="'C' is not one of: A, B, tie"):
        await _pair("constant", "x", "y", "AB", answer="C")


async def test_without_a_tie_label_a_draw_keeps_the_callers_a_in_both_orders() -> None:
    backend = BaselineBackend("longer")
    assert (await backend.complete(request(choice_ask("aa", "bb"), order="AB"))).text == "A"
    assert (await backend.complete(request(choice_ask("bb", "aa"), order="BA"))).text == "B"
    assert (await backend.complete(request(choice_ask("aa", "bbb"), order="BA"))).text == "B"


async def test_every_sentence_becomes_its_own_claim() -> None:
    ask = extract_ask({"s1": "The tower\nopened in 1931.", "s2": "  ", "s3": "x" * 50})
    reply = await BaselineBackend("overlap").complete(request(ask))
    assert json.loads(reply.text) == {"s1": ["The tower opened in 1931."], "s2": [], "s3": ["x" * 40]}


@pytest.mark.parametrize(
    ("claim", "verdict", "passage", "quote"),
    [
        ("The tower opened in 1931.", "supported", "p1", "The tower opened in 1931."),
        ("The towers opened in 1931", "supported", "p1", "The tower opened in 1931."),
        ("The tower opened in 1913.", "fabrication", "p1", "The tower opened in 1931."),
        ("The tower is 900 m high.", "fabrication", "p1", "It is 300 m high."),
        ("It was designed by Smith.", "fabrication", "p2", "It was not designed by Smith."),
        ("It wasn't designed by Smith.", "supported", "p2", "It was not designed by Smith."),
        ("Penguins live near the south pole.", "fabrication", "p1", "The tower opened in 1931."),
    ],
)
async def test_overlap_looks_at_words_numbers_and_negation(claim, verdict, passage, quote) -> None:
    reply = await BaselineBackend("overlap").complete(request(verify_ask({"c1": claim}, PASSAGES)))
    found = json.loads(reply.text)["c1"]
    assert (found["verdict"], found["passage"], found["quote"]) == (verdict, passage, quote)


async def test_constant_for_claims() -> None:
    ask = verify_ask({"c1": "a", "c2": "b"}, PASSAGES)
    for options, verdict in (
        ({}, "supported"),
        ({"answer": "unsupported"}, "fabrication"),
        ({"answer": "stale_fact"}, "stale_fact"),
    ):
        reply = json.loads((await BaselineBackend("constant", BaselineOptions(**options)).complete(request(ask))).text)
        assert [reply[name]["verdict"] for name in ("c1", "c2")] == [verdict, verdict]
        assert reply["c1"]["confidence"] == 50
    with pytest.raises(BackendFailure, match="Set the option `answer`"):
        await BaselineBackend("constant", BaselineOptions(answer="maybe")).complete(request(ask))


async def test_longer_has_nothing_to_say_about_one_answer() -> None:
    with pytest.raises(BackendFailure, match="compares two answers"):
        await BaselineBackend("longer").complete(request(verify_ask({"c1": "a"}, PASSAGES)))


texts = st.text(max_size=200)


@given(
    st.dictionaries(st.sampled_from(["c1", "c2", "c3"]), texts, min_size=1),
    st.dictionaries(st.sampled_from(["p1", "p2"]), texts),
    st.sampled_from(["constant", "overlap"]),
)
async def test_every_reply_is_valid_for_its_own_model(claims, passages, kind) -> None:
    for ask in (extract_ask(claims), verify_ask(claims, passages)):
        assert isinstance(ask.constraint, JsonConstraint)
        text = (await BaselineBackend(kind).complete(request(ask))).text
        ask.constraint.model.model_validate_json(text)
        jsonschema.validate(json.loads(text), ask.constraint.schema)


async def test_it_costs_nothing_and_says_that_it_is_no_model() -> None:
    backend = open_backend(Judge(name="b", backend="baseline", model="longer"), Settings())
    reply = await backend.complete(request(pair_ask(), order="AB"))
    assert (reply.usage.cost_usd, reply.usage.prompt_tokens, reply.model) == (0.0, 0, "baseline/longer")
    assert not backend.capabilities.is_model


def test_wrong_configuration_is_named() -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_backend(Judge(name="b", backend="baseline", model="shorter"), Settings())
    assert caught.value.fields[0].path == "model"
    with pytest.raises(ConfigurationError) as caught:
        open_backend(Judge(name="b", backend="baseline", model="overlap", options={"threshold": 2}), Settings())
    assert caught.value.fields[0].path == "options.threshold"
