"""What every backend promises, whatever stands behind it. A new backend is added to `BACKENDS` and passes."""

import asyncio
import importlib
import json
import math
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import jsonschema
import pytest

from judge_service.backends.base import Backend, Capabilities, CompileReport, Completion, ProbeResult, Request
from judge_service.backends.catalog import BACKENDS as CATALOG
from judge_service.backends.catalog import BackendPool
from judge_service.domain.judge import Judge
from judge_service.domain.outcome import Enforcement
from judge_service.errors import ConfigurationError
from judge_service.settings import Settings
from rubrics.model import JsonConstraint
from rubrics.records import DecodingModel
from rubrics.registry import all_rubrics
from tests.support.asks import choice_ask, pair_ask, request, verify_ask
from tests.support.fake_provider import FakeProvider

CONSTRAINTS = [
    pytest.param(constraint, id=f"{rubric.id}-{step}")
    for rubric in all_rubrics()
    for step, constraint in rubric.sample_constraints().items()
]
CANNOT = JsonConstraint(DecodingModel, {"type": "array", "items": {"type": "string"}, "uniqueItems": True})


def supports(passage: str, claim: str) -> float:
    """A classifier for the contract."""
    return 0.75


@dataclass(frozen=True)
class Kind:
    """How one backend is configured for the contract, and which request it must be able to answer."""

    backend: str
    model: str = "m"
    options: dict[str, Any] = field(default_factory=dict)
    over_http: bool = False
    single: bool = False
    request: Callable[[], Request] = lambda: request(pair_ask(), order="AB", max_tokens=200, timeout_s=60)


def _claims() -> Request:
    return request(verify_ask({"c1": "The bridge is long."}, {"p1": "The bridge is long."}))


BACKENDS: dict[str, Kind] = {
    "scripted": Kind("scripted", options={"replies": ['{"rationale":"x","verdict":"first"}'], "cycle": True}),
    "baseline-constant": Kind("baseline", "constant"),
    "baseline-longer": Kind("baseline", "longer"),
    "baseline-overlap": Kind("baseline", "overlap"),
    "baseline-claims": Kind("baseline", "overlap", single=True, request=_claims),
    "recorded": Kind("recorded", options={"file": "verdicts.jsonl"}),
    "classifier": Kind("classifier", options={"function": f"{__name__}:supports"}, single=True, request=_claims),
    "litellm": Kind("litellm", "openai/m", over_http=True),
    "litellm-grammar": Kind("litellm", "openai/m", {"constraint": "grammar"}, over_http=True),
    "litellm-strict": Kind("litellm", "openai/m", {"constraint": "json_schema", "variant": "openai_strict"}, True),
    "openai": Kind("openai", over_http=True),
    "openai-grammar": Kind("openai", options={"constraint": "grammar"}, over_http=True),
    "instructor": Kind("instructor", "openai/m", {"mode": "tools"}, over_http=True),
    **{
        f"outlines-{e}": Kind("outlines", "m", {"engine": e}, True)
        for e in ("vllm", "sglang", "tgi", "ollama", "llamacpp")
    },
    "embedded": Kind("embedded", ""),
}


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with FakeProvider() as running:
        yield running


def judge_of(kind: Kind, provider: FakeProvider, tmp_path: Any) -> Judge:
    options = dict(kind.options)
    if kind.over_http:
        options["base_url"] = provider.url
    if kind.backend == "recorded":
        file = tmp_path / options["file"]
        file.write_text('{"case_id": "case-1", "order": "AB", "verdict": "first"}\n')
        options["file"] = str(file)
    return Judge(name="judge", backend=kind.backend, model=kind.model, options=options)


@pytest.fixture(
    params=[pytest.param(name, marks=[pytest.mark.model] if name == "embedded" else []) for name in BACKENDS]
)
def kind(request: pytest.FixtureRequest) -> Kind:
    return BACKENDS[request.param]


@pytest.fixture
async def backend(kind: Kind, provider: FakeProvider, tmp_path: Any) -> AsyncIterator[Backend]:
    pool = BackendPool(Settings())
    yield pool.get(judge_of(kind, provider, tmp_path))
    await pool.aclose()
    await pool.aclose()


