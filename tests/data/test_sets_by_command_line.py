"""Every folder of the evaluation data through the product's own import and statistics, over the command line.

Folders are told apart by the shape of their expected.json, so that others of the same shape are checked too.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from judge_service.cli.main import app
from tests.data.folders import data_folder, read_object

pytestmark = pytest.mark.data

CLOSE = 1e-4
RESAMPLES = 100
"""Values do not depend on it; intervals are tested elsewhere."""
RULES = {"null_is_tie": "tie", "null_is_wrong": "wrong", "parsed_only": "left_out"}


class Product:
    """The command line with a database of its own, holding one folder's cases, labels and verdicts."""

    def __init__(self, database: Path, folder: Path, rubric: str | None = None, shape: str | None = None) -> None:
        self.url = f"sqlite:///{database}"
        self.name = folder.name
        self.run("sets", "create", self.name, *(() if rubric is None else ("--rubric", rubric)))
        answers, verdicts = folder / "answers.jsonl", folder / "verdicts.jsonl"
        options = () if shape is None else ("--format", shape)
        beside = ("--answers", answers) if answers.exists() else ()
        self.run("sets", "import", self.name, folder / "cases.jsonl", *options, *beside)
        if verdicts.exists():
            self.run("sets", "verdicts", self.name, verdicts)

    def run(self, *arguments: object) -> str:
        result = CliRunner().invoke(app, [*(str(argument) for argument in arguments), "--database", self.url])
        assert result.exit_code == 0, result.output
        return result.stdout

    def stats(self, *arguments: object) -> dict[str, Any]:
        found = json.loads(self.run("stats", "--set", self.name, "--resamples", RESAMPLES, "--json", *arguments))
        assert found["set"]["id"] == f"{self.name}@1"
        return found


Make = Callable[..., Product]


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Make:
    made: dict[tuple[str, ...], Product] = {}

    def make(folder: Path, rubric: str | None = None, shape: str | None = None) -> Product:
        key = (folder.name, str(rubric), str(shape))
        if key not in made:
            made[key] = Product(tmp_path_factory.mktemp("set") / "set.sqlite3", folder, rubric, shape)
        return made[key]

    return make


def folders(fits: Callable[[dict[str, Any]], bool]) -> list[Path]:
    found = [path.parent for path in sorted(data_folder().glob("*/expected.json")) if fits(read_object(path))]
    assert found, f"no folder of this shape in {data_folder()}"
    return found


def objects(expected: dict[str, Any]) -> list[dict[str, Any]]:
    return [value for value in expected.values() if isinstance(value, dict)]


def percent(estimate: dict[str, Any]) -> float:
    return 100 * estimate["value"]


def near(expected: float | None) -> Any:
    return None if expected is None else pytest.approx(expected, abs=CLOSE)


def test_pairs_in_both_orders_reproduce_every_published_row(product: Make) -> None:
    for folder in folders(lambda expected: any("positional_agreement" in row for row in objects(expected))):
        found = product(folder).stats("--by", "group")
        rows = {
            f"{part['value']}|{judge['judge'].replace('--', '|')}": judge
            for part in found["slices"]["group"]
            for judge in part["judges"]
            if judge["outcomes"]["not_judged"] < judge["n"]
        }
        expected = read_object(folder / "expected.json")
        assert rows.keys() == expected.keys()
        for key, figures in expected.items():
            for name, figure in figures.items():
                assert rows[key]["orders"][name] == near(figure), f"{key} {name}"
        published = folder / "published.json"
        if published.exists():
            for key, figures in read_object(published).items():
                for name in ("accuracy_AB", "accuracy_BA", "accuracy", "both_correct", "positional_agreement"):
                    assert rows[key]["orders"][name] == near(figures[name]), f"{key} {name}"


def test_pairs_with_annotators_and_ties(product: Make) -> None:
    for folder in folders(lambda expected: "fleiss_kappa" in expected):
        expected = read_object(folder / "expected.json")
        found = product(folder).stats()
        humans = found["humans"]
        assert found["n_labelled"] == expected["n"]
        assert humans["unanimous"] == expected["unanimous"]
        assert humans["all_different"] == expected["three_different"]
        assert humans["fleiss_kappa"]["value"] == near(expected["fleiss_kappa"])
        counts = {label: share["numerator"] for label, share in humans["labels"].items()}
        assert counts == expected["label_distribution_majority"]
        assert len(humans["pairs"]) == 3
        for (i, j), pair in zip(((1, 2), (1, 3), (2, 3)), humans["pairs"], strict=True):
            assert percent(pair["raw_agreement"]) == near(expected[f"agreement_{i}_{j}"])
            assert pair["cohen_kappa"]["value"] == near(expected[f"cohen_kappa_{i}_{j}"])
        for judge in found["judges"]:
            name = judge["judge"].partition("--")[0]
            own = {"accuracy": judge["agreement"]["raw_agreement"], "cohen_kappa": judge["agreement"]["cohen_kappa"]}
            for theirs, ours in RULES.items():
                figures = expected[f"{name}|{theirs}"]
                shown = judge["rules"].get("failures", {}).get(ours, {**own, **judge["macro"]})
                assert shown["accuracy"]["n"] == figures["n"]
                for figure in ("accuracy", "macro_precision", "macro_recall", "macro_f1"):
                    assert percent(shown[figure]) == near(figures[figure]), f"{name} {theirs} {figure}"
                if "kappa" in figures:
                    assert shown["cohen_kappa"]["value"] == near(figures["kappa"])
                if "null" in figures:
                    assert judge["outcomes"]["judge_error"] == figures["null"]
            assert judge["position"]["consistency"]["undefined_reason"] == "single_order"
            assert judge["orders"]["flips"] is None


