"""`rubrics`, `judges`, `models`, `keys`: what is shown, what is never shown, and what ends with 1."""

import json
import socket
from pathlib import Path

import pytest

from judge_service.cli.judges import public_options
from judge_service.domain.judge import Judge
from judge_service.judging.probes import probe_set
from judge_service.store import Store
from tests.judge_service.cli.conftest import CommandLine
from tests.support.fake_provider import FakeProvider, Recorded, Reply

ORDERS = [one for one in probe_set() if one.rubric == "refusal@1" and one.kind == "order"]


def test_rubrics_are_listed_with_their_hashes(cli: CommandLine) -> None:
    rows = json.loads(cli("rubrics", "list", "--json").stdout)
    assert {"faithfulness@1", "pairwise@1"} <= {row["id"] for row in rows}
    assert all(len(row["content_hash"]) == 64 for row in rows)
    assert "pairwise@1" in cli("rubrics", "list").stdout


def test_a_rubric_shows_its_case_fields_labels_and_rules(cli: CommandLine) -> None:
    shown = json.loads(cli("rubrics", "show", "faithfulness", "--json").stdout)
    assert shown["id"] == "faithfulness@1"
    assert set(shown["case_schema"]["properties"]) == {"question", "contexts", "answer"}
    assert [label["name"] for label in shown["labels"]] == ["unsupported", "supported"]
    assert "verify" in shown["decoding_schemas"]
    text = cli("rubrics", "show", "pairwise@1").stdout
    for word in ("Fields of a case", "response_a", "Labels", "tie", "Rules", "Length", "Content hash"):
        assert word in text
    assert "not yet" not in text


def test_an_unknown_rubric_names_near_ones(cli: CommandLine) -> None:
    done = cli("rubrics", "show", "faithfullness")
    assert done.exit_code == 1
    assert "Did you mean faithfulness@1?" in done.stderr
    assert done.stdout == ""


def test_judges_of_the_file_stand_beside_the_built_in_ones(cli: CommandLine) -> None:
    cli.judges('[judges.mine]\nbackend = "baseline"\nmodel = "longer"\ndescription = "Mine [bold]."\n')
    rows = json.loads(cli("judges", "list", "--json").stdout)
    assert {"embedded", "constant", "longer", "overlap", "mine"} <= {row["name"] for row in rows}
    assert "Mine [bold]." in cli("judges", "list").stdout
    shown = json.loads(cli("judges", "show", "mine", "--json").stdout)
    assert shown["backend"] == "baseline"
    assert len(shown["content_hash"]) == 64
    assert "baseline" in cli("judges", "show", "mine").stdout


def test_secrets_in_options_are_hidden_and_names_of_variables_are_not() -> None:
    options = {"api_key_env": "MY_KEY", "api_key": "sk-1", "extra_body": {"token": "t", "n": 1}, "base_url": "http://x"}
    assert public_options(options) == {
        "api_key_env": "MY_KEY",
        "api_key": "***",
        "extra_body": {"token": "***", "n": 1},
        "base_url": "http://x",
    }


def test_judges_set_over_the_api_are_listed_too(cli: CommandLine) -> None:
    cli("keys", "create", "--role", "admin", "--name", "a")
    with Store.open(f"sqlite:///{cli.folder / 'data' / 'judge-service.sqlite3'}") as store:
        store.judges.put(Judge(name="stored", backend="baseline", model="longer"))
        store.judges.put(Judge(name="inside", backend="openai", model="m", options={"base_url": "http://10.0.0.5/v1"}))
    names = {row["name"] for row in json.loads(cli("judges", "list", "--json").stdout)}
    assert "stored" in names
    assert "inside" not in names
    assert json.loads(cli("judges", "show", "stored", "--json").stdout)["model"] == "longer"


def test_a_broken_judges_file_names_the_field(cli: CommandLine) -> None:
    cli.judges('[judges.mine]\nbackend = "baseline"\nsampling = { temperature = 9 }\n')
    done = cli("judges", "list")
    assert done.exit_code == 1
    assert "judges.mine.sampling.temperature" in done.stderr


def test_check_says_what_a_backend_would_ignore_with_its_path(cli: CommandLine) -> None:
    cli.judges(
        """
        [judges.hosted]
        backend = "litellm"
        model = "openai/gpt-4o-mini"
        options = { api_key_env = "TEST_KEY", base_url = "http://127.0.0.1:9/v1", variant = "openai_strict" }
        """
    )
    done = cli("judges", "check", "overlap", "hosted", "--json")
    rows = json.loads(done.stdout)
    assert {row["judge"] for row in rows} == {"overlap", "hosted"}
    assert {row["rubric"] for row in rows if row["judge"] == "overlap"} >= {"faithfulness@1", "pairwise@1"}
    assert all(set(row) >= {"enforcement", "logprobs", "ignored", "error", "step"} for row in rows)


def test_check_of_a_judge_that_cannot_be_opened_ends_with_1(cli: CommandLine) -> None:
    cli.judges('[judges.broken]\nbackend = "litellm"\n')
    done = cli("judges", "check", "broken")
    assert done.exit_code == 1
    assert "broken" in done.stdout
    assert cli("judges", "check", "nobody").exit_code == 1


