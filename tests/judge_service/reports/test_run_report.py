import csv
import io
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.proportion import proportion_confint

from judge_service.domain.judge import Judge
from judge_service.domain.outcome import JudgeErrorReason, Outcome
from judge_service.errors import InvalidInput, NotFound
from judge_service.reports.comparison import NotComparable, compare_runs
from judge_service.reports.fixes import FIXES, fix_for
from judge_service.reports.outline import figure, headline, in_words, number, outline
from judge_service.reports.run_forms import COMMENT_LIMIT, FORMS, escape, figures, render, to_csv, to_html, to_markdown
from judge_service.reports.run_report import run_report
from judge_service.store import Store
from tests.judge_service.reports.runs import PAIRWISE, open_store, pair, run_of
from tests.judge_service.runs.fake import END

OLD = Judge(name="old", backend="scripted", model="m", sampling={"seed": 1})
NEW = Judge(name="new", backend="scripted", model="m", sampling={"seed": 2})
KINDS = tuple(END)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path) as opened:
        yield opened


def endings(*kinds: str) -> dict[str, str]:
    return {f"case-{i}": kind for i, kind in enumerate(kinds)}


BEFORE = endings(*["A"] * 20, *["B"] * 20, "tie", "timeout", "inconsistent", "empty", "A")
AFTER = endings(*["A"] * 17, *["B"] * 3, *["A"] * 9, *["B"] * 11, "A", "B", "B", "B", "timeout")


def test_a_report_holds_the_numbers_of_the_definitions(store: Store) -> None:
    run = run_of(store, BEFORE, OLD)
    found = run_report(store, run.id, by=["language"])
    scores = [END[kind]["score"] for kind in BEFORE.values() if "score" in END[kind]]
    numbers = found["numbers"]
    low, high = stats.t.interval(0.95, len(scores) - 1, np.mean(scores), stats.sem(scores))
    assert numbers["mean_score"]["value"] == pytest.approx(np.mean(scores))
    assert numbers["mean_score"]["low"] == pytest.approx(low)
    assert numbers["mean_score"]["high"] == pytest.approx(high)
    assert (numbers["n_total"], numbers["n_scored"], numbers["n_failed"]) == (45, 42, 2)
    assert numbers["bounds"]["low"] == pytest.approx(sum(scores) / 44)
    assert numbers["bounds"]["high"] == pytest.approx((sum(scores) + 2) / 44)
    wilson = proportion_confint(42, 45, method="wilson")
    assert (numbers["coverage"]["low"], numbers["coverage"]["high"]) == pytest.approx(wilson)
    assert found["failures"] == [
        {"outcome": "inconsistent", "reason": None, "n": 1, "fix": FIXES["inconsistent"]},
        {"outcome": "judge_error", "reason": "timeout", "n": 1, "fix": FIXES["timeout"]},
        {"outcome": "not_applicable", "reason": "empty_answer", "n": 1, "fix": FIXES["not_applicable"]},
    ]
    usage = found["usage"]
    assert usage["calls"] == 90
    assert usage["reused"] == 0
    assert usage["cost_usd"] == pytest.approx(45 * 0.25)
    assert usage["cost_per_1000_usd"] == pytest.approx(250.0)
    assert usage["prompt_tokens"] == 900
    assert usage["latency_ms"]["p99"]["value"] == 1.0
    [by_language] = found["slices"]
    assert {value: part["n_total"] for value, part in by_language["values"].items()} == {"de": 22, "en": 23}
    assert found["comparison"] is None
    assert found["trust"][0]["level"] == "uncalibrated"


def test_judgments_of_an_earlier_run_are_counted_as_reused(store: Store) -> None:
    run_of(store, endings("A", "B"), OLD)
    again = run_of(store, endings("A", "B", "A"), OLD)
    assert run_report(store, again.id)["usage"]["reused"] == 2
    assert "2 judgments were made before this run" in to_markdown_all(run_report(store, again.id))


def to_markdown_all(report: dict[str, Any]) -> str:
    return " ".join(sentence for part in outline(report) for sentence in part.sentences)


