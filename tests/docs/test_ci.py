"""The workflow that the documentation shows is a workflow, and its command decides against a real service."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from judge_service.app import create_app
from judge_service.domain.principal import Role
from judge_service.security.keys import issue
from judge_service.settings import Settings
from judge_service.store import Store
from tests.docs.blocks import blocks
from tests.judge_service.cli.conftest import CommandLine
from tests.judge_service.serving import serving

WORKFLOWS = blocks("yaml")
PROGRAM = "import sys; sys.argv[0] = 'judge-service'; from judge_service.cli.main import main; main()"


def steps(workflow: dict[Any, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("block", WORKFLOWS, ids=str)
def test_a_workflow_has_its_parts_and_no_key_in_an_argument(block) -> None:
    workflow = yaml.safe_load(block.text)
    # YAML reads the word `on` as true.
    assert workflow[True] == ["pull_request"]
    assert workflow["permissions"] == {"contents": "read"}
    runs = [step["run"] for step in steps(workflow) if "run" in step]
    assert any("judge-service gate" in run for run in runs)
    assert not any("secrets." in run or "JUDGE_KEY" in run for run in runs)


def test_there_is_one() -> None:
    assert len(WORKFLOWS) == 1


def test_its_command_decides_and_writes_the_summary(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path)
    [step] = [step for step in steps(yaml.safe_load(WORKFLOWS[0].text)) if "judge-service gate" in step.get("run", "")]
    cli.pairs(40)
    data = cli.folder / "service"
    data.mkdir()
    key, plain = issue("ci", Role.SCORE)
    settings = Settings(data_dir=data)
    with Store.open(settings.database) as store:
        store.keys.add(key)
    summary = tmp_path / "summary.md"
    program = f"{shlex.quote(sys.executable)} -c {shlex.quote(PROGRAM)}"
    script = step["run"].replace("judge-service", program, 1)
    with serving(create_app(settings)) as port:
        environment = {
            **os.environ,
            "JUDGE_URL": f"http://127.0.0.1:{port}",
            "JUDGE_KEY": plain,
            "GITHUB_STEP_SUMMARY": str(summary),
        }
        done = subprocess.run(
            ["bash", "-e", "-c", script], cwd=cli.folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert summary.read_text().startswith("### ✓ Passed\n")
        assert "40 of 40 cases scored" in summary.read_text()
        wrong = subprocess.run(
            ["bash", "-e", "-c", script],
            cwd=cli.folder,
            env={**environment, "JUDGE_KEY": "jk_wrong_key"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert wrong.returncode == 3
        assert "401" in wrong.stderr
        assert plain not in done.stdout + done.stderr + summary.read_text()
    assert "### ! Could not run" in summary.read_text()
