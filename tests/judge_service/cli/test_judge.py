"""`judge-service judge`: what is written, what is not asked again, and the exit codes."""

import json
import os
import stat
import threading

import pytest

from tests.judge_service.cli.conftest import CommandLine
from tests.support.fake_provider import FakeProvider, Reply, error
from tests.support.waiting import LONG_ENOUGH_S

SCRIPTED = """
[judges.script]
backend = "scripted"
limits = { attempts = 1 }
[judges.script.options]
file = '%s'
"""


def script(cli: CommandLine, *entries: object) -> None:
    path = cli.folder / "script.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    cli.judges(SCRIPTED % path)


def said(case: str, ab: str, ba: str) -> list[dict[str, object]]:
    return [
        {"case": case, "order": order, "value": {"rationale": "Because.", "verdict": verdict}, "times": 1}
        for order, verdict in (("AB", ab), ("BA", ba))
    ]


def test_judgments_are_written_in_case_order(cli: CommandLine) -> None:
    cases = cli.pairs(300)
    done = cli("judge", "pairwise", cases, "--judge", "longer", "-o", cli.folder / "out.jsonl")
    assert done.exit_code == 0, done.output
    rows = cli.rows()
    assert [row["case_id"] for row in rows] == [f"p{i}" for i in range(300)]
    assert {row["outcome"] for row in rows} == {"scored"}
    assert {row["label"] for row in rows} == {"A"}
    assert {row["trust"]["level"] for row in rows} == {"uncalibrated"}
    assert "Mean score 1.000 over 300 scored of 300 cases" in done.stdout
    assert stat.S_IMODE((cli.folder / "out.jsonl").stat().st_mode) == 0o644
    assert [path.name for path in cli.folder.glob(".out*")] == []


def test_what_is_recorded_is_not_asked_again(cli: CommandLine) -> None:
    # Each answer stands in the script once: a second request for it would be an error.
    script(cli, *said("p0", "A", "B"), *said("p1", "A", "A"))
    cases = cli.pairs(2)
    first = cli("judge", "pairwise@1", cases, "--judge", "script", "-o", cli.folder / "out.jsonl")
    assert first.exit_code == 0, first.output
    assert [(row["outcome"], row["label"]) for row in cli.rows()] == [("scored", "A"), ("inconsistent", None)]
    again = cli("judge", "pairwise@1", cases, "--judge", "script", "-o", cli.folder / "again.jsonl")
    assert again.exit_code == 0
    assert cli.rows("again.jsonl") == cli.rows()
    assert "2 of 2 cases were recorded before and not asked again." in again.stderr


def test_more_cases_ask_only_for_the_new_ones(cli: CommandLine) -> None:
    script(cli, *said("p0", "A", "B"), *said("p1", "B", "A"))
    cli("judge", "pairwise", cli.pairs(1), "--judge", "script", "-o", cli.folder / "out.jsonl")
    done = cli("judge", "pairwise", cli.pairs(2), "--judge", "script", "-o", cli.folder / "out.jsonl")
    assert [row["label"] for row in cli.rows()] == ["A", "B"]
    assert "1 of 2 cases were recorded before" in done.stderr


def test_a_judge_error_is_kept_until_it_is_retried(cli: CommandLine) -> None:
    cases = cli.pairs(2)
    out = cli.folder / "out.jsonl"
    ask = ("judge", "pairwise", cases, "--judge", "server", "-o", out)
    answers = [Reply(content='{"rationale": "", "verdict": "A"}'), error(400, "no such luck")]
    with FakeProvider(answers, default=Reply(content='{"rationale": "", "verdict": "B"}')) as server:
        cli.judges(
            '[judges.server]\nbackend = "openai"\nmodel = "m"\norder_policy = "single_ab"\n'
            f'limits = {{ attempts = 1 }}\noptions = {{ base_url = "{server.url}" }}\n'
        )
        first = cli(*ask, "--concurrency", 1)
        assert first.exit_code == 0, first.output
        assert [(row["outcome"], row["reason"]) for row in cli.rows()] == [
            ("scored", None),
            ("judge_error", "provider_error"),
        ]
        assert "provider error 1" in first.stdout
        cli(*ask)
        assert cli.rows()[1]["outcome"] == "judge_error"
        cli(*ask, "--retry-errors")
        assert [row["label"] for row in cli.rows()] == ["A", "B"]
        assert len(server.completions) == 3


