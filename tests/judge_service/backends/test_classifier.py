import json
import math
import threading
from typing import Any

import pytest

from judge_service.backends.base import BackendFailure
from judge_service.backends.classifier import ClassifierBackend, open_backend
from judge_service.domain.judge import Judge
from judge_service.domain.outcome import JudgeErrorReason
from judge_service.errors import ConfigurationError
from judge_service.settings import Settings
from tests.support.asks import extract_ask, pair_ask, request, verify_ask

PASSAGES = {"p1": "one two", "p2": "three four"}
ASK = verify_ask({"c1": "three four", "c2": "five"}, PASSAGES)


def overlap(passage: str, claim: str) -> float:
    words = claim.split()
    return sum(word in passage.split() for word in words) / len(words)


async def test_the_best_passage_decides_and_its_probability_is_kept() -> None:
    reply = await ClassifierBackend(overlap).complete(request(ASK))
    value = json.loads(reply.text)
    assert (value["c1"]["verdict"], value["c1"]["passage"], value["c1"]["confidence"]) == ("supported", "p2", 100)
    assert (value["c2"]["verdict"], value["c2"]["confidence"]) == ("fabrication", 100)
    assert reply.tokens is not None
    assert "".join(token.token for token in reply.tokens) == reply.text
    tops = [{label: math.exp(p) for label, p in token.top} for token in reply.tokens if token.top]
    assert tops == [{"supported": 1.0}, {"fabrication": 1.0}]


async def test_a_coroutine_function_and_another_threshold() -> None:
    async def half(passage: str, claim: str) -> float:
        return 0.5

    for threshold, verdict in ((0.5, "supported"), (0.6, "fabrication")):
        reply = await ClassifierBackend(half, threshold=threshold).complete(request(ASK))
        assert json.loads(reply.text)["c1"]["verdict"] == verdict


async def test_sentences_are_the_claims() -> None:
    reply = await ClassifierBackend(overlap).complete(request(extract_ask({"s1": "One.", "s2": "Two."})))
    assert json.loads(reply.text) == {"s1": ["One."], "s2": ["Two."]}


@pytest.mark.parametrize("value", [math.nan, -0.1, 1.1, math.inf, "0.9", None])
async def test_what_is_no_probability_is_a_schema_error(value: Any) -> None:
    with pytest.raises(BackendFailure) as caught:
        await ClassifierBackend(lambda passage, claim: value).complete(request(ASK))
    assert caught.value.reason is JudgeErrorReason.SCHEMA_ERROR


async def test_failures_of_the_callable_are_failed_calls() -> None:
    def broken(passage: str, claim: str) -> float:
        raise RuntimeError("sk-test-SECRET123abc")

    with pytest.raises(BackendFailure) as caught:
        await ClassifierBackend(broken).complete(request(ASK))
    assert caught.value.message == "The classifier raised RuntimeError."
    released = threading.Event()
    stuck = ClassifierBackend(lambda passage, claim: float(released.wait(10)))
    with pytest.raises(BackendFailure) as caught:
        await stuck.complete(request(ASK, timeout_s=0.05))
    released.set()
    assert caught.value.reason is JudgeErrorReason.TIMEOUT
    with pytest.raises(BackendFailure, match="compares no pairs"):
        await ClassifierBackend(overlap).complete(request(pair_ask(), order="AB"))
    with pytest.raises(BackendFailure, match="options `positive` and `negative`"):
        await ClassifierBackend(overlap).complete(
            request(pair_ask())  # its labels say nothing about support
        )


async def test_configured_by_name() -> None:
    judge = Judge(name="c", backend="classifier", options={"function": f"{__name__}:overlap", "threshold": 0.4})
    backend = open_backend(judge, Settings())
    found = await backend.probe()
    assert (found.ready, found.message) == (True, "A sentence supports itself with probability 1.00.")
    for function in ("no.such:thing", f"{__name__}:missing", f"{__name__}:PASSAGES", "noname"):
        with pytest.raises(ConfigurationError) as caught:
            open_backend(Judge(name="c", backend="classifier", options={"function": function}), Settings())
        assert caught.value.fields[0].path == "options.function"
