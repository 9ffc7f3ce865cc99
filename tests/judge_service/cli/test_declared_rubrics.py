"""Rubrics declared in the database are listed, shown and used by the command line, and forgotten when it is done."""

import json

import pytest

from judge_service.settings import Settings
from judge_service.store import Store
from rubrics.declared import Declaration
from rubrics.registry import UnknownRubric, get_rubric
from tests.judge_service.cli.conftest import CommandLine

MINE = Declaration.model_validate(
    {
        "name": "mine",
        "version": 1,
        "inputs": ["answer"],
        "criteria": [
            {
                "name": "clear",
                "text": "Is it clear?",
                "levels": [{"value": value, "description": f"{value} of 2"} for value in (0, 1, 2)],
            }
        ],
    }
)


def test_a_stored_rubric_is_listed_shown_and_judged_by(tmp_path):
    run = CommandLine(tmp_path)
    (tmp_path / "data").mkdir()
    with Store.open(Settings(data_dir=tmp_path / "data").database) as store:
        store.rubrics.add(MINE)
    listed = json.loads(run("rubrics", "list", "--json").stdout)
    assert [item["labels"] for item in listed if item["id"] == "mine@1"] == [["0", "1", "2"]]
    assert "Is it clear?" in run("rubrics", "show", "mine").stdout
    cases, out = tmp_path / "cases.jsonl", tmp_path / "out.jsonl"
    cases.write_text(json.dumps({"id": "c", "answer": "Yes."}) + "\n")
    run.judges('[judges.top]\nbackend = "baseline"\nmodel = "constant"\noptions = { answer = "2" }\n')
    done = run("judge", "mine", cases, "--judge", "top", "-o", out)
    assert done.exit_code == 0, done.output
    judgment = json.loads(out.read_text())
    assert (judgment["score"], judgment["label"]) == (1.0, "2")
    with pytest.raises(UnknownRubric):
        get_rubric("mine")


def test_an_unknown_rubric_makes_no_database(tmp_path):
    run = CommandLine(tmp_path)
    assert run("rubrics", "show", "mine").exit_code == 1
    assert not (tmp_path / "data").exists()
