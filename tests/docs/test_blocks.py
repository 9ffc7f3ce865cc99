"""What the documentation shows is real: blocks parse, commands exist, links lead somewhere."""

import json
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
from typer.main import get_command

from judge_service.cli.main import app
from tests.docs.blocks import PAGES, ROOT, Block, blocks, commands

LANGUAGES = {"bash", "json", "toml", "python", "yaml"}
LINK = re.compile(r"\[[^\]]*\]\((?!\w+:)([^)#\s]+)(?:#[^)]*)?\)")


def test_every_block_has_a_language_that_is_checked() -> None:
    found = blocks()
    assert len(found) > 20
    assert {block.language for block in found} <= LANGUAGES, [str(b) for b in found if b.language not in LANGUAGES]


@pytest.mark.parametrize("block", blocks("json"), ids=str)
def test_json_parses(block: Block) -> None:
    json.loads(block.text)


@pytest.mark.parametrize("block", blocks("toml"), ids=str)
def test_toml_parses(block: Block) -> None:
    tomllib.loads(block.text)


@pytest.mark.parametrize("block", blocks("bash"), ids=str)
def test_shell_is_valid(block: Block) -> None:
    done = subprocess.run(["bash", "-n"], input=block.text, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


SHOWN = [
    pytest.param(line, id=f"{block} {line[:60]}")
    for block in blocks("bash")
    for line in commands(block)
    if line.split()[0].endswith("judge-service")
]


@pytest.mark.parametrize("line", SHOWN)
def test_commands_and_their_options_exist(line: str) -> None:
    words = shlex.split(line)
    assert words.pop(0).endswith("judge-service"), line
    command = get_command(app)
    context = None
    while hasattr(command, "commands"):
        name = words.pop(0)
        assert name in command.commands, f"there is no command {name!r}: {line}"
        command = command.commands[name]
    # Parses options and arguments without looking for the files that are named.
    context = command.make_context("judge-service", list(words), resilient_parsing=True)
    assert context is not None
    options = {text for parameter in command.params for text in parameter.opts}
    assert {word.split("=")[0] for word in words if word.startswith("-")} <= options, line


def test_there_are_commands_to_check() -> None:
    assert len(SHOWN) > 10


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    missing = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / link).exists()]
    assert not missing


def test_make_targets_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^make (\w+)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert targets == ["demo", "test"]
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


def test_run_times_of_the_readme_are_filled_in() -> None:
    assert "RUNTIME_" not in (ROOT / "README.md").read_text()
