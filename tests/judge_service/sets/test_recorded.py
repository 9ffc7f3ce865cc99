import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from judge_service.domain.judgment import Judgment
from judge_service.domain.outcome import Enforcement, JudgeErrorReason, Outcome
from judge_service.domain.run import Run, RunStatus
from judge_service.errors import Conflict, InvalidInput
from judge_service.files.source import Source
from judge_service.reports.dataset import line_up
from judge_service.reports.judge_figures import cost
from judge_service.reports.labelled_set import read_set
from judge_service.reports.spending import spending
from judge_service.sets.importing import ImportOptions, import_cases
from judge_service.sets.recorded import ImportedVerdicts, VerdictOptions, import_verdicts, judge_name
from judge_service.store import Store
from tests.support.waiting import LONG_ENOUGH_S

from .conftest import MakeFile, pair

Data = Callable[[str], Source]


def judged(store: Store, run_id: str) -> dict[str, Judgment]:
    return {judgment.case_id: judgment for _, judgment in store.runs.results(run_id, limit=10_000)}


def line(case_id: str, order: str | None, verdict: str | None, **more: Any) -> dict[str, Any]:
    return {"case_id": case_id, "judge": "GPT-4", "strategy": "Swap", "order": order, "verdict": verdict, **more}


def pairs(store: Store, file: MakeFile, *ids: str) -> None:
    store.sets.create("s", "pairwise@1")
    import_cases(store, "s", file([pair(name, group=f"g-{name}", lang="en") for name in ids]))


def test_orders_fold_to_one_judgment_and_failures_stay(store: Store, file: MakeFile) -> None:
    pairs(store, file, "win", "lose", "flip", "tie", "null", "half", "never")
    lines = [
        line("win", "AB", "first"), line("win", "BA", "second", raw="Output (b)"),
        line("lose", "AB", "second"), line("lose", "BA", "first"),
        line("flip", "AB", "first"), line("flip", "BA", "first"),
        line("tie", "AB", "tie"), line("tie", "BA", "tie"),
        line("null", "AB", "first"), line("null", "BA", None, raw="I will not say"),
        line("half", "BA", "second"),
        line("typo", "AB", "first"),
    ]  # fmt: skip
    source = file(lines, "verdicts.jsonl")
    done = import_verdicts(store, "s", source)
    assert (done.lines, done.n_unjoined, done.unjoined) == (12, 1, ("typo",))
    (judge,) = done.judges
    assert (judge.judge, judge.orders, judge.judgments, judge.added, judge.not_judged) == (
        "GPT-4--Swap", "both_orders", 6, 6, 1,
    )  # fmt: skip
    assert judge.outcomes == {
        "inconsistent": 1, "judge_error:incomplete_pair": 1, "judge_error:parse_error": 1, "scored": 3,
    }  # fmt: skip
    found = judged(store, judge.run_id)
    assert {name: (one.outcome, one.label, one.score) for name, one in found.items()} == {
        "win": (Outcome.SCORED, "A", 1.0),
        "lose": (Outcome.SCORED, "B", 0.0),
        "flip": (Outcome.INCONSISTENT, None, None),
        "tie": (Outcome.SCORED, "tie", 0.5),
        "null": (Outcome.JUDGE_ERROR, None, None),
        "half": (Outcome.JUDGE_ERROR, None, None),
    }
    record = found["flip"].record
    assert record is not None
    assert (record["ab"]["slot"], record["ab"]["verdict"]) == ("first", "A")
    assert (record["ba"]["slot"], record["ba"]["verdict"]) == ("first", "B")
    null = found["null"]
    assert null.record is not None
    assert null.reason is JudgeErrorReason.PARSE_ERROR
    assert null.record["ab"]["verdict"] == "A"
    assert null.record["ba"] is None
    assert [(call.order, call.raw, call.error is None) for call in null.calls] == [
        ("AB", "first", True),
        ("BA", "I will not say", False),
    ]
    assert found["half"].reason is JudgeErrorReason.INCOMPLETE_PAIR
    assert found["win"].calls[1].raw == "Output (b)"
    assert (found["win"].group, found["win"].metadata) == ("g-win", {"lang": "en"})
    assert found["win"].enforcement is Enforcement.NONE
    run = store.runs.get(judge.run_id)
    assert run is not None
    assert (run.status, run.source, run.n_planned) == (RunStatus.FINISHED_WITH_ERRORS, "set:s@1", 6)
    assert (run.judge.backend, run.judge.model) == ("recorded", "GPT-4")

    again = import_verdicts(store, "s", source)
    assert again.judges[0].run_id == judge.run_id
    assert again.judges[0].added == 0
    assert judged(store, judge.run_id) == found
    assert store.judgments.history(null.identity) == [null]


