"""Judge-selection reports over real sets are complete and hold the figures that each folder expects.

Folders are told apart by the shape of their expected.json, so that others of the same shape are checked too.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judge_service.reports.sections import SECTIONS
from tests.data.folders import read_object
from tests.data.test_sets_by_command_line import Make, Product, folders, near, objects, percent, product

__all__ = ["product"]

pytestmark = pytest.mark.data


@pytest.fixture(scope="module")
def report(product: Make, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    """The report over a folder, frozen first: its decision, facts and sections by id."""

    def make(folder: Path, *options: object, rubric: str | None = None) -> dict[str, Any]:
        made: Product = product(folder, rubric)
        made.run("sets", "freeze", made.name)
        path = tmp_path_factory.mktemp("report") / "report.json"
        made.run("report", made.name, "--resamples", 200, "-o", path, *options)
        found = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refused)
        found["sections"] = {part["id"]: part["data"] for part in found["sections"]}
        return dict(found)

    return make


def _refused(constant: str) -> None:
    raise AssertionError(f"{constant} in JSON")


def complete(found: dict[str, Any], *, pairs: bool) -> None:
    ids = [section.ID for section in SECTIONS if pairs or section.ID != "order"]
    assert list(found["sections"]) == ids
    assert found["decision"]["missing"] is None
    assert found["facts"]["set_status"] == "frozen"
    assert any(row["baseline"] for row in found["sections"]["judges"]["judges"])


def by_judge(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["judge"]: row for row in rows}


def test_three_people_and_ties(report: Callable[..., dict[str, Any]]) -> None:
    for folder in folders(lambda expected: "fleiss_kappa" in expected):
        expected = read_object(folder / "expected.json")
        found = report(folder)
        complete(found, pairs=True)
        sections = found["sections"]
        labels = sections["labels"]
        assert labels["n"] == expected["n"]
        assert labels["people"]["unanimous"] == expected["unanimous"]
        assert labels["people"]["fleiss"]["value"] == near(expected["fleiss_kappa"])
        # The ceiling is over all pairs of labels: the mean of the three pairs of people.
        pairs = [expected[f"agreement_{one}"] for one in ("1_2", "1_3", "2_3")]
        assert percent(labels["people"]["s1"]) == near(sum(pairs) / 3)
        assert [percent(pair["agreement"]) for pair in labels["pairs"]] == [near(value) for value in pairs]
        kappas = [expected[f"cohen_kappa_{one}"] for one in ("1_2", "1_3", "2_3")]
        assert [pair["kappa"]["value"] for pair in labels["pairs"]] == [near(value) for value in kappas]
        assert labels["annotator_test"]["measured"] is True
        shares = {label: figure["numerator"] for label, figure in sections["confusion"]["people"].items()}
        assert shares == expected["label_distribution_majority"]
        judges = by_judge(sections["agreement"]["judges"])
        for name, row in judges.items():
            if row["baseline"]:
                continue
            wrong = expected[f"{name.partition('--')[0]}|null_is_wrong"]
            parsed = expected[f"{name.partition('--')[0]}|parsed_only"]
            assert percent(row["raw"]) == near(wrong["accuracy"])
            assert row["raw"]["denominator"] == wrong["n"]
            assert percent(row["raw_valid"]) == near(parsed["accuracy"])
            assert row["kappa"]["value"] == near(parsed["kappa"])
            assert percent(row["macro_f1"]) == near(wrong["macro_f1"])
            order = by_judge(sections["order"]["judges"])[name]
            assert (order["measured"], order["reason"]) == (False, "single_order")
            # Single people's labels, which the ceiling is of, and not their majority.
            assert row["single_labels"]["s1"]["n"] == 3 * expected["n"]
        assert found["decision"]["floor"] == near((sum(pairs) / 3 - 5) / 100)
        assert found["decision"]["pattern"] == "none"


def test_the_gap_of_confidence_and_agreement(report: Callable[..., dict[str, Any]]) -> None:
    for folder in folders(lambda expected: any("threshold_from" in row for row in objects(expected))):
        expected = read_object(folder / "expected.json")
        found = report(folder, "--by", "group", rubric="citation_support@1")
        complete(found, pairs=False)
        sections = found["sections"]
        for name, row in by_judge(sections["confidence"]["judges"]).items():
            if row["baseline"]:
                continue
            assert row["measured"] is ("brier" in expected[name])
            if not row["measured"]:
                continue
            assert row["source"] == "token_probability" or row["source"] == "classifier"
            assert row["n"] + row["without"] == sections["confidence"]["n"]
            assert sum(part["n"] for part in row["bins"]) == row["n"]
            gap = sum(part["n"] * abs(part["accuracy"] - part["mean_confidence"]) for part in row["bins"]) / row["n"]
            assert row["ece"]["value"] == pytest.approx(gap)
            assert 0 < row["by_chance"] < row["by_chance_95"]
            assert row["miscalibrated"] is (row["ece"]["value"] > row["by_chance_95"])
        [group] = sections["slices"]["keys"]
        of_test = next(part for part in group["values"] if part["value"] == "test")
        for name, row in by_judge(of_test["judges"]).items():
            if not row["baseline"] and "accuracy_3way" in expected[name]:
                assert percent(row["agreement"]) == near(expected[name]["accuracy_3way"])
                assert row["kappa"] == near(expected[name]["kappa_3way"])


def test_refusals_by_model(report: Callable[..., dict[str, Any]]) -> None:
    for folder in folders(lambda expected: any("safe_refusal" in row for row in objects(expected))):
        expected = read_object(folder / "expected.json")
        found = report(folder, "--by", "answer_model")
        complete(found, pairs=False)
        sections = found["sections"]
        [key] = sections["slices"]["keys"]
        parts = {part["value"]: part for part in key["values"]}
        assert parts.keys() == expected.keys()
        totals: dict[str, float] = {}
        for model, figures in expected.items():
            assert parts[model]["n"] == figures["n"]
            for name, row in by_judge(parts[model]["judges"]).items():
                if row["baseline"]:
                    continue
                of_judge = figures[f"judge|{name}"]
                assert percent(row["agreement"]) == near(of_judge["accuracy"])
                assert row["kappa"] == near(of_judge["kappa_parsed"])
                assert row["valid"] == figures["n"] - of_judge["null"]
                totals[name] = totals.get(name, 0) + row["agreement"]["numerator"]
        for name, row in by_judge(sections["judges"]["judges"]).items():
            if not row["baseline"]:
                assert row["agreement"]["numerator"] == totals[name]
                outcomes = by_judge(sections["outcomes"]["judges"])[name]["counts"]
                assert sum(outcomes.values()) == sections["judges"]["cases"]
        mean = sum(figures["agreement"] * figures["n"] for figures in expected.values())
        assert percent(sections["labels"]["people"]["s1"]) == near(mean / sections["labels"]["n"])


def test_every_recorded_judge_and_strategy_in_both_orders(report: Callable[..., dict[str, Any]]) -> None:
    for folder in folders(lambda expected: any("positional_agreement" in row for row in objects(expected))):
        expected = read_object(folder / "expected.json")
        found = report(folder, "--floor", 0.6)
        complete(found, pairs=True)
        sections = found["sections"]
        orders = by_judge(sections["order"]["judges"])
        flips: dict[str, dict[str, int]] = {}
        for key, figures in expected.items():
            mine = flips.setdefault(key.partition("|")[2].replace("|", "--"), {"first": 0, "second": 0, "correct": 0})
            mine["first"] += figures["flips_to_first"]
            mine["second"] += figures["flips_to_second"]
            mine["correct"] += round(figures["both_correct"] * figures["n"] / 100)
        assert {name for name, row in orders.items() if not row["baseline"]} == flips.keys()
        judges = by_judge(sections["judges"]["judges"])
        for name, counts in flips.items():
            # Pairs may also lean by a tie in one order, which is no flip.
            assert orders[name]["hard_flips"]["numerator"] == counts["first"] + counts["second"]
            assert orders[name]["to_first"] >= counts["first"]
            assert judges[name]["agreement"]["numerator"] == counts["correct"]
            assert [one["policy"] for one in orders[name]["policies"]][:4] == [
                "ab_only", "ba_only", "random_order", "swap_tie"
            ]  # fmt: skip
        assert found["decision"]["pattern"] in ("select", "any_of", "none")