def test_a_rule_changes_the_headline_and_keeps_the_other_values(product: Make) -> None:
    for folder in folders(lambda expected: any(key.endswith("|null_is_tie") for key in expected)):
        expected = read_object(folder / "expected.json")
        for option, key in (("tie", "null_is_tie"), ("left_out", "parsed_only")):
            found = product(folder).stats("--failures", option)
            assert found["rules"]["failures"] == option
            for judge in found["judges"]:
                figures = expected[f"{judge['judge'].partition('--')[0]}|{key}"]
                assert percent(judge["agreement"]["raw_agreement"]) == near(figures["accuracy"])
                assert judge["agreement"]["raw_agreement"]["n"] == figures["n"]


def test_thresholds_and_calibration_error_of_scores(product: Make) -> None:
    for folder in folders(lambda expected: any("threshold_from" in row for row in objects(expected))):
        expected = read_object(folder / "expected.json")
        made = product(folder, "citation_support@1")
        tuned = made.stats("--where", "group=test", "--threshold-from", "group=dev")
        own = {judge["judge"]: judge for judge in made.stats("--where", "group=test")["judges"]}
        assert {judge["judge"] for judge in tuned["judges"]} == {
            key for key, row in expected.items() if "threshold" in row
        }
        for judge in tuned["judges"]:
            figures = expected[judge["judge"]]
            itself = "themselves" in figures["threshold_from"]
            shown = (own[judge["judge"]] if itself else judge)["thresholds"]
            assert ("themselves" in shown["best_f1_chosen_on"]) is itself
            assert judge["n"] == figures["n"]
            assert shown["best_f1"]["threshold"] == pytest.approx(figures["threshold"])
            for ours, theirs in (("above_0.5", "0.5"), ("best_f1", "chosen")):
                assert percent(shown[ours]["accuracy"]) == near(figures[f"accuracy@{theirs}"])
                assert percent(shown[ours]["f1"]) == near(figures[f"f1@{theirs}"])
            assert shown["auroc"]["value"] == near(figures["auroc_supported_vs_rest"])
            if "brier" in figures:
                assert shown["score"] == "probability"
                assert shown["brier"]["value"] == near(figures["brier"])
                for bins in (10, 15):
                    assert shown[f"ece_{bins}_bins"]["value"] == near(figures[f"ece{bins}_probability_of_supported"])
                assert shown["ece_of_verdict_10_bins"]["value"] == near(figures["ece10_confidence_of_verdict"])
            else:
                assert percent(judge["agreement"]["raw_agreement"]) == near(figures["accuracy_3way"])
                assert judge["agreement"]["cohen_kappa"]["value"] == near(figures["kappa_3way"])
        labels = {label: share["numerator"] for label, share in tuned["humans"]["labels"].items()}
        test = expected["labels"]["test"]
        assert labels == {
            "none": test["not_supported"],
            "partial": test["partially_supported"],
            "full": test["supported"],
        }


def test_refusals_by_model(product: Make) -> None:
    for folder in folders(lambda expected: any("safe_refusal" in row for row in objects(expected))):
        expected = read_object(folder / "expected.json")
        found = product(folder).stats("--by", "answer_model", "--by", "answer_model,group")
        parts = {part["value"]: part for part in found["slices"]["answer_model"]}
        assert parts.keys() == expected.keys()
        for model, figures in expected.items():
            humans = parts[model]["humans"]
            assert parts[model]["n"] == figures["n"]
            assert percent(humans["pairs"][0]["raw_agreement"]) == near(figures["agreement"])
            assert humans["pairs"][0]["cohen_kappa"]["value"] == near(figures["cohen_kappa"])
            assert humans["fleiss_kappa"]["value"] == near(figures["fleiss_kappa"])
            for judge in parts[model]["judges"]:
                of_judge = figures[f"judge|{judge['judge']}"]
                assert percent(judge["agreement"]["raw_agreement"]) == near(of_judge["accuracy"])
                assert judge["agreement"]["cohen_kappa"]["value"] == near(of_judge["kappa_parsed"])
                assert judge["outcomes"]["judge_error"] == of_judge["null"]
        for part in found["slices"]["answer_model,group"]:
            model, kind = part["value"].split(",")
            for label, share in part["humans"]["labels"].items():
                assert percent(share) == near(expected[model][f"{kind}_{label}"])
            for judge in part["judges"]:
                of_judge = expected[model][f"judge|{judge['judge']}"]
                assert percent(judge["labels"]["refusal"]) == near(of_judge[f"{kind}_refusal"])