def test_other_verdicts_of_a_recorded_judge_are_refused_unless_they_are_a_version(lite: Store, file: MakeFile) -> None:
    pairs(lite, file, "a", "b")
    rows = [line("a", "AB", "first"), line("b", "AB", "second")]
    done = import_verdicts(lite, "s", file(rows, "v.jsonl"))
    changed = file([rows[0], line("b", "AB", "first")], "w.jsonl")
    with pytest.raises(Conflict, match="1 differ") as caught:
        import_verdicts(lite, "s", changed)
    assert caught.value.extra["differences"] == [
        {"case_id": "b", "field": "verdict", "stored": "B (B), score 0", "given": "A (A), score 1"}
    ]
    assert len(lite.runs.of_source("set:s@1")) == 1
    again = import_verdicts(lite, "s", changed, VerdictOptions(version="2"))
    assert [judge.judge for judge in (*done.judges, *again.judges)] == ["GPT-4--Swap", "GPT-4--Swap--2"]
    assert import_verdicts(lite, "s", changed, VerdictOptions(version="2")).judges[0].added == 0
    with pytest.raises(Conflict, match="a judge of this service"):
        import_verdicts(lite, "s", file(rows, "v.jsonl"), taken={"GPT-4--Swap"})


@pytest.mark.parametrize(
    ("rows", "path", "message"),
    [
        ([line("a", "AB", "first"), line("a", "AB", "second")], "file", "line 2: case 'a' has a second verdict"),
        ([line("a", "AB", "better")], "verdict", "'better' of case 'a' is none of first, second, tie"),
        ([line("a", None, "first")], "verdict", "none of A, B, tie"),
        ([line("a", "CD", "first")], "line 1: order", "AB"),
        ([line("zzz", "AB", "first")], "case_id", "none of them"),
        (
            [line("a", "AB", "first") | {"judge": "x y"}, line("a", "AB", "first") | {"judge": "x-y"}],
            "judge",
            "both be named",
        ),
    ],
)
def test_a_file_that_cannot_be_read_leaves_nothing(
    lite: Store, file: MakeFile, rows: list[dict[str, Any]], path: str, message: str
) -> None:
    pairs(lite, file, "a")
    with pytest.raises(InvalidInput) as caught:
        import_verdicts(lite, "s", file(rows, "v.jsonl"))
    assert caught.value.fields[0].path == path
    assert message in caught.value.fields[0].message
    assert lite.runs.list() == []


def test_names_of_recorded_judges() -> None:
    assert judge_name("GPT-4", "Swap_CoT") == "GPT-4--Swap_CoT"
    assert judge_name("org/model:7b", None) == "org-model-7b"
    assert judge_name(None, "x") == "recorded--x"
    assert len(judge_name("m" * 90, "s")) == 64
    assert judge_name("m" * 90, "s") != judge_name("m" * 90, "t")
    assert judge_name("Судья-1", None).startswith("Sudya-1-")
    names = {judge_name(name, None) for name in ("審判1", "审判1", "Судья 1", "Cудья 1", "judge 1")}
    assert len(names) == 5
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name) for name in names)
    assert judge_name("Édouard", None).startswith("Edouard-")


def test_scores_are_probabilities_and_csv_says_the_same(lite: Store, file: MakeFile) -> None:
    lite.sets.create("s", "faithfulness@1")
    cases = [{"id": name, "answer": f"claim {name}", "contexts": ["text"]} for name in "abcd"]
    import_cases(lite, "s", file(cases))
    rows = [
        {"case_id": "a", "judge": "nli", "verdict": None, "score": 0.2},
        {"case_id": "a", "judge": "nli", "verdict": None, "score": 0.75},
        {"case_id": "b", "judge": "nli", "verdict": None, "score": 0.5},
        {"case_id": "c", "judge": "nli", "verdict": "partially_supported", "score": 0.5},
        {"case_id": "d", "judge": "nli", "verdict": None, "score": None},
    ]
    done = import_verdicts(lite, "s", file(rows, "v.jsonl"))
    found = judged(lite, done.judges[0].run_id)
    assert {name: (one.label, one.score) for name, one in found.items()} == {
        "a": ("supported", 1.0),
        "b": ("unsupported", 0.0),
        "c": ("unsupported", 0.5),
        "d": (None, None),
    }
    values = {name: None if one.confidence is None else one.confidence.value for name, one in found.items()}
    assert values == {"a": 0.75, "b": 0.5, "c": None, "d": None}
    assert found["a"].confidence is not None
    assert found["a"].confidence.source == "classifier"
    assert len(found["a"].calls) == 2
    text = "case_id,judge,verdict,score\n" + "".join(
        f"{row['case_id']},nli,{row['verdict'] or ''},{'' if row['score'] is None else row['score']}\n" for row in rows
    )
    again = import_verdicts(lite, "s", file(text, "v.csv"))
    assert (again.judges[0].run_id, again.judges[0].added) == (done.judges[0].run_id, 0)
    with pytest.raises(InvalidInput, match="citation"):
        import_verdicts(lite, "s", file(rows, "v.jsonl"), VerdictOptions(rubric="citation"))


