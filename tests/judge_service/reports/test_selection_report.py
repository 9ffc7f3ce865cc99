"""One report object in every form: shapes, edge sets without a crash or NaN, the same numbers everywhere."""

import csv
import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration.intervals import wilson
from judge_service.domain.calibration_set import Split
from judge_service.domain.planted import ProbeCounts, ProbeResult
from judge_service.reports.planted import shown_result
from judge_service.reports.render import to_html, to_json
from judge_service.reports.sections import SECTIONS
from judge_service.reports.selection import build_report
from judge_service.reports.selection_forms import MOST_JUDGES, MOST_LINES, to_markdown, to_zip, write_tables
from judge_service.reports.study import Choices, Study
from judge_service.reports.tables import all_tables
from tests.judge_service.reports.studies import FAST, Pair, Reply, dataset_of, right, row, section, set_of, study_of

QUICK = Choices(resamples=100)


def good(pair: Pair) -> Reply:
    return Reply.same(right(pair, 0.9), confidence=pair.draw.choice((0.7, 0.9)), cost=0.001)


def plain(pair: Pair) -> Reply:
    return Reply.same(right(pair, 0.8))


def mute(pair: Pair) -> Reply:
    return Reply(None, None)


def absent(pair: Pair) -> None:
    return None


def flipping(pair: Pair) -> Reply:
    return Reply("A", "B")


def constant(pair: Pair) -> Reply:
    return Reply.same("A", confidence=1.0)


def figures(value: Any, path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(value, Mapping):
        if "value" in value and "method" in value:
            yield path, value
        for name, part in value.items():
            yield from figures(part, f"{path}.{name}")
    elif isinstance(value, list):
        for place, part in enumerate(value):
            yield from figures(part, f"{path}[{place}]")


def honest(report: dict[str, Any]) -> None:
    """No NaN; every null has its reason; every form can be made and says the decision."""
    text = to_json(report)
    assert json.loads(text) == report
    for path, figure in figures(report):
        assert (figure["value"] is None) == (figure["undefined_reason"] is not None), path
        assert figure["value"] is None or figure["low"] is not None or figure["interval_reason"], path
    page, summary = to_html(report), to_markdown(report)
    for form in (page, summary):
        assert "NaN" not in form
    assert len(summary.splitlines()) <= MOST_LINES
    assert report["decision"]["sentence"].replace("'", "&#39;") in page
    for table in all_tables(report).values():
        lines = list(csv.reader(io.StringIO(table.csv())))
        assert lines[0] == table.columns
        assert all(len(line) == len(table.columns) for line in lines)


EDGES = {
    "twenty": (20, {}),
    "one_class": (120, {"labels": ["A"] * 120}),
    "one_group": (120, {"groups": 1}),
    "few_groups": (120, {"groups": 4}),
    "one_case": (1, {}),
    "no_label": (12, {"labels": [None] * 12}),
    "all_ties": (120, {"labels": ["tie"] * 120}),
    "three_people": (120, {"people": 3}),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("edge", EDGES)
def test_edge_sets_make_honest_reports(edge: str) -> None:
    n, more = EDGES[edge]
    judges = {"good": good, "plain": plain, "mute": mute, "absent": absent, "flipping": flipping, "constant": constant}
    report = build_report(study_of(judges, n, choices=QUICK, **more))
    honest(report)
    if edge != "three_people":
        assert report["decision"]["pattern"] == "not_enough_evidence"
    for name in ("mute", "absent"):
        assert row(report, "judges", name)["kappa"]["value"] is None
        assert row(report, "judges", name)["agreement"]["value"] in (0.0, None)
    assert row(report, "confidence", "plain")["measured"] is False
    assert row(report, "threshold", "plain")["usable"]["reason"] == "no_confidence"


def test_twenty_labels_have_counts_and_no_headline() -> None:
    report = build_report(study_of({"good": good}, 20, choices=QUICK))
    assert report["facts"]["tier"] == "counts only"
    found = row(report, "confidence", "good")
    assert (found["headline"], found["miscalibrated"]) == (False, None)
    assert [one["fitted"] for one in found["maps"]] == [False] * 5
    assert all(one["reason"] and one["text"] for one in found["maps"])
    assert row(report, "threshold", "good")["usable"]["text"].startswith("Fewer than 100 labels")


def test_one_class_has_no_kappa_and_no_decision() -> None:
    report = build_report(study_of({"constant": constant}, 120, labels=["A"] * 120, choices=QUICK))
    found = row(report, "agreement", "constant")
    assert found["kappa"]["undefined_reason"] == "one_class"
    assert (found["raw"]["numerator"], found["raw"]["denominator"]) == (120, 120)
    assert section(report, "agreement")["constant"]["agreement"]["value"] == 1.0
    assert report["decision"]["missing"]["what"] == "labels_of_second_class"


@settings(deadline=None, max_examples=15)
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from(["A", "B", "tie", None]),
            st.sampled_from(["A", "B", "tie", None]),
            st.sampled_from(["A", "B", "tie", None]),
            st.none() | st.sampled_from([0.0, 0.3, 0.5, 1.0]),
        ),
        max_size=40,
    ),
    groups=st.none() | st.integers(1, 12),
)
def test_any_pairs_make_an_honest_report(rows: list[Any], groups: int | None) -> None:
    replies = iter([Reply(ab, ba, confidence=stated) for _, ab, ba, stated in rows])
    report = build_report(
        study_of(
            {"J": lambda pair: next(replies)},
            len(rows),
            labels=[label for label, *_ in rows],
            groups=groups,
            choices=QUICK,
        )
    )
    honest(report)
    counts = row(report, "outcomes", "J")["counts"]
    assert sum(counts.values()) == len(rows)


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return build_report(study_of({"good": good, "plain": plain, "mute": mute}, 240, people=3, choices=FAST))