REFUSING = {
    "hallucination_rate": "missed_refusal_rate",
    "error_rate": "over_refusal_rate",
    "accuracy_answerable": "correct_attempt_rate",
    "accuracy_unanswerable": "recall",
    "invalid_answerable": "missing_answerable",
    "invalid_unanswerable": "missing_unanswerable",
}
"""Names of the collection, and ours."""
OF_ANSWERABLE = {"over_refusal_rate", "correct_attempt_rate", "missing_answerable"}
LABELS = {"faithful": "supported", "not_fully_supported": "unsupported"}


def test_refusals_of_models_whose_answers_a_rule_read(product: Make) -> None:
    for folder in folders(lambda expected: any("hallucination_rate" in row for row in objects(expected))):
        expected = read_object(folder / "expected.json")
        made = product(folder)
        found = made.stats("--shares", "label:source-rule", "--by", "answer_model", "--by", "answer_model,group")
        assert found["n_labelled"] == 0
        whole = found["shares"][0]
        assert (whole["by"], whole["n"], whole["kinds"]) == (None, found["n_cases"], {"model": found["n_cases"]})
        rows = {row["value"]: row["refusals"] for row in found["shares"] if row["by"] == "answer_model"}
        assert rows.keys() == {key.partition("|")[2] for key in expected}
        halves = {row["value"]: row for row in found["shares"] if row["by"] == "answer_model,group"}
        assert len(halves) == 2 * len(expected)
        one_language = len(rows) == len(expected)
        for key, figures in expected.items():
            language, _, model = key.partition("|")
            mine = rows[model]
            assert figures.keys() == {*REFUSING, "n_answerable", "n_unanswerable"}
            relevant, non_relevant = (halves[f"{model},{language}/{half}"] for half in ("relevant", "non_relevant"))
            for theirs, ours in REFUSING.items():
                one_half = relevant if ours in OF_ANSWERABLE else non_relevant
                assert percent(one_half["refusals"][ours]) == near(figures[theirs]), f"{key} {theirs}"
                if one_language:
                    assert percent(mine[ours]) == near(figures[theirs]), f"{key} {theirs}"
                assert mine[ours]["low"] <= mine[ours]["value"] <= mine[ours]["high"]
            assert relevant["refusals"]["n_answerable"] == relevant["n"] == figures["n_answerable"]
            assert non_relevant["refusals"]["n_unanswerable"] == non_relevant["n"] == figures["n_unanswerable"]
            if one_language:
                assert mine["n_answerable"] == mine["over_refusal_rate"]["n"] == figures["n_answerable"]
                assert mine["n_unanswerable"] == mine["missed_refusal_rate"]["n"] == figures["n_unanswerable"]
            # The same as plain shares of one half of the cases.
            assert percent(relevant["shares"]["refusal"]) == near(figures["error_rate"])
            assert percent(non_relevant["shares"]["compliance"]) == near(figures["hallucination_rate"])
            assert percent(non_relevant["missing_share"]) == near(figures["invalid_unanswerable"])


def is_of_claims(expected: dict[str, Any]) -> bool:
    return "claims_by_label" in expected


def test_answers_by_their_expert_label(product: Make) -> None:
    for folder in folders(is_of_claims):
        expected = read_object(folder / "expected.json")
        whole, *parts = product(folder).stats("--shares", "label", "--by", "group")["shares"]
        assert whole["n"] == expected["cases"]
        by_label = dict(expected["cases_by_label"])
        assert whole["missing"] == by_label.pop("None", 0)
        assert whole["counts"] == {LABELS[name]: count for name, count in by_label.items()}
        systems = {f"system|{part['value']}": part["n"] for part in parts}
        assert systems == {key: row["answers"] for key, row in expected.items() if key.startswith("system|")}


def test_claims_by_label_and_system(product: Make) -> None:
    for folder in folders(is_of_claims):
        expected = read_object(folder / "expected.json")
        made = product(folder, "citation_support@1", "expertqa_claims")
        asked = ("--by", "group", "--shares", "human_label")
        found = made.stats("--shares", "n_passages", *asked)["shares"]
        passages, claims = (row for row in found if row["by"] is None)
        assert passages["n"] - passages["counts"].get("0", 0) == expected["claims_with_a_passage"]
        assert claims["n"] == expected["claims"]
        by_label = dict(expected["claims_by_label"])
        assert claims["missing"] == by_label.pop("None", 0)
        assert claims["counts"] == by_label
        rated = made.stats(*asked, "--leave-out", "missing")["shares"]
        cited = made.stats(*asked, "--leave-out", "missing", "--leave-out", "no_citation")["shares"]
        for name, rows in (("supported_of_rated", rated), ("supported_of_cited", cited)):
            parts = {f"system|{row['value']}": row for row in rows if row["by"] == "group"}
            assert parts.keys() == {key for key in expected if key.startswith("system|")}
            for key, part in parts.items():
                assert part["n"] == expected[key]["claims"]
                assert part["denominator"] == part["shares"]["supported"]["denominator"]
                assert percent(part["shares"]["supported"]) == near(expected[key][name]), f"{key} {name}"