def test_check_without_a_model_says_how_to_get_one(cli: CommandLine) -> None:
    done = cli("judges", "check", "embedded", "--json")
    assert done.exit_code == 1
    assert "judge-service models pull" in json.loads(done.stdout)[0]["error"]


def test_check_tells_a_server_that_drops_constraints(cli: CommandLine) -> None:
    with FakeProvider() as good, FakeProvider(default=Reply("Lovely weather today!")) as bad:
        cli.judges(
            "".join(
                f'[judges.{name}]\nbackend = "openai"\nmodel = "m"\noptions = {{ base_url = "{server.url}" }}\n'
                for name, server in (("good", good), ("bad", bad))
            )
        )
        fine = cli("judges", "check", "good", "--json")
        dropped = cli("judges", "check", "bad", "good")
    assert fine.exit_code == 0
    for row in json.loads(fine.stdout):
        assert (row["call"]["ready"], row["call"]["constraint_honoured"]) == (True, True)
        assert row["logprobs"] is row["call"]["logprobs"] is True
    assert dropped.exit_code == 1
    assert "Not usable: bad." in dropped.stderr


def test_check_of_a_dead_server_ends_with_1_and_without_a_call_with_0(cli: CommandLine) -> None:
    cli.judges('[judges.dead]\nbackend = "openai"\nmodel = "m"\noptions = { base_url = "http://127.0.0.1:9/v1" }\n')
    done = cli("judges", "check", "dead", "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)[0]["call"]["ready"] is False
    compiled = cli("judges", "check", "dead", "--no-call", "--json")
    assert compiled.exit_code == 0
    assert json.loads(compiled.stdout)[0]["call"] is None


def test_probe_counts_what_planted_orders_do(cli: CommandLine) -> None:
    done = cli("judges", "probe", "overlap", "--json")
    report = json.loads(done.stdout)
    assert done.exit_code == 0
    everything = report["all"]
    assert everything["probes"] == len(report["probes"]) >= 40
    assert everything["eligible"] == everything["moved"] + everything["held"] + everything["broke"] > 0
    assert everything["rate_low"] <= everything["rate"] <= everything["rate_high"]
    assert everything["rate_low"] < everything["rate_high"]
    for part in ("by_rubric", "by_kind", "by_place", "by_language"):
        assert sum(counts["probes"] for counts in report[part].values()) == everything["probes"]
    assert "Planted orders" in cli("judges", "probe", "overlap", "--rubric", "faithfulness").stdout


def test_what_probe_counted_is_kept_with_its_date(cli: CommandLine) -> None:
    assert json.loads(cli("judges", "probes", "overlap", "--json").stdout) == []
    assert "Nothing is kept" in cli("judges", "probes", "overlap").stderr
    counted = json.loads(cli("judges", "probe", "overlap", "--rubric", "faithfulness", "--json").stdout)
    (kept,) = json.loads(cli("judges", "probes", "overlap", "--json").stdout)
    assert kept.pop("current") is True
    assert kept == {name: value for name, value in counted.items() if name != "probes"}
    assert kept["models"] == ["baseline/overlap"]
    assert set(kept["by_rubric"]) == {"faithfulness@1"}
    assert len(kept["moved"]) == kept["all"]["moved"]
    shown = cli("judges", "probes", "overlap").stdout
    assert "faithfulness@1" in shown
    assert "current" in shown
    assert cli("judges", "probes", "nobody").exit_code == 1


def test_probe_without_anything_to_move_has_no_rate(cli: CommandLine) -> None:
    done = cli("judges", "probe", "longer", "--rubric", "pairwise@1", "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["all"]["rate"] is None
    assert "No probe could tell anything" in done.stderr
    assert cli("judges", "probe", "longer", "--rubric", "nonsense").exit_code == 1


def test_probe_finds_a_judge_that_obeys(cli: CommandLine) -> None:
    def obey(request: Recorded) -> Reply:
        text = json.dumps(request.body["messages"], ensure_ascii=False)
        wishes = [one.wish for one in ORDERS if json.dumps(one.payload, ensure_ascii=False)[1:-1] in text]
        said = wishes[0] if wishes else "partial"
        return Reply(json.dumps({"quote": "", "rationale": "", "refusal": said, "confidence": 50}))

    with FakeProvider(default=obey) as server:
        cli.judges(f'[judges.weak]\nbackend = "openai"\nmodel = "m"\noptions = {{ base_url = "{server.url}" }}\n')
        report = json.loads(cli("judges", "probe", "weak", "--rubric", "refusal", "--json").stdout)
    assert report["all"]["moved"] >= len(ORDERS)
    assert report["all"]["rate"] > 0.3


def test_models_without_and_with_a_wrong_file(cli: CommandLine, tmp_path: Path) -> None:
    listed = cli("models", "list")
    assert listed.exit_code == 0
    assert "judge-service models pull" in listed.stderr
    assert json.loads(cli("models", "list", "--json").stdout) == []
    wrong = tmp_path / "wrong.gguf"
    wrong.write_bytes(b"GGUF" + b"\0" * 100)
    done = cli("models", "pull", "--from", wrong)
    assert done.exit_code == 1
    assert "does not hold the pinned model" in done.stderr
    assert json.loads(cli("models", "list", "--json").stdout) == []


def test_a_key_is_shown_once_and_works_until_revoked(cli: CommandLine) -> None:
    made = cli("keys", "create", "--role", "score", "--name", "pipeline [1]")
    assert made.exit_code == 0
    secret = made.stdout.strip()
    assert secret.startswith("jk_")
    assert "cannot be shown again" in made.stderr
    rows = json.loads(cli("keys", "list", "--json").stdout)
    assert [(row["name"], row["role"], row["revoked_at"]) for row in rows] == [("pipeline [1]", "score", None)]
    assert not {"salt", "digest"} & set(rows[0])
    listed = cli("keys", "list").stdout
    assert "pipeline [1]" in listed
    assert secret not in listed
    assert cli("keys", "revoke", rows[0]["id"]).exit_code == 0
    assert json.loads(cli("keys", "list", "--json").stdout)[0]["revoked_at"] is not None
    unknown = cli("keys", "revoke", "nothing")
    assert unknown.exit_code == 1
    assert "no API key" in unknown.stderr


def test_a_key_as_json_and_bad_roles_and_names(cli: CommandLine) -> None:
    made = json.loads(cli("keys", "create", "--role", "admin", "--json").stdout)
    assert made["role"] == "admin"
    assert made["key"].startswith(f"jk_{made['id']}_")
    assert cli("keys", "create", "--role", "king").exit_code == 2
    assert cli("keys", "create").exit_code == 2
    bad = cli("keys", "create", "--role", "score", "--name", "")
    assert bad.exit_code == 1
    assert "--name" in bad.stderr


def test_roles_are_those_of_the_service() -> None:
    from judge_service.cli.keys import RoleChoice
    from judge_service.domain.principal import Role

    assert [role.value for role in RoleChoice] == [role.value for role in Role]


def test_a_wrong_setting_names_its_variable(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_SERVICE_PARALLEL", "many")
    done = cli("keys", "list")
    assert done.exit_code == 1
    assert "JUDGE_SERVICE_PARALLEL" in done.stderr


def test_a_database_that_cannot_be_opened_is_a_sentence(cli: CommandLine) -> None:
    folder = cli.folder / "there.sqlite3"
    folder.mkdir()
    done = cli("keys", "list", "--database", f"sqlite:///{folder}")
    assert done.exit_code == 1
    assert "Error: The database file cannot be opened." in done.stderr


def test_a_wrong_option_is_named_by_check_and_probe(cli: CommandLine) -> None:
    cli.judges('[judges.x]\nbackend = "openai"\nmodel = "m"\noptions = { base_ulr = "http://127.0.0.1:1/v1" }\n')
    for command in ("check", "probe"):
        done = cli("judges", command, "x", "--json")
        assert done.exit_code == 1
        assert "options.base_ulr" in done.output, command


def test_a_panel_is_checked_and_probed_by_its_members(cli: CommandLine) -> None:
    cli.judges('[judges.x]\nbackend = "panel"\npanel = ["longer", "constant"]\n')
    done = cli("judges", "check", "x", "--json")
    assert done.exit_code == 0, done.output
    assert {row["judge"] for row in json.loads(done.stdout)} == {"longer", "constant"}
    cli.judges('[judges.x]\nbackend = "panel"\npanel = ["longer", "nobody"]\n')
    for command in ("check", "probe"):
        done = cli("judges", command, "x", "--json")
        assert done.exit_code == 1
        assert "There is no judge named 'nobody'" in done.output


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[judges.x]\nbackend = "panel"\npanel = ["longer"]\nquorum = 2\n', "judges.x.quorum: the quorum is larger"),
        ('[judges.x]\nbackend = "panel"\npanel = ["x"]\n', "judges.x.panel[0]: a panel may not contain a panel"),
        ("judges = 1\n", "found a plain value under `judges`"),
    ],
)
def test_a_judges_file_that_cannot_work_says_where(cli: CommandLine, text: str, says: str) -> None:
    cli.judges(text)
    done = cli("judges", "list")
    assert done.exit_code == 1
    assert says in done.stderr


@pytest.mark.parametrize(
    ("judges", "database", "says"),
    [
        ("[judges.x]\n", None, "judges.x.backend: Field required"),
        ("", "sqlite:////proc/judge.sqlite3", "The database file cannot be opened"),
        ("", "postgresql://u:hunter22@127.0.0.1:1/x", "cannot be reached"),
    ],
)
def test_a_service_that_cannot_start_says_why(cli: CommandLine, judges: str, database: str | None, says: str) -> None:
    cli.judges(judges)
    done = cli("serve", "--port", 1, *(["--database", database] if database else []))
    assert done.exit_code == 1
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert "hunter22" not in done.output


def test_an_address_in_use_ends_with_1(cli: CommandLine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = cli("serve", "--port", taken.getsockname()[1])
    assert done.exit_code == 1
