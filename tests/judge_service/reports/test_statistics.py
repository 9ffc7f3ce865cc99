"""Statistics of any set are JSON without NaN, keep every case in the denominator, and give a reason for every null."""

import json
import math
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judge_service.domain.calibration_set import Label, LabelCondition, Split
from judge_service.domain.case import Case
from judge_service.domain.judge import ConfidenceSource, Judge, OrderPolicy
from judge_service.domain.judgment import Confidence, Judgment, Votes
from judge_service.domain.outcome import Enforcement, JudgeErrorReason, Outcome
from judge_service.errors import InvalidInput
from judge_service.reports.dataset import Dataset, JudgeColumn, LabelledItem
from judge_service.reports.labelled_set import final_label
from judge_service.reports.measuring import rules_in_words
from judge_service.reports.statistics import Rules, statistics
from rubrics.registry import get_rubric

NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)
FAST = Rules(resamples=100)
SLOT = {("AB", "A"): "first", ("AB", "B"): "second", ("BA", "A"): "second", ("BA", "B"): "first"}


def judgment(case: Case, judge: Judge, rubric: Any, **finding: Any) -> Judgment:
    return Judgment(
        id=f"j-{case.id}",
        identity=f"i-{case.id}",
        rubric=rubric.id,
        rubric_hash=rubric.content_hash,
        judge=judge.name,
        judge_hash=judge.content_hash,
        model="m",
        case_id=case.id,
        case_hash=case.content_hash,
        enforcement=Enforcement.NONE,
        latency_ms=1.0,
        created_at=NOON,
        **finding,
    )


def reading(order: str, answer: str) -> dict[str, Any]:
    return {"slot": SLOT.get((order, answer), "tie"), "verdict": answer}


def pair_finding(ab: str | None, ba: str | None) -> dict[str, Any]:
    record = {"ab": ab and reading("AB", ab), "ba": ba and reading("BA", ba)}
    if ab is None or ba is None:
        return {"outcome": Outcome.JUDGE_ERROR, "reason": JudgeErrorReason.INCOMPLETE_PAIR, "record": record}
    if ab != ba:
        return {"outcome": Outcome.INCONSISTENT, "record": record}
    return {"outcome": Outcome.SCORED, "label": ab, "score": {"A": 1.0, "B": 0.0, "tie": 0.5}[ab], "record": record}


def pairs(rows: list[Any], policy: OrderPolicy = OrderPolicy.BOTH_ORDERS) -> Dataset:
    """Rows of (human, order AB, order BA, group, votes); a whole row None: no label."""
    rubric = get_rubric("pairwise@1")
    judge = Judge(name="small", backend="scripted", order_policy=policy)
    items, found = [], []
    for number, (human, ab, ba, group, votes) in enumerate(rows):
        case = Case(
            id=f"c{number}",
            input={"prompt": f"p{number}", "response_a": "a " * (number % 4), "response_b": "b b"},
            group=group,
            metadata={"part": number % 2},
        )
        items.append(LabelledItem(case, human, votes={f"ann{i}": vote for i, vote in enumerate(votes)}))
        found.append(judgment(case, judge, rubric, **pair_finding(ab, ba)))
    return Dataset(rubric, "set@1", "", tuple(items), (JudgeColumn(judge, tuple(found)),))


def singles(rows: list[Any], rubric_id: str = "faithfulness@1") -> Dataset:
    """Rows of (human, label or None, confidence or None, group)."""
    rubric = get_rubric(rubric_id)
    names = rubric.scale.names
    judge = Judge(name="small", backend="scripted", confidence=ConfidenceSource.VERBALISED)
    items: list[LabelledItem] = []
    found: list[Judgment | None] = []
    for number, (human, label, confidence, group) in enumerate(rows):
        case = Case(id=f"c{number}", input={"answer": f"a{number}"}, group=group, metadata={"part": number % 2})
        items.append(LabelledItem(case, human))
        if label is None:
            found.append(None)
            continue
        stated = None if confidence is None else Confidence(value=confidence, source=ConfidenceSource.VERBALISED)
        score = names.index(label) / (len(names) - 1)
        found.append(judgment(case, judge, rubric, outcome=Outcome.SCORED, label=label, score=score, confidence=stated))
    return Dataset(rubric, "set@1", "", tuple(items), (JudgeColumn(judge, tuple(found)),))


