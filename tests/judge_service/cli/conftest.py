"""A command line with a data folder of its own."""

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from judge_service.cli.main import app


@dataclass
class CommandLine:
    """Runs commands with `folder` as data folder and working place."""

    folder: Path

    def __call__(self, *arguments: object) -> Result:
        return CliRunner().invoke(app, [str(argument) for argument in arguments], env=self.environment)

    @property
    def environment(self) -> dict[str, str | None]:
        return {"JUDGE_SERVICE_DATA_DIR": str(self.folder / "data"), "JUDGE_SERVICE_JUDGES_FILE": None}

    def judges(self, text: str) -> None:
        """Write the judges file."""
        (self.folder / "data").mkdir(exist_ok=True)
        (self.folder / "data" / "judges.toml").write_text(text)

    def pairs(self, n: int, name: str = "cases.jsonl", **more: Any) -> Path:
        """Write a case file of `n` pairs."""
        path = self.folder / name
        rows = [
            {"id": f"p{i}", "prompt": f"Question {i}?", "response_a": "Yes, it is.", "response_b": "No.", **more}
            for i in range(n)
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def rows(self, name: str = "out.jsonl") -> list[dict[str, Any]]:
        """The objects of an output file."""
        return [json.loads(line) for line in (self.folder / name).read_text().split("\n") if line]


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[CommandLine]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield CommandLine(tmp_path)
    root.handlers[:] = handlers
    root.setLevel(level)
