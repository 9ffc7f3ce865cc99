"""The judge-selection report: what it decides, what it counts, and that hostile text stays text."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import pytest

from judge_service.domain.call import Usage
from judge_service.domain.case import Case
from judge_service.domain.judge import Judge
from judge_service.domain.judgment import Judgment
from judge_service.domain.outcome import Enforcement, JudgeErrorReason, NotApplicableReason, Outcome
from judge_service.reports.dataset import Dataset, JudgeColumn, LabelledItem, answer_in, ended, line_up
from judge_service.reports.render import to_html, to_json
from judge_service.reports.selection import bundle_reports as report_of
from rubrics.registry import get_rubric

NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script>\u202e</p>{{ 7*7 }}"
MODEL = Judge(name="model", backend="embedded", description="A model & more.")
LONGER = Judge(name="longer", backend="baseline", model="longer")
CREDIT = {"A": 1.0, "B": 0.0, "tie": 0.5}


def judgment(case: Case, judge: Judge, ab: str | None, ba: str | None, **more: Any) -> Judgment:
    """A pair's judgment: the answers that its two orders name; None for an order that failed."""

    def reading(answer: str | None, order: str) -> dict[str, Any] | None:
        if answer is None:
            return None
        slot = "tie" if answer == "tie" else "first" if answer == order[0] else "second"
        return {"slot": slot, "verdict": answer, "rationale": HOSTILE}

    label = ab if ab is not None and ab == ba else None
    outcome = Outcome.SCORED if label else Outcome.INCONSISTENT if ab and ba else Outcome.JUDGE_ERROR
    fields: dict[str, Any] = {
        "outcome": outcome,
        "reason": JudgeErrorReason.TIMEOUT if outcome is Outcome.JUDGE_ERROR else None,
        "score": CREDIT[label] if label else None,
        "label": label,
        "record": {"ab": reading(ab, "AB"), "ba": reading(ba, "BA")} if ab and ba else None,
    }
    return Judgment(
        id=f"jdg_{judge.name}_{case.id}",
        identity=f"{judge.name}{case.id}",
        rubric="pairwise@1",
        rubric_hash="r" * 64,
        judge=judge.name,
        judge_hash=judge.content_hash,
        model="m",
        case_id=case.id,
        case_hash=case.content_hash,
        enforcement=Enforcement.GRAMMAR,
        usage=Usage(prompt_tokens=10, completion_tokens=5),
        latency_ms=1500,
        created_at=NOW,
        **(fields | more),
    )


def dataset(answers: list[tuple[str | None, str | None]], labels: list[str | None]) -> Dataset:
    cases = [
        Case(id=f"c{i}", input={"prompt": HOSTILE, "response_a": "x" * 5000, "response_b": ""}, metadata={"k": HOSTILE})
        for i in range(len(labels))
    ]
    model = tuple(judgment(case, MODEL, *pair) for case, pair in zip(cases, answers, strict=True))
    longer = tuple(judgment(case, LONGER, "A", "A") for case in cases)
    items = tuple(LabelledItem(case, label, HOSTILE) for case, label in zip(cases, labels, strict=True))
    columns = (JudgeColumn(MODEL, model), JudgeColumn(LONGER, longer))
    return Dataset(get_rubric("pairwise@1"), "set", "People labelled it.", items, columns)


