"""The published figures of LLMBar's judges, recomputed from the recorded verdicts."""

from __future__ import annotations

import functools

import pytest

from calibration.agreement_table import (
    AgreementRow,
    LabelledPair,
    OrderedVerdict,
    agreement_table,
    join_verdicts,
)
from tests.data.folders import data_folder, read_lines, read_object

pytestmark = pytest.mark.data

PUBLISHED = ("accuracy_AB", "accuracy_BA", "accuracy", "both_correct", "positional_agreement")


@functools.cache
def rows_of(folder: str) -> dict[str, AgreementRow]:
    data = data_folder() / folder
    pairs = [LabelledPair(case["id"], case["group"], case["human_label"]) for case in read_lines(data / "cases.jsonl")]
    verdicts = (
        OrderedVerdict(v["case_id"], v["judge"], v["strategy"], v["order"], v["verdict"], line)
        for line, v in enumerate(read_lines(data / "verdicts.jsonl"), 1)
    )
    joined = join_verdicts(pairs, verdicts)
    assert joined.unjoined == ()
    assert joined.repeated == 0
    return {f"{row.group}|{row.judge}|{row.strategy}": row for row in agreement_table(joined, resamples=2000)}


def test_every_published_figure_of_llmbar_is_reproduced() -> None:
    published = read_object(data_folder() / "llmbar" / "published.json")
    rows = rows_of("llmbar")
    assert rows.keys() == published.keys()
    assert len(rows) == 182
    for key, figures in published.items():
        for name in PUBLISHED:
            assert rows[key].value(name) == pytest.approx(figures[name], abs=1e-4), f"{key} {name}"


def test_every_expected_figure_of_llmbar_is_reproduced_with_an_interval_or_a_reason() -> None:
    expected = read_object(data_folder() / "llmbar" / "expected.json")
    rows = rows_of("llmbar")
    assert rows.keys() == expected.keys()
    for key, figures in expected.items():
        row = rows[key]
        record = row.to_dict()
        for name, figure in figures.items():
            assert record[name] == (None if figure is None else pytest.approx(figure, abs=1e-4)), f"{key} {name}"
        for name, estimate in row.estimates.items():
            assert estimate.n > 0
            if estimate.defined:
                assert (estimate.low is None) == (estimate.interval_reason is not None), f"{key} {name}"
                assert estimate.low is None or estimate.low <= estimate.high
            else:
                assert estimate.undefined_reason is not None


def test_single_order_verdicts_have_no_position_figures() -> None:
    expected = read_object(data_folder() / "pandalm" / "expected.json")
    rows = [row for key, row in rows_of("pandalm").items()]
    for judge in ("gpt-3.5-turbo", "pandalm-7b"):
        mine = [row for row in rows if row.judge == judge]
        right = sum(row.estimates["accuracy_AB"].numerator or 0 for row in mine)
        assert 100 * right / 999 == pytest.approx(expected[f"{judge}|null_is_wrong"]["accuracy"], abs=1e-4)
        assert sum(row.counts["verdicts_null"] for row in mine) == expected[f"{judge}|null_is_wrong"]["null"]
        for row in mine:
            assert row.flags == ("single_order",)
            assert row.value("accuracy") == row.value("accuracy_AB")
            for name in (
                "accuracy_BA",
                "both_correct",
                "positional_agreement",
                "flip_rate",
                "flips",
                "kappa_between_orders",
            ):
                assert row.value(name) is None
                assert row.estimates[name].undefined_reason == "single_order"