def test_fresh_asks_again_and_replaces(cli: CommandLine) -> None:
    script(cli, *said("p0", "A", "B"))
    out = cli.folder / "out.jsonl"
    cases = cli.pairs(1)
    cli("judge", "pairwise", cases, "--judge", "script", "-o", out)
    script(cli, *said("p0", "B", "A"))
    done = cli("judge", "pairwise", cases, "--judge", "script", "-o", out, "--fresh")
    assert done.exit_code == 0, done.output
    assert [row["label"] for row in cli.rows()] == ["B"]


def test_nothing_scored_ends_with_1_and_the_judgments_are_written(cli: CommandLine) -> None:
    script(cli, {"case": "none", "text": "x"})
    done = cli("judge", "pairwise", cli.pairs(2), "--judge", "script", "-o", cli.folder / "out.jsonl")
    assert done.exit_code == 1
    assert "Nothing was scored." in done.stderr
    assert [row["outcome"] for row in cli.rows()] == ["judge_error"] * 2
    assert [row["score"] for row in cli.rows()] == [None, None]


def test_limit_and_unknown_fields(cli: CommandLine) -> None:
    cases = cli.pairs(5, human_label="A", extra={"deep": 1})
    out = cli.folder / "out.jsonl"
    done = cli("judge", "pairwise", cases, "--judge", "longer", "-o", out, "--limit", 2, "--json")
    assert done.exit_code == 0
    assert len(cli.rows()) == 2
    assert cli.rows()[0]["metadata"] == {"human_label": "A"}
    assert "Kept as metadata: `human_label`" in done.stderr
    assert "Ignored, because pairwise@1 has no such field: `extra`" in done.stderr
    counts = json.loads(done.stdout)
    assert (counts["n"], counts["n_scored"], counts["mean_score"]) == (2, 2, 1.0)


def test_a_bad_line_is_refused_before_anything_is_asked(cli: CommandLine) -> None:
    cases = cli.pairs(1)
    with cases.open("a") as file:
        file.write('{"id": "x", "prompt": "p"}\n{"id": "p0", "prompt": "p", "response_a": "a", "response_b": "b"}\n')
    out = cli.folder / "out.jsonl"
    out.write_text("earlier\n")
    done = cli("judge", "pairwise", cases, "--judge", "longer", "-o", out)
    assert done.exit_code == 1
    assert "line 2: response_a" in done.stderr
    assert "line 3: id" in done.stderr
    assert out.read_text() == "earlier\n"


def test_an_empty_file_and_unknown_names_say_what_to_do(cli: CommandLine) -> None:
    out = cli.folder / "out.jsonl"
    empty = cli.pairs(0)
    assert "holds no case" in cli("judge", "pairwise", empty, "--judge", "longer", "-o", out).stderr
    unknown = cli("judge", "pairwize", empty, "--judge", "longer", "-o", out)
    assert unknown.exit_code == 1
    assert "Did you mean pairwise@1?" in unknown.stderr
    nobody = cli("judge", "pairwise", cli.pairs(1), "--judge", "longest", "-o", out)
    assert nobody.exit_code == 1
    assert "Did you mean longer" in nobody.stderr
    nowhere = cli("judge", "pairwise", cli.pairs(1), "--judge", "longer", "-o", cli.folder / "no" / "out.jsonl")
    assert nowhere.exit_code == 1
    assert "--output: the folder" in nowhere.stderr
    assert not out.exists()