def section(report: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(item["data"] for item in report["parts"][0]["sections"] if item["id"] == name)
    return found


ANSWERS: list[tuple[str | None, str | None]] = [("A", "A"), ("A", "B"), ("B", "B"), ("tie", "tie"), ("A", None)]
LABELS: list[str | None] = ["A", "B", "A", "tie", "A"]


def test_counts_agreement_and_failures_in_the_denominator() -> None:
    report = report_of([dataset(ANSWERS, LABELS)], "Which?", now=NOW)
    model, longer = section(report, "judges")["judges"]
    assert (model["agreement"]["numerator"], model["agreement"]["denominator"]) == (2, 5)
    assert model["agreement"]["value"] == pytest.approx(0.4)
    assert model["agreement"]["low"] < 0.4 < model["agreement"]["high"]
    assert model["outcomes"] == {
        "scored": 2, "tie": 1, "inconsistent": 1, "not_applicable": 0, "judge_error": 1, "not_judged": 0
    }  # fmt: skip
    assert (model["prompt_tokens"], model["completion_tokens"], model["cost_usd"]) == (50, 25, None)
    assert model["seconds_median"] == 1.5
    assert (longer["agreement"]["numerator"], longer["baseline"]) == (3, True)
    assert longer["kappa"]["value"] == 0.0


def test_order_figures_count_pairs_judged_both_ways() -> None:
    model, longer = section(report_of([dataset(ANSWERS, LABELS)], "t"), "order")["judges"]
    assert (model["pairs"], model["consistency"]["numerator"]) == (4, 3)
    assert (model["shown_first"], model["shown_second"], model["ties"]) == (4, 2, 2)
    assert model["to_first"], model["to_second"] == (1, 0)
    assert longer["consistency"]["value"] == 1.0
    assert longer["first_share"]["value"] == 0.5


def test_outcomes_add_up_and_name_reasons() -> None:
    model, _ = section(report_of([dataset(ANSWERS, LABELS)], "t"), "outcomes")["judges"]
    assert sum(model["counts"].values()) == model["n"] == 5
    assert model["reasons"] == {"judge_error: timeout": 1}


def test_disagreements_of_the_model_carry_texts_and_notes() -> None:
    found = section(report_of([dataset(ANSWERS, LABELS)], "t"), "disagreements")
    assert [case["id"] for case in found["cases"]] == ["c1", "c2", "c4"]
    assert (found["n"], found["differ"], found["of_judges"]) == (5, 3, ["model"])
    first = found["cases"][0]
    assert first["texts"][0] == {"name": "prompt", "text": HOSTILE}
    assert first["texts"][1]["text"].endswith("[... 1000 more characters]")
    assert first["human_note"] == HOSTILE
    assert first["judges"][0]["outcome"] == "inconsistent"
    assert found["cases"][2]["judges"][0]["reason"] == "timeout"


@pytest.mark.parametrize("n", [1, 29])
def test_under_30_labels_nothing_is_recommended(n: int) -> None:
    report = report_of([dataset([("A", "A")] * n, ["A"] * n)], "t")
    decision = report["parts"][0]["decision"]
    assert decision["pattern"] == "not_enough_evidence"
    assert decision["missing_labels"] == 30 - n
    assert decision["sentence"].startswith("Not enough evidence to choose. Missing: at least ")
    assert f"at least {30 - n} more labelled case" in decision["sentence"]
    page = to_html(report)
    assert decision["sentence"] in page
    assert "Select" not in page


def test_from_30_labels_the_missing_quantity_changes() -> None:
    decision = report_of([dataset([("A", "A")] * 30, ["A"] * 30)], "t")["parts"][0]["decision"]
    assert (decision["pattern"], decision["missing_labels"]) == ("not_enough_evidence", 70)


def test_unlabelled_cases_are_shown_but_not_counted() -> None:
    report = report_of([dataset(ANSWERS, ["A", "B", "A", "tie", None])], "t")
    part = report["parts"][0]["facts"]
    assert (part["cases"], part["labelled"]) == (5, 4)
    assert section(report, "judges")["judges"][0]["agreement"]["denominator"] == 4


def test_a_report_without_any_label_says_why() -> None:
    report = report_of([dataset(ANSWERS, [None] * 5)], "t")
    row = section(report, "judges")["judges"][0]
    assert (row["agreement"]["value"], row["agreement"]["undefined_reason"]) == (None, "empty")
    page = to_html(report)
    assert "Cannot be computed" in page
    assert "NaN" not in page


class Page(HTMLParser):
    """Collects tags, style attributes and where a page would load something."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.styles: list[str] = []
        self.ids: list[str] = []
        self.policy = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        self.loads += [str(given[name]) for name in ("src", "href") if name in given]
        self.styles += [str(given["style"])] if "style" in given else []
        self.ids += [str(given["id"])] if "id" in given else []
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = str(given["content"])


def test_the_page_is_one_file_without_script_and_hostile_text_stays_text() -> None:
    page = to_html(report_of([dataset(ANSWERS, LABELS)] * 2, f"Which? {HOSTILE}"))
    parsed = Page()
    parsed.feed(page)
    assert "script" not in parsed.tags
    assert parsed.loads == []
    assert parsed.styles == []
    assert len(parsed.ids) == len(set(parsed.ids))
    assert parsed.policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "{{ 7*7 }}" in page
    assert page.count("<h1") == 1


def test_the_policy_allows_exactly_the_page_s_own_style() -> None:
    import base64
    import hashlib

    page = to_html(report_of([dataset(ANSWERS, LABELS)], "t"))
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"sha256-{digest}" in page.replace("&#43;", "+")


def test_json_is_what_the_page_shows() -> None:
    report = report_of([dataset(ANSWERS, LABELS)], "t", now=NOW)
    assert json.loads(to_json(report)) == report
    assert report["created_at"] == "2026-01-02T03:04:00+00:00"
    assert report["format"] == "judge-selection-reports/2"
    assert report["parts"][0]["format"] == "judge-selection-report/2"


def test_a_large_report_stays_small() -> None:
    n = 400
    page = to_html(report_of([dataset([("A", "B")] * n, ["A"] * n)], "t"))
    assert "The first 100 are listed" in page
    assert len(page.encode()) < 2_000_000


def test_a_case_that_was_not_judged_is_shown_as_such() -> None:
    full = dataset(ANSWERS, LABELS)
    partial = replace(full, columns=(JudgeColumn(MODEL, (*full.columns[0].judgments[:4], None)), full.columns[1]))
    report = report_of([partial], "t")
    assert section(report, "judges")["judges"][0]["outcomes"]["not_judged"] == 1
    assert section(report, "judges")["judges"][0]["agreement"]["denominator"] == 5
    assert "model: not judged" in to_html(report)


def test_every_way_to_end_is_counted_apart() -> None:
    case = Case(id="c", input={})
    ways = [
        judgment(case, MODEL, "A", "A"),
        judgment(case, MODEL, "tie", "tie"),
        judgment(case, MODEL, "A", "B"),
        judgment(case, MODEL, None, "B"),
        judgment(
            case,
            MODEL,
            None,
            None,
            outcome=Outcome.NOT_APPLICABLE,
            reason=NotApplicableReason.EMPTY_ANSWER,
        ),
        None,
    ]
    assert set(ended(ways).values()) == {1}


def test_judgments_line_up_with_cases_and_orders_with_answers() -> None:
    cases = [Case(id=name, input={}) for name in ("a", "b")]
    made = judgment(cases[1], MODEL, "A", "B")
    column = line_up(cases, [made], MODEL)
    assert column.judgments == (None, made)
    assert (answer_in(made, "AB"), answer_in(made, "BA"), answer_in(None, "AB")) == ("A", "B", None)
