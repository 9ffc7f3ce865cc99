"""Faults of other tools in what a score means, by their case ids."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from judge_service.domain.case import Case
from judge_service.domain.judge import Judge
from judge_service.domain.outcome import Outcome
from judge_service.runs.aggregate import aggregate
from judge_service.store.runs import OutcomeCount
from rubrics.citations import MarkerStatus, split_statements
from rubrics.registry import all_rubrics, get_rubric
from rubrics.replay import check_direction, replay
from rubrics.sentences import split_pieces, split_sentences
from tests.reported.judged import PAIR, command, core, ended, judged, scripted, wrong

FAITHFULNESS = get_rubric("faithfulness@1")
TIMEOUT = {"error": {"reason": "timeout"}}


def verdict(value: str) -> dict[str, Any]:
    return {"context": "ctx1", "quote": "", "rationale": "", "verdict": value, "confidence": 90}


def five(case: str, supported: int) -> list[dict[str, Any]]:
    """Replies to a case of one sentence with four claims and one with one: `supported` of five."""
    claims = {"s1": ["one", "two", "three", "four"], "s2": ["five"]}
    said = {f"c{n}": verdict("supported" if n <= supported else "fabrication") for n in range(1, 6)}
    return [{"case": case, "step": "extract", "value": claims}, {"case": case, "step": "verify", "value": said}]


def answer(case: str) -> dict[str, Any]:
    # The question differs: cases of one content share their answers.
    return {"id": case, "question": f"{case}?", "contexts": ["Something."], "answer": "It states this. And that."}


def judge(*replies: dict[str, Any]) -> dict[str, Any]:
    return {"backend": "scripted", "limits": {"attempts": 1}, "options": {"replies": list(replies)}}


def count(outcome: Outcome, n: int, reason: str | None = None, label: str | None = None, score: float = 0.0) -> Any:
    return OutcomeCount(outcome, reason, label, n, score_sum=score if outcome is Outcome.SCORED else None)


def test_case_012_failed_rows_stay_in_sight_and_bound_the_mean(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).mkdir()
    two = [answer("1"), answer("2")]
    replies = five("1", 4) + five("2", 1)
    _, _, rows = command(tmp_path / "a", judge(*replies), "faithfulness@1", two)
    assert [row["score"] for row in rows] == [0.8, 0.2]
    code, _, rows = command(tmp_path / "b", judge(*five("1", 4), {"case": "2", **TIMEOUT}), "faithfulness@1", two)
    assert [(row["score"], row["reason"]) for row in rows] == [(0.8, None), (None, "timeout")]
    assert code == 0
    code, summary, rows = command(tmp_path / "c", judge(*({"case": n, **TIMEOUT} for n in "12")), "faithfulness@1", two)
    assert [row["score"] for row in rows] == [None, None]
    assert code == 1
    assert "NaN" not in json.dumps(summary)


@pytest.mark.parametrize(
    ("counts", "mean", "scored", "low", "high"),
    [
        ([count(Outcome.SCORED, 2, label="supported", score=1.0)], 0.5, 2, 0.5, 0.5),
        (
            [
                count(Outcome.SCORED, 1, label="unsupported", score=0.8),
                count(Outcome.JUDGE_ERROR, 1, reason="timeout"),
            ],
            0.8,
            1,
            0.4,
            0.9,
        ),
        ([count(Outcome.JUDGE_ERROR, 2, reason="timeout")], None, 0, 0.0, 1.0),
    ],
)
def test_case_012_the_mean_comes_with_coverage_reasons_and_bounds(
    counts: Any, mean: float | None, scored: int, low: float, high: float
) -> None:
    found = aggregate(FAITHFULNESS, counts, 2)
    assert (found.mean_score.value, found.n_scored, found.n_total) == (mean, scored, 2)
    assert found.coverage == scored / 2
    assert found.mean_score.low_bound == pytest.approx(low)
    assert found.mean_score.high_bound == pytest.approx(high)
    assert sum(found.reasons.values()) == 2 - scored
    assert (found.mean_score.undefined_reason is None) == (scored > 0)


def test_case_014_nothing_to_check_is_neither_good_nor_bad(tmp_path: Path) -> None:
    texts = ["I couldn't find that in the documents.", "", "   \n", "Lima is in Peru."]
    cases = [{"id": str(n), "question": "?", "contexts": ["Lima."], "answer": text} for n, text in enumerate(texts)]
    replies = [
        {"case": "0", "step": "extract", "value": {"s1": []}},
        {"case": "3", "step": "extract", "value": {"s1": ["Lima is in Peru."]}},
        {"case": "3", "step": "verify", "value": {"c1": verdict("supported")}},
    ]
    _, _, rows = command(tmp_path, judge(*replies), "faithfulness@1", cases)
    assert [(row["outcome"], row["reason"], row["score"]) for row in rows] == [
        ("not_applicable", "no_claims", None),
        ("not_applicable", "empty_answer", None),
        ("not_applicable", "empty_answer", None),
        ("scored", None, 1.0),
    ]
    assert [len(row["calls"]) for row in rows] == [1, 0, 0, 2]
    found = aggregate(
        FAITHFULNESS,
        [
            count(Outcome.NOT_APPLICABLE, 1, reason="no_claims"),
            count(Outcome.NOT_APPLICABLE, 2, reason="empty_answer"),
            count(Outcome.SCORED, 1, label="supported", score=1.0),
        ],
        4,
    )
    assert (found.mean_score.value, found.mean_score.n, found.n_total) == (1.0, 1, 4)
    assert found.reasons == {"not_applicable:empty_answer": 2, "not_applicable:no_claims": 1}


@pytest.mark.parametrize(
    "contexts", [[], [""], ["  \n", "\u200b"], None, [None], ["\u2060\ufeff\u00ad"], [{"text": "\t"}]]
)
@pytest.mark.parametrize("rubric", ["faithfulness@1", "refusal@1"])
async def test_case_015_an_empty_context_is_never_asked_about(contexts: Any, rubric: str) -> None:
    given = {"question": "When?", "contexts": contexts, "answer": "The bridge opened in 1931 and is 60 m long."}
    judgment = await judged(scripted("never read"), given, rubric)
    assert ended(judgment) == ("not_applicable", "empty_context", None, None)
    assert judgment.calls == ()


@pytest.mark.parametrize("rubric", all_rubrics(), ids=lambda rubric: rubric.id)
def test_case_016_every_rubric_knows_good_from_bad(rubric: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    check_direction(rubric)
    if rubric.kind != "pairwise":
        scores = {example.quality: replay(rubric, example).result.score for example in rubric.examples}  # type: ignore[union-attr]
        assert scores["good"] > scores["bad"]
    turned = {"good": "bad", "bad": "good"}
    inverted = tuple(
        type(example)(example.case, example.replies, turned[example.quality], example.order)  # type: ignore[arg-type]
        for example in rubric.examples
    )
    monkeypatch.setattr(type(rubric), "examples", inverted)
    with pytest.raises(ValueError):
        check_direction(rubric)


@pytest.mark.parametrize(
    ("wins", "losses", "ties", "inconsistent", "rate"),
    [
        (2, 2, 46, 0, 0.5),
        (1, 0, 1, 0, 0.75),
        (0, 0, 0, 0, None),
        (0, 0, 0, 9, None),
        (0, 0, 5, 0, 0.5),
        (3, 1, 0, 4, 0.75),
    ],
)
def test_case_017_ties_are_half_and_no_data_is_null(
    wins: int, losses: int, ties: int, inconsistent: int, rate: float | None
) -> None:
    counts = [
        count(Outcome.SCORED, n, label=label, score=n * credit)
        for label, n, credit in (("A", wins, 1.0), ("B", losses, 0.0), ("tie", ties, 0.5))
        if n
    ]
    if inconsistent:
        counts.append(count(Outcome.INCONSISTENT, inconsistent))
    pairs = aggregate(get_rubric("pairwise@1"), counts, wins + losses + ties + inconsistent).pairs
    assert pairs is not None
    assert (pairs.wins_a, pairs.wins_b, pairs.ties, pairs.inconsistent) == (wins, losses, ties, inconsistent)
    assert pairs.n == wins + losses + ties
    assert pairs.win_rate_a == rate
    if rate is not None:
        assert pairs.win_rate_b is not None
        assert pairs.win_rate_a + pairs.win_rate_b == 1
    assert (pairs.undefined_reason is None) == (rate is not None)


async def test_case_019_the_order_that_is_left_decides_nothing() -> None:
    said = {"order": "AB", "value": {"rationale": "", "verdict": "A"}}
    for failing in ("AB", "BA"):
        other = {"AB": "BA", "BA": "AB"}[failing]
        judgment = await judged(
            scripted(said | {"order": other}, {"order": failing, **TIMEOUT}, order_policy="both_orders")
        )
        assert ended(judgment) == wrong("incomplete_pair")


async def test_case_019_a_panel_below_its_quorum_has_no_winner() -> None:
    limited = {"step": "compare", "error": {"reason": "rate_limited"}}
    members = [scripted('{"rationale": "", "verdict": "A"}', name="one")]
    members += [scripted(limited, name=name, model=name) for name in ("two", "three")]
    panel = Judge(name="panel", backend="panel", panel=("one", "two", "three"), quorum=3)
    judgment = await core(*members, panel).judge(Case(id="c", input=PAIR), get_rubric("pairwise@1"), panel)
    assert ended(judgment) == wrong("rate_limited")
    assert judgment.votes is not None
    assert (judgment.votes.counts, judgment.votes.cast, judgment.votes.asked) == ({"A": 1}, 1, 3)
    assert judgment.confidence is None


SENTENCES = [
    ("The plant was fined £2.4m after the leak. No one else was harmed.", 2),
    ("Dr. Okoye met C. D. E. Lindqvist yesterday, e.g. at No. 5 Main St. in Oxford.", 1),
    ("Am 3. Mai 2025 spielte der 1. FC in der 2. Liga.", 1),
    ("She has Ph.D.-level training. It took 3.5 years.", 2),
    ("Version 2.0.1 shipped on Monday. Users liked it.", 2),
    ("The bridge opened in 1931. It is 60 m long.", 2),
    ("Is it safe? Yes! See example.org for details.", 3),
    ("Mr. J. R. Hale paid $1.25m, i.e. half. Prof. Ito did not.", 2),
    ("Python 3.11.7 is old. Use v3.12.1 instead.", 2),
]


@pytest.mark.parametrize(("text", "n"), SENTENCES)
def test_case_023_sentences_are_not_cut_in_numbers_names_and_abbreviations(text: str, n: int) -> None:
    sentences = split_sentences(text)
    assert len(sentences) == n, [sentence.text for sentence in sentences]
    assert "".join(split_pieces(text)) == text
    assert all(text[sentence.start : sentence.end] == sentence.text for sentence in sentences)
    for sentence in sentences:
        before = text[sentence.start - 1 : sentence.start]
        assert not (before == "." and text[sentence.start].isdigit())


def test_case_024_ranges_and_groups_name_every_source_quickly() -> None:
    text = "A is so [3-5]. B is [1][2]. C is [1, 3]. D is [2–4]. E is [1,2-3]. F is [5-3]. G is so [1-1000000]."
    statements = split_statements(text)
    assert [statement.sources for statement in statements] == [
        (3, 4, 5), (1, 2), (1, 3), (2, 3, 4), (1, 2, 3), (), (),
    ]  # fmt: skip
    assert statements[5].markers[0].status is MarkerStatus.MALFORMED
    assert statements[6].markers[0].status is MarkerStatus.OUT_OF_RANGE


async def test_case_024_each_source_of_a_sentence_gets_its_own_verdict() -> None:
    reply = {
        "rationale": "", "p3": "supports", "p4": "needed", "p5": "unneeded", "support": "full", "needs_citation": "yes",
    }  # fmt: skip
    given = {"question": None, "contexts": [f"Source {n}." for n in range(1, 6)], "answer": "A holds [3-5]."}
    judgment = await judged(scripted(json.dumps({"s1": reply})), given, "citation_support@1")
    assert judgment.record is not None
    cited = judgment.record["statements"][0]["citations"]
    assert [(one["source"], one["role"], one["counts"]) for one in cited] == [
        (3, "supports", True), (4, "needed", True), (5, "unneeded", False),
    ]  # fmt: skip


@pytest.mark.parametrize("said", ["refusal", "partial", "compliance"])
@pytest.mark.parametrize(
    "text",
    [
        "Sorry your parcel came late! To reset the device, hold the button.",
        '"We cannot open the gate," said the watchman.',
        "From this trace alone I can't say what broke; try these three checks first.",
        "I can’t help with that request.",
        "I can't help with that request.",
        "**Sorry**, but I must decline.",
    ],
)
async def test_case_026_no_phrase_decides_but_the_judge_alone(text: str, said: str) -> None:
    reply = {"quote": text[:20], "rationale": "", "refusal": said, "confidence": 90}
    given = {"question": "?", "contexts": [], "answer": text, "answerable": True}
    judgment = await judged(scripted(json.dumps(reply)), given, "refusal@1")
    assert judgment.label == said
    assert judgment.record is not None
    assert (judgment.record["refusal"], judgment.record["should_refuse"]) == (said, False)
    assert judgment.score == {"refusal": 0.0, "partial": 0.5, "compliance": 1.0}[said]
    assert math.isfinite(judgment.score)


@pytest.mark.parametrize("apostrophe", ["'", "’", "ʼ"])
async def test_case_026_either_apostrophe_is_found_in_the_answer(apostrophe: str) -> None:
    reply = {"quote": "I can't help", "rationale": "", "refusal": "refusal", "confidence": 90}
    given = {"question": "?", "contexts": [], "answer": f"I can{apostrophe}t help with that.", "answerable": False}
    judgment = await judged(scripted(json.dumps(reply)), given, "refusal@1")
    assert judgment.record is not None
    assert judgment.record["refusal_quote"]["found"]
    assert (judgment.score, judgment.record["cell"]) == (1.0, "correct_refusal")