@pytest.mark.parametrize("fresh", [False, True])
def test_a_refused_key_stops_the_run(cli: CommandLine, fresh: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_PROVIDER_KEY", "sk-secret-1234567890")
    with FakeProvider(default=error(401, "Incorrect API key provided: sk-secret-1234567890")) as server:
        cli.judges(
            f"""
            [judges.hosted]
            backend = "openai"
            model = "m"
            options = {{ base_url = "{server.url}", api_key_env = "TEST_PROVIDER_KEY" }}
            limits = {{ concurrency = 1 }}
            """
        )
        out = cli.folder / "out.jsonl"
        options = ["--fresh"] if fresh else []
        done = cli("judge", "pairwise", cli.pairs(20), "--judge", "hosted", "-o", out, *options)
    assert done.exit_code == 1
    assert "401" in done.stderr
    assert "Run the same command again" in done.stderr
    assert "sk-secret" not in done.output
    assert not out.exists()
    assert len(server.completions) <= 2, "only what was asked at once may reach the provider"


def test_tokens_and_cost_of_a_provider_are_kept(cli: CommandLine) -> None:
    reply = Reply(json.dumps({"rationale": "Because.", "verdict": "tie"}))
    with FakeProvider(default=reply) as server:
        cli.judges(
            f"""
            [judges.server]
            backend = "openai"
            model = "m"
            options = {{ base_url = "{server.url}" }}
            price = {{ prompt = 1.0, completion = 2.0 }}
            """
        )
        done = cli("judge", "pairwise", cli.pairs(1), "--judge", "server", "-o", cli.folder / "out.jsonl")
    assert done.exit_code == 0, done.output
    (row,) = cli.rows()
    assert (row["label"], row["score"], row["enforcement"]) == ("tie", 0.5, "provider")
    assert row["usage"]["prompt_tokens"] == 240
    assert row["usage"]["cost_usd"] == pytest.approx(2 * (120e-6 + 2 * 30e-6))


def test_another_database(cli: CommandLine) -> None:
    url = f"sqlite:///{cli.folder / 'other.sqlite3'}"
    out = cli.folder / "out.jsonl"
    assert cli("judge", "pairwise", cli.pairs(1), "--judge", "longer", "-o", out, "--database", url).exit_code == 0
    assert (cli.folder / "other.sqlite3").exists()
    bad = cli("judge", "pairwise", cli.pairs(1), "--judge", "longer", "-o", out, "--database", "nonsense")
    assert bad.exit_code == 1
    assert bad.stderr.startswith("Error: ")


def test_the_case_file_is_never_overwritten(cli: CommandLine) -> None:
    cases = cli.pairs(1)
    before = cases.read_text()
    link = cli.folder / "link.jsonl"
    link.symlink_to(cases)
    for output in (cases, link):
        done = cli("judge", "pairwise", cases, "--judge", "longer", "-o", output)
        assert done.exit_code == 1
        assert "--output: is the case file itself" in done.stderr
    assert cases.read_text() == before


def test_a_link_stays_a_link_and_a_pipe_stays_a_pipe(cli: CommandLine) -> None:
    target, link, pipe = (cli.folder / name for name in ("target.jsonl", "link.jsonl", "pipe"))
    target.write_text("earlier\n")
    link.symlink_to(target)
    os.mkfifo(pipe)
    cases = cli.pairs(3)
    assert cli("judge", "pairwise", cases, "--judge", "longer", "-o", link).exit_code == 0
    assert link.is_symlink()
    assert len(cli.rows("target.jsonl")) == 3
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    assert cli("judge", "pairwise", cases, "--judge", "longer", "-o", pipe).exit_code == 0
    reader.join(timeout=LONG_ENOUGH_S)
    assert pipe.is_fifo()
    assert read == [target.read_text()]


def test_group_and_metadata_are_those_of_the_file_also_when_nothing_is_asked(cli: CommandLine) -> None:
    out = cli.folder / "out.jsonl"
    cli("judge", "pairwise", cli.pairs(2), "--judge", "longer", "-o", out)
    done = cli("judge", "pairwise", cli.pairs(2, group="g", human_label="A"), "--judge", "longer", "-o", out)
    assert "2 of 2 cases were recorded before" in done.stderr
    assert [(row["group"], row["metadata"]) for row in cli.rows()] == [("g", {"human_label": "A"})] * 2