@pytest.mark.data
def test_llmbar_with_its_figures(lite: Store, data: Data) -> None:
    lite.sets.create("llmbar")
    import_cases(lite, "llmbar", data("llmbar/cases.jsonl"))
    done = import_verdicts(lite, "llmbar", data("llmbar/verdicts.jsonl"))
    assert (done.lines, done.n_unjoined, len(done.judges)) == (41_016, 0, 58)
    assert sum(judge.judgments for judge in done.judges) == 20_508
    labels = {label.case_id: label.label for label in lite.labels.of("llmbar@1")}
    expected = json.loads(_text(data("llmbar/expected.json")))
    for judge in done.judges:
        rows: dict[str, Counter[str]] = {}
        for case_id, judgment in judged(lite, judge.run_id).items():
            row = rows.setdefault(str(judgment.metadata["group"]), Counter())
            row["n"] += 1
            row["both_correct"] += judgment.label == labels[case_id]
            row["flips"] += judgment.outcome is Outcome.INCONSISTENT
            record = judgment.record
            assert record is not None
            row["null"] += (record["ab"] is None) + (record["ba"] is None)
        for group, row in rows.items():
            figures = expected[f"{group}|{judge.model}|{judge.strategy}"]
            assert row["n"] == figures["n"]
            assert 100 * row["both_correct"] / row["n"] == pytest.approx(figures["both_correct"], abs=1e-4)
            assert (row["flips"], row["null"]) == (figures["flips"], figures["verdicts_null"])


@pytest.mark.data
def test_the_other_recorded_judges(lite: Store, data: Data) -> None:
    for name in ("pandalm", "wice", "xstest"):
        lite.sets.create(name)
        import_cases(lite, name, data(f"{name}/cases.jsonl"))
    outcomes = {
        judge.judge: judge.outcomes for judge in import_verdicts(lite, "pandalm", data("pandalm/verdicts.jsonl")).judges
    }
    assert outcomes == {
        "gpt-3.5-turbo--single_order": {"judge_error:parse_error": 25, "scored": 974},
        "pandalm-7b--single_order": {"scored": 999},
    }
    wice = {judge.judge: judge for judge in import_verdicts(lite, "wice", data("wice/verdicts.jsonl")).judges}
    assert {name: judge.judgments for name, judge in wice.items()} == {
        "gpt-3.5-turbo-0613": 100, "gpt-4-0613": 100, "t5-3b-anli": 200, "t5-3b-anli-wice": 200,
    }  # fmt: skip
    three = import_verdicts(lite, "wice", data("wice/verdicts.jsonl"), VerdictOptions(rubric="citation_support@1"))
    gpt4 = next(judge for judge in three.judges if judge.judge == "gpt-4-0613")
    labels = {one.case_id: one.label for one in lite.labels.of("wice@1", "citation_support@1")}
    found = judged(lite, gpt4.run_id)
    assert sum(one.label == labels[name] for name, one in found.items()) == 69
    xstest = {judge.judge: judge for judge in import_verdicts(lite, "xstest", data("xstest/verdicts.jsonl")).judges}
    assert xstest["gpt-4"].outcomes == {"judge_error:parse_error": 11, "scored": 1339}
    final = {one.case_id: one.label for one in lite.labels.of("xstest@1") if one.adjudicated}
    right = Counter(
        one.metadata["answer_model"]
        for name, one in judged(lite, xstest["gpt-4"].run_id).items()
        if one.label == final[name]
    )
    assert {model: round(100 * n / 450, 1) for model, n in right.items()} == {
        "gpt4": 93.6, "llama2orig": 77.1, "mistralinstruct": 74.0,
    }  # fmt: skip


@pytest.mark.data
def test_what_a_rule_read_in_answers_is_a_recorded_judge(lite: Store, data: Data) -> None:
    lite.sets.create("s")
    import_cases(lite, "s", data("nomiracl/cases.jsonl"), ImportOptions(answers=data("nomiracl/answers.jsonl")))
    (judge,) = import_verdicts(lite, "s", data("nomiracl/answers.jsonl")).judges
    assert (judge.judge, judge.judgments) == ("source-rule", 5500)
    found = judged(lite, judge.run_id)
    attempts = sum(
        found[entry.case.id].label == "compliance"
        for entry in lite.sets.cases("s@1")
        if entry.case.metadata["answer_model"] == "gpt-4-azure" and not entry.case.input["answerable"]
    )
    assert 100 * attempts / 250 == pytest.approx(42.4, abs=0.5)


def _text(source: Source) -> str:
    with source.open() as file:
        return file.read().decode()


