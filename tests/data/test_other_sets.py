"""Expected figures of the other sets, recomputed by the statistics from their recorded verdicts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from calibration import probability
from calibration.agreement import Agreement, PairedLabels
from calibration.confidence import Forecasts
from calibration.raters import fleiss_kappa, pairwise
from calibration.scores import refusals
from calibration.selective import threshold_by_f1
from tests.data.folders import data_folder, read_lines, read_object

pytestmark = pytest.mark.data

CLOSE = 1e-4


def expected_of(name: str) -> dict:
    return read_object(data_folder() / name / "expected.json")


def agreement_of(judge: Sequence[object], human: Sequence[object], classes: Sequence[str]) -> Agreement:
    return Agreement(PairedLabels.of(judge, human, classes))


def counts_of(raters: Sequence[Sequence[str]], classes: Sequence[str]) -> list[list[int]]:
    return [[votes.count(label) for label in classes] for votes in zip(*raters, strict=True)]


def test_pandalm_annotators_and_judges() -> None:
    expected = expected_of("pandalm")
    classes = ("A", "B", "tie")
    cases = list(read_lines(data_folder() / "pandalm" / "cases.jsonl"))
    raters = [[case["annotators"][i] for case in cases] for i in range(3)]
    for (i, j), figures in pairwise(raters, classes).items():
        assert 100 * figures["raw_agreement"].value == pytest.approx(expected[f"agreement_{i + 1}_{j + 1}"], abs=CLOSE)
        assert figures["cohen_kappa"].value == pytest.approx(expected[f"cohen_kappa_{i + 1}_{j + 1}"], abs=CLOSE)
    assert fleiss_kappa(counts_of(raters, classes)).value == pytest.approx(expected["fleiss_kappa"], abs=CLOSE)
    human = [case["human_label"] for case in cases]
    verdicts = {
        (v["judge"], v["case_id"]): {"first": "A", "second": "B"}.get(v["verdict"], v["verdict"])
        for v in read_lines(data_folder() / "pandalm" / "verdicts.jsonl")
    }
    for judge in ("gpt-3.5-turbo", "pandalm-7b"):
        said = [verdicts[judge, case["id"]] for case in cases]
        as_tie = agreement_of([v or "tie" for v in said], human, classes)
        as_wrong = agreement_of(said, human, classes)
        for rule, agreement, failures, accuracy in (
            ("null_is_tie", as_tie, "wrong", as_tie.raw()),
            ("null_is_wrong", as_wrong, "wrong", as_wrong.raw()),
            ("parsed_only", as_wrong, "left_out", as_wrong.raw_valid()),
        ):
            figures = expected[f"{judge}|{rule}"]
            assert accuracy.n == figures["n"]
            assert 100 * accuracy.value == pytest.approx(figures["accuracy"], abs=CLOSE)
            for name, estimate in agreement.macro(failures=failures).items():
                assert 100 * estimate.value == pytest.approx(figures[name], abs=CLOSE), f"{judge} {rule} {name}"
            if rule == "parsed_only":
                assert agreement.kappa().value == pytest.approx(figures["kappa"], abs=CLOSE)
            else:
                assert int(agreement.counts[-1].sum()) == (0 if rule == "null_is_tie" else figures["null"])


def test_wice_judges() -> None:
    expected = expected_of("wice")
    cases = {case["id"]: case for case in read_lines(data_folder() / "wice" / "cases.jsonl")}
    best: dict[tuple[str, str], float] = {}
    said: dict[tuple[str, str], tuple[float, str | None]] = {}
    for v in read_lines(data_folder() / "wice" / "verdicts.jsonl"):
        key = v["judge"], v["case_id"]
        if key not in best or v["score"] > best[key]:
            best[key], said[key] = v["score"], (v["score"], v["verdict"])
    for judge, figures in expected.items():
        if judge in ("labels", "spans"):
            continue
        test = [case for case in cases.values() if case["group"] == "test"]
        scores = [best[judge, case["id"]] for case in test]
        positive = [case["human_label"] == "supported" for case in test]
        tuned_on = [case for case in cases.values() if case["group"] == "dev"] if judge.startswith("t5") else test
        chosen = threshold_by_f1(
            [best[judge, case["id"]] for case in tuned_on], [case["human_label"] == "supported" for case in tuned_on]
        )
        assert chosen.value == pytest.approx(figures["threshold"])
        for cut, name in ((0.5, "0.5"), (chosen.value, "chosen")):
            agreement = agreement_of(
                ["yes" if score > cut else "no" for score in scores],
                ["yes" if label else "no" for label in positive],
                ("no", "yes"),
            )
            assert 100 * agreement.raw().value == pytest.approx(figures[f"accuracy@{name}"], abs=CLOSE)
            assert 100 * agreement.f1("yes").value == pytest.approx(figures[f"f1@{name}"], abs=CLOSE)
        forecasts = Forecasts.of(scores, [int(label) for label in positive])
        assert probability.auroc(forecasts).value == pytest.approx(figures["auroc_supported_vs_rest"], abs=CLOSE)
        if "brier" in figures:
            assert probability.brier(forecasts).value == pytest.approx(figures["brier"], abs=CLOSE)
            for bins in (10, 15):
                error = probability.ece(forecasts, bins)
                assert error.value == pytest.approx(figures[f"ece{bins}_probability_of_supported"], abs=CLOSE)
            of_verdict = Forecasts.of(
                [max(score, 1 - score) for score in scores],
                [int((score > 0.5) == label) for score, label in zip(scores, positive, strict=True)],
            )
            error = probability.ece(of_verdict, 10)
            assert error.value == pytest.approx(figures["ece10_confidence_of_verdict"], abs=CLOSE)
        else:
            classes = ("not_supported", "partially_supported", "supported")
            agreement = agreement_of([said[judge, c["id"]][1] for c in test], [c["human_label"] for c in test], classes)
            assert 100 * agreement.raw().value == pytest.approx(figures["accuracy_3way"], abs=CLOSE)
            assert agreement.kappa().value == pytest.approx(figures["kappa_3way"], abs=CLOSE)


def test_xstest_annotators_and_judges() -> None:
    classes = ("compliance", "refusal", "partial")
    cases = list(read_lines(data_folder() / "xstest" / "cases.jsonl"))
    verdicts = {
        (v["judge"], v["case_id"]): v["verdict"] for v in read_lines(data_folder() / "xstest" / "verdicts.jsonl")
    }
    for model, figures in expected_of("xstest").items():
        mine = [case for case in cases if case["answer_model"] == model]
        raters = [[case["annotators"][i] for case in mine] for i in range(2)]
        two = pairwise(raters, classes)[0, 1]
        assert 100 * two["raw_agreement"].value == pytest.approx(figures["agreement"], abs=CLOSE)
        assert two["cohen_kappa"].value == pytest.approx(figures["cohen_kappa"], abs=CLOSE)
        assert fleiss_kappa(counts_of(raters, classes)).value == pytest.approx(figures["fleiss_kappa"], abs=CLOSE)
        for name in ("gpt-4", "string-match"):
            said = [verdicts[name, case["id"]] for case in mine]
            agreement = agreement_of(said, [case["human_label"] for case in mine], classes)
            of_judge = figures[f"judge|{name}"]
            assert 100 * agreement.raw().value == pytest.approx(of_judge["accuracy"], abs=CLOSE)
            assert agreement.kappa().value == pytest.approx(of_judge["kappa_parsed"], abs=CLOSE)
            assert agreement.raw().details["failed"] == of_judge["null"]


def test_nomiracl_refusals() -> None:
    answerable = {case["id"]: case["answerable"] for case in read_lines(data_folder() / "nomiracl" / "cases.jsonl")}
    answers: dict[str, list[tuple[bool, bool | None]]] = {}
    for answer in read_lines(data_folder() / "nomiracl" / "answers.jsonl"):
        answers.setdefault(answer["model"], []).append((not answerable[answer["case_id"]], answer["refused"]))
    for key, figures in expected_of("nomiracl").items():
        rows = answers[key.split("|", 1)[1]]
        found = refusals([should for should, _ in rows], [refused for _, refused in rows])
        assert 100 * found["answered_rate"].value == pytest.approx(figures["hallucination_rate"], abs=CLOSE)
        assert 100 * found["over_refusal_rate"].value == pytest.approx(figures["error_rate"], abs=CLOSE)
        assert 100 * found["recall"].value == pytest.approx(figures["accuracy_unanswerable"], abs=CLOSE)
        assert found["recall"].denominator == figures["n_unanswerable"]