def test_every_backend_of_the_catalog_is_held_to_the_contract() -> None:
    assert {kind.backend for kind in BACKENDS.values()} == set(CATALOG)
    for module in CATALOG.values():
        assert callable(importlib.import_module(module).open_backend)


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_every_schema_of_every_rubric_is_compiled_before_any_call(backend: Backend, constraint: Any) -> None:
    report = backend.compile(constraint)
    assert isinstance(report, CompileReport)
    assert report.error is None
    assert report.enforcement in Enforcement


def test_a_constraint_that_cannot_be_enforced_is_reported_and_not_raised(backend: Backend) -> None:
    report = backend.compile(CANNOT)
    enforced = report.enforcement in (Enforcement.GRAMMAR, Enforcement.PROVIDER)
    assert not enforced or report.error is not None or any(i.keyword == "uniqueItems" for i in report.ignored)


async def test_a_completion_is_complete(backend: Backend, kind: Kind) -> None:
    asked = kind.request()
    made = await backend.complete(asked)
    assert isinstance(made, Completion)
    assert isinstance(asked.ask.constraint, JsonConstraint)
    jsonschema.validate(json.loads(made.text), asked.ask.constraint.schema)
    asked.ask.constraint.model.model_validate_json(made.text)
    assert made.model
    assert made.finish_reason in ("stop", "tool_calls")
    assert made.enforcement is backend.compile(asked.ask.constraint).enforcement
    assert made.refusal is None
    json.dumps([dict(made.parameters_sent), list(made.parameters_dropped), dict(made.engine)])
    for figure in (made.usage.prompt_tokens, made.usage.completion_tokens, made.usage.cost_usd):
        assert figure is None or (figure >= 0 and math.isfinite(figure))


async def test_requests_may_be_made_at_once(backend: Backend, kind: Kind) -> None:
    made = await asyncio.gather(*(backend.complete(kind.request()) for _ in range(4)))
    assert len(made) == 4
    assert all(reply.text for reply in made)


async def test_what_it_can_do_is_stated(backend: Backend, kind: Kind) -> None:
    assert isinstance(backend.capabilities, Capabilities)
    tokens = await backend.count_tokens(kind.request())
    assert tokens is None or tokens > 0
    found = await backend.probe()
    assert isinstance(found, ProbeResult)
    assert found.ready, found.message
    assert found.constraint_honoured is not False
    assert found.message


def test_unknown_options_are_refused_with_their_path(kind: Kind, provider: FakeProvider, tmp_path: Any) -> None:
    judge = judge_of(kind, provider, tmp_path)
    wrong = judge.model_copy(update={"options": {**judge.options, "no_such_option": 1}})
    with pytest.raises(ConfigurationError) as caught:
        BackendPool(Settings()).get(wrong)
    assert "options.no_such_option" in {problem.path for problem in caught.value.fields}


async def test_a_pair_can_be_asked_for_a_bare_label(backend: Backend, kind: Kind) -> None:
    if kind.single or kind.backend == "scripted":
        return
    made = await backend.complete(request(choice_ask(), order="AB", max_tokens=16, timeout_s=60))
    assert made.text
    if made.enforcement is Enforcement.GRAMMAR:
        assert made.text in ("A", "B")


def test_opening_a_backend_loads_no_sdk() -> None:
    program = (
        "import sys\n"
        "from judge_service.backends.catalog import BACKENDS, BackendPool\n"
        "from judge_service.domain.judge import Judge\n"
        "from judge_service.settings import Settings\n"
        "import importlib\n"
        "[importlib.import_module(name) for name in BACKENDS.values()]\n"
        "url = {'base_url': 'http://127.0.0.1:9/v1'}\n"
        "for name, options in (('litellm', url), ('openai', url), ('instructor', url), "
        "('outlines', {**url, 'engine': 'vllm'})):\n"
        "    BackendPool(Settings()).get(Judge(name='j', backend=name, model='m', options=options))\n"
        "heavy = {'litellm', 'openai', 'outlines', 'instructor', 'xllamacpp', 'httpx2', 'llguidance'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
