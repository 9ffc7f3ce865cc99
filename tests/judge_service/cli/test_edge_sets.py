"""Sets that a statistic can trip over, through import, freeze, calibration and statistics: nulls with reasons."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.judge_service.cli.conftest import CommandLine
from tests.judge_service.cli.test_calibrate import ok


def alternating(i: int) -> str:
    return "A" if i % 2 else "B"


def always(label: str) -> Callable[[int], str]:
    return lambda _: label


def rows(
    n: int, label: Callable[[int], str], *, groups: int | None = None, alike: bool = False
) -> list[dict[str, Any]]:
    found = []
    for i in range(n):
        text = 0 if alike else i
        row = {"id": f"c{i}", "prompt": f"Question {text}?", "response_a": f"short {text}", "response_b": "much longer"}
        found.append(row | {"human_label": label(i)} | ({} if groups is None else {"group": f"g{i % groups}"}))
    return found


def first(_: int, order: str) -> str:
    return "first"


def same(_: int, order: str) -> str:
    return "first" if order == "AB" else "second"


def right(i: int, order: str) -> str:
    return "first" if (order == "AB") == (alternating(i) == "A") else "second"


def nothing(_: int, order: str) -> None:
    return None


def tie(_: int, order: str) -> str:
    return "tie"


def checked(found: Any, path: str = "") -> None:
    """Every estimate is defined or says why not, interval included."""
    if isinstance(found, dict):
        if "undefined_reason" in found and "value" in found:
            assert (found["value"] is None) == (found["undefined_reason"] is not None), path
            if found["value"] is not None and found["low"] is None:
                assert found["interval_reason"], path
        for name, value in found.items():
            checked(value, f"{path}.{name}")
    elif isinstance(found, list):
        for place, value in enumerate(found):
            checked(value, f"{path}[{place}]")


def refused(constant: str) -> None:
    raise AssertionError(f"{constant} in JSON")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("cases", "verdict", "shortcoming", "kappa"),
    [
        (rows(20, alternating), right, "20 labelled cases", 1.0),
        (rows(60, always("A")), same, "0 labelled cases of the second class", None),
        (rows(60, alternating), nothing, "The judge gave no verdict on any case.", None),
        (rows(60, alternating), first, None, None),
        (rows(60, alternating, alike=True), same, None, 0.0),
        (rows(120, alternating, groups=2), right, "2 independent groups", 1.0),
        (rows(1, alternating), first, "1 labelled cases", None),
        (rows(40, always("tie")), tie, "0 labelled cases of the second class", None),
    ],
    ids=["twenty", "one_class", "failed", "inconsistent", "duplicates", "two_groups", "one", "ties"],
)
def test_edge_sets(
    cli: CommandLine,
    cases: list[dict[str, Any]],
    verdict: Callable[[int, str], str | None],
    shortcoming: str | None,
    kappa: float | None,
) -> None:
    given = [
        {"case_id": row["id"], "judge": "J", "strategy": "s", "order": order, "verdict": verdict(i, order)}
        for i, row in enumerate(cases)
        for order in ("AB", "BA")
    ]
    for name, lines in (("cases", cases), ("verdicts", given)):
        (cli.folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    ok(cli, "sets", "create", "edge", "--rubric", "pairwise@1")
    ok(cli, "sets", "import", "edge", cli.folder / "cases.jsonl")
    ok(cli, "sets", "verdicts", "edge", cli.folder / "verdicts.jsonl")
    ok(cli, "sets", "freeze", "edge")
    [measured] = json.loads(ok(cli, "calibrate", "edge", "--judge", "J--s", "--json"), parse_constant=refused)
    checked(measured)
    assert measured["n"] == len(cases)
    assert measured["kappa"] == kappa
    assert measured["map"] is None
    assert (measured["shortcoming"] is None) if shortcoming is None else shortcoming in measured["shortcoming"]
    stats = json.loads(
        ok(cli, "stats", "--set", "edge", "--by", "split", "--resamples", "100", "--json"), parse_constant=refused
    )
    checked(stats)
    [judge] = stats["judges"]
    assert sum(judge["outcomes"].values()) == len(cases)
    assert judge["confidence"] is None
    assert stats["selection"]["chosen"] in (None, "J--s")
    assert "Selection" in ok(cli, "stats", "--set", "edge", "--resamples", "100")
