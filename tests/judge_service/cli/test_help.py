"""Help is quick because it imports nothing heavy, and says what every command does."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from judge_service import __version__
from judge_service.cli.main import app

HEAVY = (
    "alembic", "fastapi", "httpx", "instructor", "jinja2", "litellm", "llguidance", "numpy", "openai", "outlines",
    "pydantic", "rich", "scipy", "sklearn", "sqlalchemy", "sqlmodel", "statsmodels", "uvicorn", "xllamacpp",
)  # fmt: skip

COMMANDS = (
    (),
    ("judge",),
    ("agreement",),
    ("serve",),
    ("demo",),
    ("version",),
    ("rubrics",),
    ("rubrics", "list"),
    ("rubrics", "show"),
    ("judges",),
    ("judges", "list"),
    ("judges", "show"),
    ("judges", "check"),
    ("judges", "probe"),
    ("sets",),
    *(
        ("sets", name)
        for name in (
            "create",
            "import",
            "labels",
            "verdicts",
            "groups",
            "split",
            "freeze",
            "list",
            "show",
            "diff",
            "export",
        )
    ),
    ("models",),
    ("models", "list"),
    ("models", "pull"),
    ("keys",),
    ("keys", "create"),
    ("keys", "list"),
    ("keys", "revoke"),
    ("projects",),
    *(("projects", name) for name in ("open", "list", "show", "close", "sample")),
    ("users",),
    *(("users", name) for name in ("add", "invite", "list", "password", "role", "disable", "enable")),
)

PROGRAM = """
import sys
from judge_service.cli.main import app
try:
    app(sys.argv[1:])
except SystemExit as stop:
    assert stop.code == 0, stop.code
# The option types of a single command are Typer's own use of Pydantic.
heavy = [name for name in {heavy!r} if name in sys.modules and (name != "pydantic" or len(sys.argv) == 2)]
assert not heavy, heavy
"""


@pytest.mark.parametrize("command", [(), ("judge",), ("judges", "check"), ("serve",)], ids=" ".join)
def test_help_imports_nothing_heavy(command: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(heavy=HEAVY), *command, "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Usage:" in done.stdout


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_explains_itself(command: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*command, "--help"])
    assert result.exit_code == 0
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert any(line and not line.startswith(("Usage", "Options", "Commands", "-")) for line in lines)


def test_without_a_command_help_is_shown() -> None:
    result = CliRunner().invoke(app, [])
    assert "Commands:" in result.output
    assert "Exit codes: 0 done" in result.output


def test_an_unknown_command_or_option_is_a_usage_error() -> None:
    assert CliRunner().invoke(app, ["jugde"]).exit_code == 2
    assert CliRunner().invoke(app, ["version", "--nonsense"]).exit_code == 2


def test_version() -> None:
    result = CliRunner().invoke(app, ["version"])
    assert (result.exit_code, result.stdout) == (0, f"judge-service {__version__}\n")


def test_the_program_is_named_as_it_must_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from judge_service.cli.console import program

    script = tmp_path / ".venv" / "bin" / "judge-service"
    script.parent.mkdir(parents=True)
    script.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script)])
    monkeypatch.setenv("PATH", "/nowhere")
    assert program() == ".venv/bin/judge-service"
    monkeypatch.setenv("PATH", str(script.parent))
    assert program() == "judge-service"
