import json
from pathlib import Path

from pyarrow import parquet as library

from judge_service.domain.outcome import Outcome
from judge_service.runs.exports import judgments_of, parquet
from judge_service.runs.local import LocalRunner
from judge_service.store import Only, Store

from .fake import JUDGE, PAIRWISE, FakeJudging, by_number, cases


async def test_a_parquet_file_holds_figures_as_columns_and_parts_as_json(store: Store, tmp_path: Path) -> None:
    judging = FakeJudging(lambda case: "timeout" if case.id == "case-4" else by_number(case))
    await LocalRunner(store, judging).run(cases(6), PAIRWISE, JUDGE, run_id="r")
    path = tmp_path / "r.parquet"
    assert parquet(store, "r", path) == 6
    rows = library.read_table(path).to_pylist()
    recorded = list(judgments_of(store, "r"))
    assert [row["case_id"] for row in rows] == [f"case-{number}" for number in range(6)]
    assert [row["score"] for row in rows] == [1.0, 0.0, 0.5, None, None, 0.0]
    assert [(row["outcome"], row["reason"]) for row in rows[3:5]] == [
        ("inconsistent", None),
        ("judge_error", "timeout"),
    ]
    assert [row["created_at"] for row in rows] == [one.created_at for one in recorded]
    assert json.loads(rows[1]["metadata"]) == {"language": "de"}
    assert json.loads(rows[0]["calls"]) == [call.model_dump(mode="json") for call in recorded[0].calls]
    assert {row["n_calls"] for row in rows} == {2}
    assert {row["cost_usd"] for row in rows} == {0.25}


async def test_an_export_may_be_of_a_part_and_may_be_empty(store: Store, tmp_path: Path) -> None:
    await LocalRunner(store, FakeJudging()).run(cases(8), PAIRWISE, JUDGE, run_id="r")
    path = tmp_path / "r.parquet"
    assert parquet(store, "r", path, outcome=Outcome.SCORED, only=Only(slice=("language", "de"))) == 2
    assert library.read_table(path)["case_id"].to_pylist() == ["case-1", "case-5"]
    assert parquet(store, "r", path, only=Only(score_from=2.0)) == 0
    assert library.read_table(path).num_rows == 0