def test_a_comparison_pairs_what_both_scored_and_says_what_it_left_out(store: Store) -> None:
    a, b = run_of(store, BEFORE, OLD), run_of(store, AFTER | {"case-77": "A"}, NEW)
    found = run_report(store, b.id, compare=a.id)["comparison"]
    pairs = [
        (END[x]["score"], END[AFTER[name]]["score"])
        for name, x in BEFORE.items()
        if "score" in END[x] and "score" in END[AFTER[name]]
    ]
    deltas = np.array([after - before for before, after in pairs])
    assert found["n_paired"] == len(pairs) == 41
    assert found["difference"]["mean"]["value"] == pytest.approx(deltas.mean())
    low, high = stats.t.interval(0.95, len(deltas) - 1, deltas.mean(), stats.sem(deltas))
    assert (found["difference"]["mean"]["low"], found["difference"]["mean"]["high"]) == pytest.approx((low, high))
    wins, losses = int((deltas > 0).sum()), int((deltas < 0).sum())
    assert [found["difference"][kind] for kind in ("wins", "losses", "ties")] == [wins, losses, 41 - wins - losses]
    assert found["a"]["left_out"] == {
        "not_in_the_other": 0,
        "not_scored": {"inconsistent": 1, "judge_error:timeout": 1, "not_applicable:empty_answer": 1},
    }
    assert found["b"]["left_out"] == {"not_in_the_other": 1, "not_scored": {"judge_error:timeout": 1}}
    assert found["inconsistent"] == {"both": 0, "only_a": 1, "only_b": 0}
    assert found["verdict"] == ("better" if low > 0 else "not separated")
    assert [len(found["examples"][kind]) for kind in ("wins", "losses", "ties", "inconsistent")] == [5, 3, 5, 1]
    win = found["examples"]["wins"][0]
    assert win["delta"] == 1.0
    assert win["asked"] == f"question {win['case_id'].rpartition('-')[2]}"
    assert (win["before"]["label"], win["after"]["label"]) == ("B", "A")
    # All failures at their worst for the gain: 44 cases, the not applicable one has no place.
    worst = sum(
        END[AFTER[name]].get("score", 0.0) - END[x].get("score", 1.0) for name, x in BEFORE.items() if x != "empty"
    )
    assert found["bounds"]["n"] == 44
    assert found["bounds"]["low"] == pytest.approx(worst / 44)


def test_pass_rates_are_compared_by_their_counts(store: Store) -> None:
    a = run_of(store, endings(*["A"] * 30, *["B"] * 12), OLD)
    b = run_of(store, endings(*["A"] * 28, *["B"] * 2, *["A"] * 9, *["B"] * 3), NEW)
    found = compare_runs(store, a.id, b.id)
    expected = mcnemar([[0, 9], [2, 0]], exact=True).pvalue
    assert found["mcnemar"]["value"] == pytest.approx(expected)
    assert found["pass_rate_difference"]["value"] == pytest.approx(7 / 42)
    # Bonett & Price 2012 by hand.
    p12, p21, n = 10 / 44, 3 / 44, 44
    half = 1.959964 * math.sqrt((p12 + p21 - (p12 - p21) ** 2) / n)
    assert found["pass_rate_difference"]["low"] == pytest.approx(p12 - p21 - half, abs=1e-6)


def test_what_must_not_be_compared_has_a_headline_and_no_number(store: Store) -> None:
    other = type("NextPairwise", (type(PAIRWISE),), {"version": 2})()
    other.__dict__["content_hash"] = "f" * 64
    a = run_of(store, endings("A", "B"), OLD)
    b = run_of(store, endings("A", "B"), NEW, rubric=other)
    with pytest.raises(InvalidInput):
        run_report(store, b.id, compare=a.id)
    found = run_report(store, a.id, compare=b.id)
    assert found["comparison"] == {
        "comparable": False,
        "a": {"run": b.id},
        "b": {"run": a.id},
        "headline": "Not comparable: pairwise@2 and pairwise@1",
        "differences": ["The runs were made under different rubrics (pairwise@2 and pairwise@1)."],
    }
    assert headline(found) == "Not comparable: pairwise@2 and pairwise@1."
    assert to_markdown(found).startswith("### Not comparable: pairwise@2 and pairwise@1.")
    assert not [path for path, _ in figures(found) if path.startswith("comparison")]
    with pytest.raises(NotComparable, match="Not comparable: pairwise@2 and pairwise@1"):
        compare_runs(store, b.id, a.id)
    mixed = run_report(store, a.id, compare=b.id, mix=True)["comparison"]
    assert mixed["comparable"] is True
    assert mixed["mixed"]


def test_nothing_scored_and_nothing_planned_are_honest(store: Store) -> None:
    run = run_of(store, endings("timeout", "timeout"), OLD)
    found = run_report(store, run.id)
    assert headline(found) == "Nothing was scored: 2 cases, no score."
    assert found["numbers"]["mean_score"]["value"] is None
    for form in FORMS:
        text = render(found, form)
        assert "NaN" not in text
        assert "nan" not in re.findall(r"\bnan\b", text)
    with pytest.raises(NotFound):
        run_report(store, "run_none")
    with pytest.raises(InvalidInput):
        run_report(store, run.id, by=["colour"])


def test_all_forms_show_the_same_numbers(store: Store) -> None:
    a, b = run_of(store, BEFORE, OLD), run_of(store, AFTER, NEW)
    report = run_report(store, b.id, by=["language"], compare=a.id)
    shown = number(report["comparison"]["difference"]["mean"]["value"], signed=True)
    mean = number(report["numbers"]["mean_score"]["value"])
    for text in (to_html(report), to_markdown(report)):
        assert shown in text
        assert mean in text
        assert headline(report).replace("_", "") in text.replace("\\", "").replace("_", "")
    rows = {row["figure"]: row for row in csv.DictReader(io.StringIO(to_csv(report)))}
    exact = float(rows["comparison / difference / mean"]["value"])
    assert exact == report["comparison"]["difference"]["mean"]["value"]
    assert json.loads(render(report, "json")) == json.loads(json.dumps(report))
    assert float(rows["numbers / bounds / low"]["value"]) == report["numbers"]["bounds"]["low"]
    assert rows["slices / language / values / de / n_total"]["value"] == "22"
    assert len(to_markdown(report)) < COMMENT_LIMIT


