"""How the reported cases are put to the product: through the judging core, over real HTTP or with a script."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from judge_service.backends.catalog import BackendPool
from judge_service.cli.main import app
from judge_service.domain.case import Case
from judge_service.domain.judge import Judge
from judge_service.domain.judgment import Judgment
from judge_service.judging.cache import MemoryCache
from judge_service.judging.judging import Judging
from judge_service.judging.roster import Roster
from judge_service.settings import Settings
from rubrics.registry import get_rubric
from tests.support.clock import VirtualTime

PAIR = {"prompt": "Which planet is largest?", "response_a": "Jupiter.", "response_b": "Mars."}
CLAIM = {"question": "When?", "contexts": ["The bridge opened in 1931."], "answer": "It opened in 1931."}
REFUSAL = {"question": "Who?", "contexts": [], "answer": "I would rather not say.", "answerable": True}


def core(*judges: Judge, cache: MemoryCache | None = None, time: VirtualTime | None = None) -> Judging:
    clock = (time or VirtualTime()).clock()
    return Judging(Roster(judges), BackendPool(Settings()), fence_key=b"reported", cache=cache, clock=clock)


def scripted(*replies: Any, name: str = "s", **more: Any) -> Judge:
    """A judge that answers from a script; a pair is asked in one order unless said otherwise."""
    more = {"order_policy": "single_ab", "limits": {"attempts": 1}} | more
    return Judge.model_validate({"name": name, "backend": "scripted", "options": {"replies": list(replies)}, **more})


def served(url: str, **more: Any) -> Judge:
    """A judge behind an OpenAI-compatible server."""
    options = {"base_url": url} | more.pop("options", {})
    more = {"backend": "openai", "model": "m", "order_policy": "single_ab"} | more
    return Judge.model_validate({"name": "served", "options": options, **more})


async def judged(judge: Judge, given: Mapping[str, Any] = PAIR, rubric: str = "pairwise@1", **more: Any) -> Judgment:
    judging = core(judge, **more)
    try:
        return await judging.judge(Case(id="c", input=dict(given)), get_rubric(rubric), judge)
    finally:
        await judging.backends.aclose()


def ended(judgment: Judgment) -> tuple[str, str | None, float | None, str | None]:
    """Outcome, reason, score and label."""
    reason = None if judgment.reason is None else judgment.reason.value
    return judgment.outcome.value, reason, judgment.score, judgment.label


def wrong(reason: str) -> tuple[str, str, None, None]:
    """How a judge's failure ends."""
    return "judge_error", reason, None, None


def command(folder: Path, judge: Mapping[str, Any], rubric: str, cases: list[dict[str, Any]], *options: str) -> Any:
    """`judge-service judge` on a case file: exit code, printed summary, and the judgments that were written."""
    (folder / "data").mkdir(exist_ok=True)
    table = "\n".join(f"{name} = {_toml(value)}" for name, value in judge.items())
    (folder / "data" / "judges.toml").write_text(f"[judges.mine]\n{table}\n", encoding="utf-8")
    source, out = folder / "cases.jsonl", folder / "out.jsonl"
    source.write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
    arguments = ["judge", rubric, str(source), "--judge", "mine", "-o", str(out), "--json", *options]
    environment = {"JUDGE_SERVICE_DATA_DIR": str(folder / "data"), "JUDGE_SERVICE_JUDGES_FILE": None}
    done = CliRunner().invoke(app, arguments, env=environment)
    rows = [json.loads(line) for line in out.read_text().split("\n") if line] if out.exists() else []
    return done.exit_code, json.loads(done.stdout) if done.stdout else None, rows


def invoke(folder: Path, *arguments: str) -> Any:
    """A command on the installation that `command` used."""
    environment = {"JUDGE_SERVICE_DATA_DIR": str(folder / "data"), "JUDGE_SERVICE_JUDGES_FILE": None}
    return CliRunner().invoke(app, list(arguments), env=environment)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name} = {_toml(part)}" for name, part in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(part) for part in value) + "]"
    return json.dumps(value)