def test_every_section_stands_once_in_order(report: dict[str, Any]) -> None:
    assert [part["id"] for part in report["sections"]] == [part.ID for part in SECTIONS]
    assert list(report) == ["format", "program", "created_at", "title", "decision", "facts", "sections"]
    assert report["title"] == "Which judge for pairwise@1?"


def test_the_same_numbers_stand_in_json_and_tables(report: dict[str, Any], tmp_path: Path) -> None:
    paths = write_tables(report, tmp_path / "tables")
    read = {path.stem: list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")))) for path in paths}
    assert read["decision"][0]["sentence"] == report["decision"]["sentence"]
    for found, line in zip(section(report, "judges")["judges"], read["judges"], strict=True):
        assert line["judge"] == found["judge"]
        assert float(line["agreement"]) == found["agreement"]["value"]
        assert float(line["agreement_low"]) == found["agreement"]["low"]
        assert line["kappa"] == ("" if found["kappa"]["value"] is None else repr(found["kappa"]["value"]))
        assert line["kappa_reason"] == (found["kappa"]["undefined_reason"] or "")
    bins = [line for line in read["confidence_bins"] if line["judge"] == "good"]
    assert [float(line["accuracy"]) for line in bins] == [
        one["accuracy"] for one in row(report, "confidence", "good")["bins"]
    ]
    table = [
        [int(line[label]) for label in section(report, "confusion")["classes"]] for line in read["confusion_table"][:3]
    ]
    assert table == section(report, "confusion")["judges"][0]["table"]
    policies = [line for line in read["order_policies"] if line["judge"] == "plain"]
    assert [line["policy"] for line in policies] == ["ab_only", "ba_only", "random_order", "swap_tie"]
    with zipfile.ZipFile(io.BytesIO(to_zip(report))) as packed:
        assert sorted(packed.namelist()) == sorted(path.name for path in paths)
        for path in paths:
            assert packed.read(path.name) == path.read_bytes()
    assert to_zip(report) == to_zip(report)


def test_a_comment_with_many_judges_shows_the_one_that_is_chosen() -> None:
    judges = {f"J{place}": plain for place in range(MOST_JUDGES + 3)} | {"best": lambda pair: Reply.same(pair.label)}
    summary = to_markdown(build_report(study_of(judges, 200, choices=QUICK)))
    assert "| best | 100.0 (" in summary
    assert "4 more judges are in the report." in summary
    assert len(summary.splitlines()) <= MOST_LINES


def test_the_annotator_test_needs_three_people_on_thirty_cases(report: dict[str, Any]) -> None:
    found = section(report, "labels")["annotator_test"]
    assert found["measured"] is True
    passed = {one["judge"]: one["passed"] for one in found["judges"]}
    assert passed == {"good": True, "plain": False, "mute": False}
    alone = section(build_report(study_of({"good": good}, 60, people=1, choices=QUICK)), "labels")["annotator_test"]
    assert (alone["measured"], alone["reason"]) == (False, "too_few_labels")


def test_people_and_single_labels_are_compared_like_with_like(report: dict[str, Any]) -> None:
    found = section(report, "agreement")
    assert found["people"]["s1"]["value"] == 1.0
    assert found["people"]["cases"] == 240
    good_row = row(report, "agreement", "good")
    # Three people who all give the label: single labels agree as the label does.
    assert good_row["single_labels"]["s1"]["value"] == pytest.approx(good_row["raw"]["value"])
    assert good_row["single_labels"]["s1"]["denominator"] == 720


def test_differences_are_paired_with_the_leader_and_corrected() -> None:
    judges = {"best": good, "middle": plain, "low": lambda pair: Reply.same(right(pair, 0.65))}
    found = section(build_report(study_of(judges, 400)), "agreement")["comparisons"]
    assert (found["leader"], found["adjusted_over"]) == ("best", 2)
    for one in found["rows"]:
        assert one["only_leader"] - one["only_judge"] == round(one["difference"]["value"] * 400)
        assert one["p"] <= one["p_holm"] <= 1
    assert {one["judge"]: one["separated"] for one in found["rows"]} == {"middle": True, "low": True}


def test_the_front_of_costs_holds_the_judges_that_nothing_cheaper_equals() -> None:
    judges = {
        "dear": lambda pair: Reply.same(right(pair, 0.9), cost=0.004),
        "cheap": lambda pair: Reply.same(right(pair, 0.8), cost=0.001),
        "worse": lambda pair: Reply.same(right(pair, 0.7), cost=0.002),
    }
    found = section(build_report(study_of(judges, 200, choices=QUICK)), "cost")
    assert found["front"] == ["cheap", "dear"]
    assert [one["cost_per_1000"] for one in found["judges"]] == pytest.approx([4.0, 1.0, 2.0])
    assert found["judges"][0]["seconds_p95"] == pytest.approx(0.01)


def test_declared_slices_are_tested_and_others_only_described() -> None:
    def half(pair: Pair) -> Reply:
        return Reply.same(pair.label if pair.longer == "A" else right(pair, 0.6))

    dataset = dataset_of({"half": half}, 400)
    undeclared = section(build_report(Study(dataset, QUICK, labelled_set=set_of(dataset))), "slices")
    assert undeclared["declared"] is False
    assert [key["key"] for key in undeclared["keys"]] == ["model_a", "model_b", "part"]
    assert all(one["p_holm"] is None for key in undeclared["keys"] for part in key["values"] for one in part["judges"])
    choices = Choices(resamples=100, by=("part",))
    declared = section(build_report(Study(dataset, choices, labelled_set=set_of(dataset))), "slices")
    [key] = declared["keys"]
    assert [(part["value"], part["n"]) for part in key["values"]] == [("a", 200), ("b", 200)]
    assert all(part["judges"][0]["p_holm"] is not None for part in key["values"])
    whole = sum(part["judges"][0]["agreement"]["numerator"] for part in key["values"])
    assert whole == row(build_report(Study(dataset, QUICK)), "judges", "half")["agreement"]["numerator"]


def test_planted_orders_are_shown_or_say_how_to_measure_them() -> None:
    dataset = dataset_of({"good": good, "plain": plain}, 40)
    study = Study(dataset, QUICK, probes={"good": {"all": {"moved": 3, "eligible": 20}}})
    report = build_report(study)
    assert row(report, "biases", "good")["planted"]["figures"]["all"]["moved"] == 3
    other = row(report, "biases", "plain")["planted"]
    assert (other["measured"], other["command"]) == (False, "judge-service judges probe plain")


def test_a_kept_probing_is_a_row_with_its_rate_interval_and_date() -> None:
    counts = ProbeCounts(probes=24, moved=3, held=16, broke=1, already=2, no_verdict=2)
    result = ProbeResult(
        id="prb_1",
        judge="good",
        judge_hash="0" * 64,
        probe_set="abcdef123456" + "0" * 52,
        total=counts,
        by_rubric={"pairwise@1": counts},
        by_kind={"fake_json": counts},
        by_place={},
        by_language={},
        left_out={"refusal@1": "the judge has no answer for it"},
        created_at=datetime(2026, 5, 4, tzinfo=UTC),
    )
    study = Study(dataset_of({"good": good}, 40), QUICK, probes={"good": shown_result(result)})
    page = to_html(build_report(study))
    low, high = wilson(3, counts.eligible)
    assert f"{low * 100:.1f} to {high * 100:.1f}" in page
    assert f"fake json 3 of {counts.eligible}" in page
    assert "refusal@1: the judge has no answer for it" in page
    assert "2026-05-04" in page
    assert "probe set abcdef123456<" in page


def test_cases_of_a_release_split_are_counted_and_not_shown() -> None:
    dataset = dataset_of({"plain": plain}, 200)
    found = section(
        build_report(Study(dataset, QUICK, labelled_set=set_of(dataset, split=Split.RELEASE))), "disagreements"
    )
    assert (found["differ"], found["cases"], found["not_listed"]) == (40, [], 40)
    assert "looking at them" in found["withheld"]
    open_to_all = section(build_report(Study(dataset, QUICK, labelled_set=set_of(dataset))), "disagreements")
    assert len(open_to_all["cases"]) == 40
    assert open_to_all["withheld"] is None
    assert open_to_all["cases"][0]["judges"][0]["says"].endswith("is better")