def estimates(value: Any) -> Any:
    if isinstance(value, dict):
        if "undefined_reason" in value and "method" in value:
            yield value
        for part in value.values():
            yield from estimates(part)
    elif isinstance(value, list):
        for part in value:
            yield from estimates(part)


def check(found: dict[str, Any], n: int) -> None:
    json.dumps(found, allow_nan=False)
    assert found["n_labelled"] == n
    for estimate in estimates(found):
        assert (estimate["value"] is None) == (estimate["undefined_reason"] is not None)
        if estimate["low"] is not None:
            assert estimate["low"] <= estimate["high"]
            assert not math.isnan(estimate["low"])
    for judge in found["judges"]:
        assert sum(judge["outcomes"].values()) == n
        if n:
            assert judge["agreement"]["raw_agreement"]["denominator"] == n
            assert judge["failures"]["all"]["denominator"] == n


ANSWERS = st.sampled_from(["A", "B", "tie", None])
GROUPS = st.sampled_from([None, "g1", "g2", "g3"])
PAIR = st.tuples(
    st.sampled_from(["A", "B", "tie", None]), ANSWERS, ANSWERS, GROUPS, st.lists(st.sampled_from("AB"), max_size=3)
)


@settings(deadline=None, max_examples=40)
@given(
    rows=st.lists(PAIR, max_size=25),
    policy=st.sampled_from(list(OrderPolicy)),
    failures=st.sampled_from(["wrong", "tie", "left_out"]),
    inconsistent=st.sampled_from(["not_agree", "tie"]),
)
def test_any_pairs(rows: list[Any], policy: OrderPolicy, failures: Any, inconsistent: Any) -> None:
    dataset = pairs(rows, policy)
    n = len(dataset.labelled)
    found = statistics(dataset, FAST)
    check(found, n)
    other = statistics(dataset, Rules(failures=failures, inconsistent=inconsistent, resamples=100))
    json.dumps(other, allow_nan=False)
    if failures == "left_out" and n:
        assert other["judges"][0]["agreement"]["valid_rate"]["value"] in (1.0, None)


@settings(deadline=None, max_examples=40)
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from(["none", "partial", "full", None]),
            st.sampled_from(["none", "partial", "full", None]),
            st.none() | st.integers(0, 10).map(lambda x: x / 10),
            GROUPS,
        ),
        max_size=25,
    )
)
def test_any_ordered_labels(rows: list[Any]) -> None:
    dataset = singles(rows, "citation_support@1")
    check(statistics(dataset, FAST), len(dataset.labelled))


def test_failures_stay_in_and_every_rule_is_shown() -> None:
    rows = [("A", "A", "A", None, [])] * 6 + [("tie", None, None, None, [])] * 3 + [("B", "A", "B", None, [])] * 3
    judge = statistics(pairs(rows), FAST)["judges"][0]
    assert judge["agreement"]["raw_agreement"]["numerator"] == 6
    assert judge["agreement"]["raw_agreement"]["denominator"] == 12
    rules = judge["rules"]
    assert rules["failures"]["wrong"]["accuracy"]["value"] == 0.5
    assert rules["failures"]["tie"]["accuracy"]["value"] == 0.75
    assert rules["failures"]["left_out"]["accuracy"]["n"] == 6
    assert rules["inconsistent"]["tie"]["accuracy"]["value"] == 0.5
    assert judge["orders"]["positional_agreement"] == 75.0
    assert judge["orders"]["positional_agreement_parsed"] == 50.0
    assert judge["failures"]["judge_error:incomplete_pair"]["numerator"] == 3
    assert judge["failures"]["inconsistent"]["numerator"] == 3


def test_the_length_regression_of_few_groups_has_no_interval() -> None:
    draw = [("A", "AABB"[i % 4], "AABB"[i % 4], "g1", []) for i in range(40)]
    judge = statistics(pairs(draw), FAST)["judges"][0]
    for estimate in estimates(judge["length"]["regression"]):
        assert estimate["low"] is None


def test_one_readable_order_of_two_still_counts_for_that_order() -> None:
    judge = statistics(pairs([("A", "A", None, None, []), ("B", "B", "B", None, [])]), FAST)["judges"][0]
    assert judge["orders"]["accuracy_AB"] == 100.0
    assert judge["orders"]["accuracy_BA"] == 50.0
    assert judge["orders"]["verdicts_null"] == 1