def test_statistics_read_judgments_without_calls_and_count_them(store: Store, file: MakeFile) -> None:
    pairs(store, file, "win", "flip", "half")
    lines = [
        line("win", "AB", "first"), line("win", "BA", "second"),
        line("flip", "AB", "first"), line("flip", "BA", "first"),
        line("half", "BA", "second"),
    ]  # fmt: skip
    (judge,) = import_verdicts(store, "s", file(lines, "verdicts.jsonl")).judges
    found = read_set(store, "s")
    (column,) = found.dataset.columns
    assert [made is not None and made.calls for made in column.judgments] == [(), (), ()]
    assert column.n_calls == 5
    assert cost(column)["calls"] == spending(column)["calls"] == 5
    (part,) = found.dataset.only([1, 2]).columns
    assert part.n_calls == 3
    # What is read with its calls counts its own.
    whole = line_up([item.case for item in found.dataset.items], judged(store, judge.run_id).values(), column.judge)
    assert whole.n_calls == 5
    assert sum(store.runs.calls_of(judge.run_id).values()) == store.runs.call_count(judge.run_id).calls == 5


def outcomes(work: Sequence[Callable[[], object]]) -> list[object]:
    """What each piece of work gave, all begun at one moment."""
    ready = threading.Barrier(len(work))

    def one(each: Callable[[], object]) -> object:
        ready.wait(LONG_ENOUGH_S)
        try:
            return each()
        except Conflict as error:
            return error

    with ThreadPoolExecutor(len(work)) as pool:
        return list(pool.map(one, work))


def test_of_two_files_at_one_moment_under_one_name_one_passes(database_url: str, file: MakeFile) -> None:
    with Store.open(database_url) as first, Store.open(database_url) as second:
        pairs(first, file, *(f"c{number}" for number in range(40)))
        sources = [
            file([line(f"c{number}", "AB", verdict) for number in range(40)], f"{verdict}.jsonl")
            for verdict in ("first", "second")
        ]
        stores = [first, second]
        # Both have seen that nobody has the name before one of them takes it.
        looked = threading.Barrier(2)
        for store in stores:
            claim = store.recorded.claim

            def late(set_id: str, runs: Sequence[Run], claim: Callable[..., None] = claim) -> None:
                looked.wait(LONG_ENOUGH_S)
                claim(set_id, runs)

            store.recorded.claim = late  # type: ignore[method-assign]
        work = zip(stores, sources, strict=True)
        found = outcomes([partial(import_verdicts, store, "s", source) for store, source in work])
        (refused,) = (one for one in found if isinstance(one, Conflict))
        (passed,) = (one for one in found if isinstance(one, ImportedVerdicts))
        assert "other verdicts" in str(refused)
        assert [problem.path for problem in refused.fields] == ["judge"]
        (run,) = first.runs.of_source("set:s@1")
        assert (run.id, run.planned, run.n_planned) == (passed.judges[0].run_id, True, 40)
        assert {made.label for made in judged(first, run.id).values()} in ({"A"}, {"B"})


def test_the_same_file_at_one_moment_is_imported_once(database_url: str, file: MakeFile) -> None:
    with Store.open(database_url) as first, Store.open(database_url) as second:
        pairs(first, file, *(f"c{number}" for number in range(40)))
        source = file([line(f"c{number}", "AB", "first") for number in range(40)], "verdicts.jsonl")
        found = outcomes([partial(import_verdicts, store, "s", source) for store in (first, second)])
        assert all(isinstance(one, ImportedVerdicts) for one in found)
        (run,) = first.runs.of_source("set:s@1")
        assert (run.planned, run.n_planned, len(judged(first, run.id))) == (True, 40, 40)


def test_an_interrupted_import_is_no_judge_and_gives_its_name_free(store: Store, file: MakeFile) -> None:
    pairs(store, file, "a", "b")
    wrong = file([line("a", "AB", "second"), line("b", "AB", "second")], "wrong.jsonl")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.runs, "seal", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            import_verdicts(store, "s", wrong)
    (left,) = store.runs.of_source("set:s@1")
    assert not left.planned
    found = read_set(store, "s")
    assert (found.dataset.columns, found.left_out) == ((), (left.id,))
    right = file([line("a", "AB", "first"), line("b", "AB", "first")], "right.jsonl")
    with pytest.raises(Conflict, match="being imported now"):
        import_verdicts(store, "s", right)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("judge_service.store.recorded.ABANDONED_AFTER", timedelta(0))
        (judge,) = import_verdicts(store, "s", right).judges
    assert [run.id for run in store.runs.of_source("set:s@1")] == [judge.run_id]
    assert {made.label for made in judged(store, judge.run_id).values()} == {"A"}
    assert import_verdicts(store, "s", right).judges[0].added == 0
