"""Every judge that the documentation shows judges a pair: providers on a loopback server, the rest in the process."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from judge_service.cli.demo import NEXT
from judge_service.cli.main import app
from tests.docs.blocks import blocks
from tests.support.fake_provider import FakeProvider, Recorded, Reply

KEY = "sk-test-0123456789"
SHOWN: dict[str, dict[str, Any]] = {
    name: table for block in blocks("toml") for name, table in tomllib.loads(block.text)["judges"].items()
}
BUILT_IN_MODEL = {name for name, table in SHOWN.items() if table["backend"] == "embedded"}
REMOTE = {name for name, table in SHOWN.items() if table["backend"] in ("litellm", "openai", "outlines", "instructor")}


def answer(request: Recorded) -> Reply:
    """A tie in the form that was asked for, with token probabilities where they were."""
    head, tail = '{"rationale": "They say the same.", "verdict": "', '"}'
    verdict = {"tie": 0.8, "A": 0.1, "B": 0.1}
    tokens = [{head: 1.0}, verdict, {tail: 1.0}] if request.body.get("logprobs") else None
    return Reply(f"{head}tie{tail}", logprobs=tokens)


def judge_a_pair(folder: Path, name: str, toml: str) -> dict[str, Any]:
    judges, cases, out = folder / "judges.toml", folder / "cases.jsonl", folder / "out.jsonl"
    judges.write_text(toml)
    cases.write_text(json.dumps({"id": "p", "prompt": "2 + 2?", "response_a": "4", "response_b": "four"}) + "\n")
    arguments = ["judge", "pairwise@1", str(cases), "--judge", name, "-o", str(out)]
    environment = {"JUDGE_SERVICE_JUDGES_FILE": str(judges), "JUDGE_SERVICE_DATA_DIR": str(folder / "data")}
    done = CliRunner().invoke(app, arguments, env=environment)
    assert out.exists(), done.output
    judgment: dict[str, Any] = json.loads(out.read_text())
    return judgment


def toml_of(name: str) -> str:
    """The block that shows the judge."""
    return next(block.text for block in blocks("toml") if name in tomllib.loads(block.text)["judges"])


@pytest.mark.parametrize("name", sorted(REMOTE))
def test_a_judge_behind_a_server_judges_a_pair(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with FakeProvider(default=answer) as server:
        toml = re.sub(r"http://127\.0\.0\.1:\d+/v1", server.url, toml_of(name))
        hosted = "base_url" not in SHOWN[name]["options"]
        if hosted:
            # A hosted model has no address of its own in the file; here it is the loopback server.
            toml = toml.replace("options = {", f'options = {{ base_url = "{server.url}",')
        judgment = judge_a_pair(tmp_path, name, toml)
        assert (judgment["outcome"], judgment["label"], judgment["score"]) == ("scored", "tie", 0.5), judgment["detail"]
        assert len(server.completions) == 2, "one request an order"
        sent = [request.headers.get("authorization", "") for request in server.completions]
        assert all((KEY in header) == hosted for header in sent)
    assert KEY not in json.dumps(judgment)


@pytest.mark.parametrize("name", sorted(set(SHOWN) - REMOTE - BUILT_IN_MODEL))
def test_a_judge_in_this_process_judges_a_pair(name: str, tmp_path: Path) -> None:
    judgment = judge_a_pair(tmp_path, name, toml_of(name))
    assert judgment["outcome"] in ("scored", "inconsistent"), judgment
    assert judgment["judge"] == name


@pytest.mark.model
@pytest.mark.parametrize("name", sorted(BUILT_IN_MODEL))
def test_a_model_file_of_one_s_own_judges_a_pair(name: str, tmp_path: Path) -> None:
    from judge_service.backends.weights import locate
    from judge_service.settings import Settings

    toml = toml_of(name).replace("/models/your-model.gguf", str(locate(Settings())))
    judgment = judge_a_pair(tmp_path, name, toml)
    assert judgment["outcome"] in ("scored", "inconsistent"), judgment
    assert judgment["enforcement"] == "grammar"


def test_the_three_ways_of_the_demo_are_those_of_the_documentation() -> None:
    shown = NEXT.format(judges_file="judges.toml", folder="demo-output", program="judge-service")
    toml = "\n".join(
        line.strip() for line in shown.splitlines() if line.startswith("  ") and ("=" in line or "[" in line)
    )
    ways = tomllib.loads(toml)["judges"]
    assert list(ways) == ["mine", "server", "hosted"]
    assert ways == {name: SHOWN[name] for name in ways}