def test_confidence_is_of_one_source_and_thresholds_wait_for_100_labels() -> None:
    rows = [("supported", "supported" if i % 4 else "unsupported", 0.9, None) for i in range(60)]
    judge = statistics(singles(rows), FAST)["judges"][0]
    assert judge["confidence_source"] == "verbalised"
    assert judge["confidence"]["ece"]["value"] == pytest.approx(0.15)
    assert judge["confidence"]["ece"]["details"]["null_mean"] > 0
    assert "no_headline_below_100" in judge["confidence"]["ece"]["flags"]
    assert judge["thresholds_of_confidence"]["usable_threshold"]["undefined_reason"] == "too_few_labels"
    more = [("supported", "supported", 0.9, None)] * 120 + [("unsupported", "unsupported", 0.9, None)] * 120
    usable = statistics(singles(more), FAST)["judges"][0]["thresholds_of_confidence"]["usable_threshold"]
    assert usable["value"] == 0.5


def test_repeats_are_read_from_the_votes() -> None:
    dataset = singles([("supported", "supported", None, None)] * 4)
    column = dataset.columns[0]
    votes = Votes(counts={"supported": 2, "unsupported": 1}, cast=3, asked=3, share=2 / 3)
    voted = tuple(found.model_copy(update={"votes": votes}) for found in column.judgments if found is not None)
    dataset = Dataset(dataset.rubric, "set@1", "", dataset.items, (JudgeColumn(column.judge, voted),))
    repeats = statistics(dataset, FAST)["judges"][0]["repeats"]
    assert repeats["repetition_stability"]["value"] == pytest.approx(2 / 3)
    assert repeats["all_identical_rate"]["value"] == 0.0
    assert repeats["pairwise_repeat_agreement"]["value"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("rules", "field"),
    [
        (Rules(failures="tie"), "failures"),
        (Rules(inconsistent="tie"), "inconsistent"),
        (Rules(positive="gold"), "positive"),
        (Rules(target=1.0), "target"),
        (Rules(threshold_from="part"), "threshold_from"),
    ],
)
def test_rules_that_do_not_fit_name_their_field(rules: Rules, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        statistics(singles([("supported", "supported", None, None)]), rules)
    assert refused.value.fields[0].path == field


def test_a_part_without_cases_is_refused() -> None:
    dataset = singles([("supported", "supported", None, None)])
    assert statistics(dataset, FAST, where="part=0")["n_labelled"] == 1
    with pytest.raises(InvalidInput):
        statistics(dataset, FAST, where="part=7")
    with pytest.raises(InvalidInput):
        statistics(dataset, FAST, by=["colour"])


def label(annotator: str, value: str | None, **changes: Any) -> Label:
    fields: dict[str, Any] = {
        "id": f"l-{annotator}-{value}-{len(changes)}",
        "set_id": "set@1",
        "case_id": "c",
        "rubric": "pairwise@1",
        "annotator": annotator,
        "label": value,
        "created_at": NOON,
    }
    return Label.model_validate(fields | changes)


def test_the_final_label() -> None:
    votes = [label("a", "A"), label("b", "A"), label("c", "B")]
    assert final_label(votes).label == "A"
    assert final_label(votes).how == "majority"
    assert final_label([label("a", "A")]).how == "single"
    adjudicated = final_label([*votes, label("judge", "B", adjudicated=True)])
    assert (adjudicated.label, adjudicated.how) == ("B", "adjudicated")
    assert adjudicated.votes == {"a": "A", "b": "A", "c": "B"}
    assert final_label([label("a", "A"), label("b", "B")]).how == "undecided"
    split = [label("judge", "B", adjudicated=True), label("other", "A", adjudicated=True)]
    assert final_label([*votes, *split]) == final_label([*votes, *reversed(split)])
    assert (final_label([*votes, *split]).label, final_label([*votes, *split]).how) == (None, "undecided")
    assert final_label([label("a", None), label("b", "B")]).label == "B"
    assert final_label([]).how == "unlabelled"


def test_a_case_that_was_adjudicated_as_undecidable_has_no_label() -> None:
    votes = [label("a", "A"), label("b", "A"), label("c", "B")]
    found = final_label([*votes, label("judge", None, adjudicated=True)])
    assert (found.label, found.how) == (None, "cannot_say")
    assert found.votes == {"a": "A", "b": "A", "c": "B"}
    differing = [label("judge", None, adjudicated=True), label("other", "A", adjudicated=True)]
    assert final_label([*votes, *differing]).how == "undecided"


def test_labels_made_with_a_models_help_have_no_part() -> None:
    assisted = label("a", "A", condition=LabelCondition.ASSISTED)
    model = label("m", "A", kind="model")
    helped = label("h", "A", condition=LabelCondition.ASSISTED, adjudicated=True)
    assert final_label([assisted, model, helped]).how == "unlabelled"
    assert final_label([assisted, model, label("b", "B")]).label == "B"


def test_splits_are_slices_too() -> None:
    dataset = singles([("supported", "supported", None, None)] * 2)
    items = tuple(
        LabelledItem(item.case, item.label, split=split)
        for item, split in zip(dataset.items, (Split.CALIBRATION, Split.RELEASE), strict=True)
    )
    split = Dataset(dataset.rubric, "set@1", "", items, dataset.columns)
    found = statistics(split, FAST, by=["split"])
    assert {part["value"]: part["n"] for part in found["slices"]["split"]} == {"calibration": 1, "release": 1}


def test_release_cases_choose_no_threshold_unless_they_are_named() -> None:
    dataset = singles([("supported", "supported", None, None), ("unsupported", "unsupported", None, None)] * 3)

    def held(split: Split) -> Dataset:
        items = tuple(LabelledItem(item.case, item.label, split=split) for item in dataset.items)
        return Dataset(dataset.rubric, "set@1", "", items, dataset.columns)

    def shown(split: Split, rules: Rules) -> Any:
        return statistics(held(split), rules)["judges"][0]["thresholds"]

    own = Rules(resamples=100, positive="supported")
    assert shown(Split.CALIBRATION, own)["best_f1"]["f1"]["value"] == 1.0
    closed = shown(Split.RELEASE, own)
    assert closed["best_f1"] is None
    assert "release cases choose no threshold" in closed["best_f1_chosen_on"]
    assert closed["above_0.5"]["f1"]["value"] == 1.0
    named = shown(Split.RELEASE, Rules(resamples=100, positive="supported", threshold_from="split=release"))
    assert named["best_f1"]["f1"]["value"] == 1.0


def test_the_order_of_slices_is_no_other_rule() -> None:
    assert rules_in_words(by=["part", "lang"]) == rules_in_words(by=["lang", "part", "lang"]) == "by lang, by part"
    assert rules_in_words(Rules(failures="tie"), ["part"], "lang=en") == "failures tie, where lang=en, by part"


def test_preference_for_the_judges_own_family() -> None:
    rows = [("A", "A", "A", None, []), ("A", "A", "A", None, [])]
    rows += [("B", "B", "B", None, []), ("B", "B", "B", None, [])]
    rows += [("B", "A", "A", None, [])] * 3 + [("A", "A", "A", None, [])]
    dataset = pairs(rows)
    models = {"model_a": "house-7b-chat", "model_b": "Llama-3"}
    given = [LabelledItem(item.case.model_copy(update={"metadata": models}), item.label) for item in dataset.items]
    items = (*given[:-1], dataset.items[-1])
    named = Dataset(dataset.rubric, "set@1", "", items, dataset.columns)
    [unknown] = statistics(named, FAST)["judges"]
    assert unknown["self_preference"] == {
        "family": None,
        "cases": 0,
        "undefined_reason": "no_family",
        "figures": None,
    }
    rules = Rules(resamples=100, families=("house-=house", "small=house"))
    found = statistics(named, rules)["judges"][0]["self_preference"]
    assert (found["family"], found["cases"], found["undefined_reason"]) == ("house", 7, None)
    figures = found["figures"]
    assert figures["own_when_human_own"]["value"] == 1
    assert figures["other_when_human_other"]["value"] == pytest.approx(2 / 5)
    assert figures["equal_opportunity_bias"]["value"] == pytest.approx(0.6)
    elsewhere = statistics(named, Rules(resamples=100, families=("small=elsewhere",)))["judges"][0]["self_preference"]
    assert elsewhere["undefined_reason"] == "no_answers_of_the_family"
    with pytest.raises(InvalidInput) as refused:
        statistics(named, Rules(families=("house",)))
    assert refused.value.fields[0].path == "family"