def test_the_page_needs_nothing_and_keeps_hostile_text_in_its_box(store: Store) -> None:
    hostile = "<script>alert(1)</script><img src=x onerror=alert(1)>{{ 7 * 7 }} @everyone [x](javascript:1) | #1"
    cases = [pair(i, id=f"{hostile}{i}", metadata={hostile: hostile}) for i in range(3)]
    kinds = {case.id: "A" for case in cases}
    a = run_of(store, kinds, OLD, cases=cases)
    b = run_of(store, dict.fromkeys(kinds, "B"), NEW, cases=cases)
    report = run_report(store, b.id, by=[hostile], compare=a.id)
    page = to_html(report)
    assert "<script" not in page
    assert "<img" not in page
    assert "49" not in re.findall(r"&gt;(49)", page)
    assert not re.search(r"(?:src|href)=[\"'](?!data:)", page)
    assert "default-src &#39;none&#39;" in page
    assert 'style="' not in page
    markdown = to_markdown(report)
    assert "<script" not in markdown.replace("\\<", "")
    assert "](javascript" not in markdown.replace("\\]", "").replace("\\[", "")
    assert " @everyone" not in markdown
    first = next(csv.reader(io.StringIO(to_csv(report))))
    assert first[0] == "figure"


def test_a_name_that_a_spreadsheet_would_run_is_defused(store: Store) -> None:
    run = run_of(store, endings("A"), OLD)
    report = run_report(store, run.id)
    report["numbers"] = {"=HYPERLINK(1)": 1}
    # Paths begin with the part's own name, which is none of these.
    assert all(not row[0].startswith(("=", "+", "-", "@")) for row in csv.reader(io.StringIO(to_csv(report))))


def test_every_failure_has_a_fix() -> None:
    assert {reason.value for reason in JudgeErrorReason} <= FIXES.keys()
    for outcome in (*Outcome, "not_judged"):
        if outcome is not Outcome.SCORED:
            assert fix_for(str(outcome), None)
    assert fix_for("judge_error", "timeout") == FIXES["timeout"]


@pytest.mark.parametrize(
    ("value", "options", "text"),
    [
        (0.8404, {}, "0.840"),
        (-0.0001, {"signed": True}, "0.000"),
        (0.07, {"signed": True}, "+0.070"),
        (-0.07, {"signed": True}, "−0.070"),
        (0.5, {"share": True}, "50.0"),
    ],
)
def test_how_numbers_are_written(value: float, options: dict[str, bool], text: str) -> None:
    assert number(value, **options) == text


def test_a_figure_without_a_value_is_a_sentence() -> None:
    empty = {"value": None, "low": None, "high": None, "n": 0, "method": "t", "undefined_reason": "empty"}
    assert figure(empty).text == "Cannot be computed"
    assert figure(empty).sub == ("There is nothing to count.",)
    assert in_words(empty) == "cannot be computed: there is nothing to count"
    assert figure(None).text == "Not measured"
    alone = {**empty, "value": 1.0, "n": 1, "undefined_reason": None, "interval_reason": "n_below_2"}
    assert figure(alone).sub == ("no interval: at least two cases are needed", "n = 1")


@given(st.text(max_size=200))
def test_escaped_text_has_no_markup_left(text: str) -> None:
    line = escape(text)
    assert "\n" not in line
    plain = re.sub(r"\\[\\`*_{}\[\]<>#|~$!]", "", line)
    assert not set(plain) & set("`*_{}[]<>#|~$!\\")


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(KINDS)), min_size=1, max_size=12))
def test_a_comparison_turned_round_changes_sign_only(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[tuple[str, str]]
) -> None:
    with open_store(tmp_path_factory.mktemp("turned")) as store:
        a = run_of(store, endings(*(x for x, _ in kinds)), OLD)
        b = run_of(store, endings(*(y for _, y in kinds)), NEW)
        there, back = compare_runs(store, a.id, b.id), compare_runs(store, b.id, a.id)
        value = there["difference"]["mean"]["value"]
        assert back["difference"]["mean"]["value"] == (None if value is None else pytest.approx(-value))
        assert (there["difference"]["wins"], there["difference"]["losses"]) == (
            back["difference"]["losses"],
            back["difference"]["wins"],
        )
        counts = there["difference"]
        assert counts["wins"] + counts["losses"] + counts["ties"] == there["n_paired"]
        lost = sum(there["a"]["left_out"]["not_scored"].values())
        assert there["n_paired"] + lost <= there["n_common"]
        if there["bounds"] is not None and value is not None and there["n_paired"] == there["bounds"]["n"]:
            assert there["bounds"]["low"] == pytest.approx(value)
        for form in FORMS:
            assert "NaN" not in render(run_report(store, b.id, compare=a.id), form)
