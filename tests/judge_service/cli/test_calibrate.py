"""From labels to trust over the command line: import, freeze, calibrate, judge, compare."""

import json
import random
from typing import Any

import pytest

from tests.judge_service.cli.conftest import CommandLine

CLASSIFIER = """
[judges.entails]
backend = "classifier"
confidence = "classifier"
options = { function = "tests.support.classifiers:stated" }
"""


def pairs(cli: CommandLine, n: int = 120, name: str = "pairs.jsonl", **more: Any) -> None:
    """Pairs in which people mostly prefer the longer answer."""
    draw = random.Random(7)
    rows = []
    for i in range(n):
        short, long = f"w{i} a", f"v{i} b c d e f"
        flipped = i % 2 == 0
        agrees = draw.random() < 0.8
        label = "A" if flipped == agrees else "B"
        first, second = (long, short) if flipped else (short, long)
        rows.append(
            {
                "id": f"c{i}",
                "prompt": f"Question number {i} on subject {i * 7}?",
                "response_a": first,
                "response_b": second,
                "human_label": label,
                "language": "en" if i % 3 else "de",
                **more,
            }
        )
    (cli.folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def claims(cli: CommandLine, n: int = 300) -> None:
    """Answers whose stated probabilities are further from a half than they should be."""
    draw = random.Random(3)
    rows = []
    for i in range(n):
        stated = draw.choice((3, 10, 20, 80, 90, 97))
        true = 0.5 + (stated / 100 - 0.5) * 0.5
        rows.append(
            {
                "id": f"c{i}",
                "question": None,
                "contexts": [f"Context number {i}."],
                "answer": f"The share of item {i} is {stated} percent.",
                "human_label": "supported" if draw.random() < true else "unsupported",
            }
        )
    (cli.folder / "claims.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def ok(cli: CommandLine, *arguments: object) -> str:
    result = cli(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def load(cli: CommandLine, name: str, rubric: str, file: str) -> None:
    ok(cli, "sets", "create", name, "--rubric", rubric)
    ok(cli, "sets", "import", name, cli.folder / file)


def test_a_frozen_set_gives_trust_to_later_and_earlier_judgments(cli: CommandLine) -> None:
    pairs(cli)
    load(cli, "demo", "pairwise@1", "pairs.jsonl")
    refused = cli("calibrate", "demo", "--judge", "longer")
    assert refused.exit_code == 1
    assert "not frozen" in refused.output
    ok(cli, "sets", "freeze", "demo")
    before = cli.pairs(3)
    ok(cli, "judge", "pairwise@1", before, "--judge", "longer", "-o", cli.folder / "out.jsonl")
    assert {row["trust"]["level"] for row in cli.rows()} == {"uncalibrated"}
    [found] = json.loads(ok(cli, "calibrate", "demo", "--judge", "longer", "--json"))
    assert found["set_id"] == "demo@1"
    assert found["n"] == 120
    assert found["shortcoming"] is None
    assert found["map"] is None
    assert found["agreement_low"] < found["agreement"] < found["agreement_high"]
    ok(cli, "judge", "pairwise@1", before, "--judge", "longer", "-o", cli.folder / "out.jsonl")
    for row in cli.rows():
        trust = row["trust"]
        assert trust["level"] == "calibrated"
        assert trust["calibration_set"] == "demo@1"
        assert trust["agreement"] == found["agreement"]
        assert trust["report"] == f"/v1/calibrations/{found['id']}"
    again = json.loads(ok(cli, "calibrate", "demo", "--judge", "longer", "--json"))
    assert again[0]["runs"] == found["runs"]
    assert again[0]["agreement"] == found["agreement"]


def test_statistics_name_every_part_with_its_n_and_reason(cli: CommandLine) -> None:
    pairs(cli)
    load(cli, "demo", "pairwise@1", "pairs.jsonl")
    nobody = cli("stats", "--set", "demo")
    assert nobody.exit_code == 0
    assert "Nobody judged demo@1 yet" in nobody.output
    counted = ok(cli, "stats", "--set", "demo", "--shares", "label", "--by", "language", "--resamples", 200)
    assert "Shares of label by language" in counted
    assert "labelled cases" not in counted
    ok(cli, "sets", "freeze", "demo")
    ok(cli, "calibrate", "demo", "--judge", "longer", "--judge", "constant")
    found = json.loads(ok(cli, "stats", "--set", "demo", "--by", "language", "--resamples", 200, "--json"))
    assert [judge["judge"] for judge in found["judges"]] == ["longer", "constant"]
    longer = found["judges"][0]
    assert longer["agreement"]["raw_agreement"]["denominator"] == 120
    assert longer["position"]["consistency"]["value"] == 1.0
    assert longer["confidence"] is None
    assert longer["repeats"]["repetition_stability"]["undefined_reason"] == "n_below_2"
    assert longer["length"]["judge_longer_rate"]["value"] == 1.0
    assert longer["failures"]["all"]["numerator"] == 0
    assert found["humans"]["ceiling"]["s1"]["undefined_reason"] == "too_few_labels"
    assert {part["value"]: part["n"] for part in found["slices"]["language"]} == {"de": 40, "en": 80}
    text = ok(cli, "stats", "--set", "demo", "--resamples", 200)
    assert "120 labelled cases: selection between clearly different judges" in text
    asked = ("--shares", "language", "--leave-out", "de", "--resamples", 200)
    (whole,) = json.loads(ok(cli, "stats", "--set", "demo", *asked, "--json"))["shares"]
    assert (whole["n"], whole["denominator"], whole["left_out"]) == (120, 80, {"de": 40})
    assert "left out" in ok(cli, "stats", "--set", "demo", *asked)
    wrong = cli("stats", "--set", "demo", "--by", "nothing")
    assert wrong.exit_code == 1
    assert "nothing" in wrong.output


def test_the_release_split_is_scored_once_per_configuration(cli: CommandLine) -> None:
    pairs(cli, split="release")
    load(cli, "demo", "pairwise@1", "pairs.jsonl")
    ok(cli, "sets", "freeze", "demo")
    [found] = json.loads(ok(cli, "calibrate", "demo", "--judge", "longer", "--split", "release", "--json"))
    assert found["split"] == "release"
    assert found["map"] is None
    ok(cli, "stats", "--set", "demo", "--split", "release", "--resamples", 200)
    closed = cli("stats", "--set", "demo", "--resamples", 200)
    assert closed.exit_code == 1
    assert "scored once: name it" in " ".join(closed.output.split())
    other = ("stats", "--set", "demo", "--split", "release", "--failures", "tie", "--resamples", 200)
    refused = cli(*other)
    assert refused.exit_code == 1
    assert "scored there once" in " ".join(refused.output.split())
    second = cli("calibrate", "demo", "--judge", "longer", "--split", "release")
    assert second.exit_code == 1
    assert "scored there once" in " ".join(second.output.split())
    ok(cli, "calibrate", "demo", "--judge", "constant", "--split", "release")
    ok(cli, "sets", "create", "demo", "--from", "demo@1")
    ok(cli, "sets", "freeze", "demo")
    copied = cli("calibrate", "demo@2", "--judge", "longer", "--split", "release")
    assert copied.exit_code == 1
    assert "demo@1, which shares cases with it" in copied.stderr


def test_a_split_that_a_judge_was_never_asked_about_is_no_failure_of_it(cli: CommandLine) -> None:
    pairs(cli, n=40, split="release")
    load(cli, "demo", "pairwise@1", "pairs.jsonl")
    rows = [json.loads(line) for line in (cli.folder / "pairs.jsonl").read_text().splitlines()]
    more = [row | {"id": f"d{i}", "prompt": f"Another {i}?", "split": "calibration"} for i, row in enumerate(rows)]
    (cli.folder / "more.jsonl").write_text("".join(json.dumps(row) + "\n" for row in more))
    ok(cli, "sets", "import", "demo", cli.folder / "more.jsonl")
    ok(cli, "sets", "freeze", "demo")
    ok(cli, "calibrate", "demo", "--judge", "longer", "--split", "calibration")
    ok(cli, "calibrate", "demo", "--judge", "constant", "--split", "release")
    apart = cli("stats", "--set", "demo", "--resamples", 200)
    assert apart.exit_code == 1
    assert "judged different splits (longer: calibration; constant: release)" in " ".join(apart.stderr.split())
    alone = json.loads(ok(cli, "stats", "--set", "demo", "--judge", "longer", "--resamples", 200, "--json"))
    assert (alone["set"]["splits"], alone["n_labelled"]) == (["calibration"], 40)
    ok(cli, "calibrate", "demo", "--judge", "longer", "--split", "release")
    on_release = ("stats", "--set", "demo", "--split", "release", "--resamples", 200, "--json")
    both = json.loads(ok(cli, *on_release))
    assert (both["set"]["splits"], both["n_labelled"]) == (["release"], 40)
    assert [row["failures"]["all"]["value"] for row in both["judges"]] == [0.0, 0.0]


def test_a_configuration_that_was_set_back_is_measured_on_its_own_verdicts(cli: CommandLine) -> None:
    pairs(cli, n=40)
    load(cli, "demo", "pairwise@1", "pairs.jsonl")
    ok(cli, "sets", "freeze", "demo")
    measured = []
    for model in ("longer", "constant", "longer"):
        cli.judges(f'[judges.mine]\nbackend = "baseline"\nmodel = "{model}"\n')
        [found] = json.loads(ok(cli, "calibrate", "demo", "--judge", "mine", "--json"))
        measured.append((found["judge_hash"], found["agreement"]))
    assert measured[0] == measured[2]
    assert measured[0] != measured[1]


def test_a_panel_whose_member_changed_is_another_judge(cli: CommandLine) -> None:
    pairs(cli, n=40)
    load(cli, "demo", "pairwise@1", "pairs.jsonl")
    ok(cli, "sets", "freeze", "demo")
    measured = []
    for model in ("longer", "constant", "longer"):
        members = "".join(
            f'[judges.{name}]\nbackend = "baseline"\nmodel = "{model}"\n' for name in ("one", "two", "three")
        )
        cli.judges(f'{members}[judges.mine]\nbackend = "panel"\npanel = ["one", "two", "three"]\n')
        [found] = json.loads(ok(cli, "calibrate", "demo", "--judge", "mine", "--json"))
        row = found["statistics"]["judge"]
        assert row["n"] == 40
        assert sum(row["outcomes"].values()) == 40
        assert row["judge_hash"] == found["judge_hash"]
        measured.append((found["judge_hash"], found["agreement"], tuple(found["runs"])))
    assert measured[0] == measured[2]
    assert measured[0][0] != measured[1][0]
    assert measured[0][1] != measured[1][1]
    assert not set(measured[0][2]) & set(measured[1][2])


def test_what_was_adjudicated_as_undecidable_is_missing(cli: CommandLine) -> None:
    pairs(cli, n=40)
    load(cli, "demo", "pairwise@1", "pairs.jsonl")
    rows = [{"case_id": f"c{i}", "annotator": "chair", "label": "cannot_say", "adjudicated": True} for i in range(3)]
    (cli.folder / "final.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ok(cli, "sets", "labels", "demo", cli.folder / "final.jsonl")
    ok(cli, "sets", "freeze", "demo")
    ok(cli, "calibrate", "demo", "--judge", "longer")
    found = json.loads(ok(cli, "stats", "--set", "demo", "--resamples", "100", "--json"))
    assert found["n_labelled"] == 37
    assert found["set"]["labels"]["cannot_say"] == 3
    assert found["judges"][0]["n"] == 37
    assert found["judges"][0]["unlabelled_judgments"] == 3


def test_confidence_is_recalibrated_and_said_to_be(cli: CommandLine) -> None:
    cli.judges(CLASSIFIER)
    claims(cli)
    load(cli, "claims", "faithfulness@1", "claims.jsonl")
    ok(cli, "sets", "freeze", "claims")
    [found] = json.loads(ok(cli, "calibrate", "claims", "--judge", "entails", "--json"))
    fitted = found["map"]
    assert fitted["refused"] is None
    assert fitted["method"] == "logistic"
    assert fitted["quality"]["improvement"]["low"] > 0
    assert found["ece"] > 0.1
    case = {"id": "new", "question": None, "contexts": ["Fresh."], "answer": "The share of this is 97 percent."}
    (cli.folder / "new.jsonl").write_text(json.dumps(case) + "\n")
    ok(cli, "judge", "faithfulness@1", cli.folder / "new.jsonl", "--judge", "entails", "-o", cli.folder / "out.jsonl")
    [row] = cli.rows()
    assert row["confidence"]["value"] == pytest.approx(0.97)
    assert row["confidence"]["calibrated"] == pytest.approx(0.735, abs=0.06)
    assert row["confidence"]["map_version"] == fitted["id"]
    [refused] = json.loads(ok(cli, "calibrate", "claims", "--judge", "entails", "--map", "isotonic", "--json"))
    assert "isotonic needs 500" in refused["map"]["refused"]
    ok(cli, "judge", "faithfulness@1", cli.folder / "new.jsonl", "--judge", "entails", "-o", cli.folder / "out.jsonl")
    assert cli.rows()[0]["confidence"]["calibrated"] is None


def test_too_few_labels_are_never_enough(cli: CommandLine) -> None:
    pairs(cli, n=29)
    load(cli, "few", "pairwise@1", "pairs.jsonl")
    ok(cli, "sets", "freeze", "few")
    [found] = json.loads(ok(cli, "calibrate", "few", "--judge", "longer", "--json"))
    assert found["shortcoming"] == "29 labelled cases; at least 30 are needed."
    ok(cli, "judge", "pairwise@1", cli.pairs(2), "--judge", "longer", "-o", cli.folder / "out.jsonl")
    assert {row["trust"]["level"] for row in cli.rows()} == {"insufficient"}


def test_runs_are_shown_corrected_and_compared(cli: CommandLine) -> None:
    pairs(cli)
    load(cli, "demo", "pairwise@1", "pairs.jsonl")
    ok(cli, "sets", "freeze", "demo")
    ok(cli, "calibrate", "demo", "--judge", "longer")
    fresh = cli.pairs(40, "fresh.jsonl", language="en")
    ok(cli, "judge", "pairwise@1", fresh, "--judge", "longer", "-o", cli.folder / "out.jsonl")
    worse = cli.folder / "worse.jsonl"
    swapped = [json.loads(line) for line in fresh.read_text().splitlines()]
    for row in swapped[:30]:
        row["response_a"], row["response_b"] = row["response_b"], row["response_a"]
    worse.write_text("".join(json.dumps(row) + "\n" for row in swapped))
    ok(cli, "judge", "pairwise@1", worse, "--judge", "longer", "-o", cli.folder / "out.jsonl")
    runs = {row["source"]: row["id"] for row in json.loads(ok(cli, "runs", "list", "--json"))}
    shown = json.loads(ok(cli, "runs", "show", runs["fresh.jsonl"], "--slice", "language", "--json"))
    assert shown["mean_score"]["value"] == 1.0
    assert shown["mean_score"]["method"] == "wilson"
    assert shown["bounds"] == {"low": 1.0, "high": 1.0, "n": 40}
    assert shown["slices"]["values"]["en"]["n_scored"] == 40
    corrected = shown["corrected"]["labels"]["A"]
    assert corrected["raw"]["value"] == 1.0
    assert corrected["rogan_gladen"]["method"] == "rogan_gladen/adjusted"
    assert corrected["ppi_plus_plus"]["value"] < 1.0
    compared = json.loads(ok(cli, "runs", "compare", runs["fresh.jsonl"], runs["worse.jsonl"], "--json"))
    assert compared["n_paired"] == 40
    assert compared["difference"]["mean"]["value"] == pytest.approx(-0.75)
    assert compared["difference"]["losses"] == 30
    assert compared["verdict"] == "worse"
    assert compared["mcnemar"]["value"] < 1e-6
    assert "worse" in ok(cli, "runs", "compare", runs["fresh.jsonl"], runs["worse.jsonl"])
    assert "Scored" in ok(cli, "runs", "show", runs["fresh.jsonl"])
    strange = cli("runs", "compare", runs["fresh.jsonl"], "run_nothing")
    assert strange.exit_code == 1
    assert "no run 'run_nothing'" in strange.output
