"""Every reference value of the folder JUDGE_REFERENCE_DIR, within its case's own tolerance."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from calibration.estimate import Estimate, Reason
from tests.data.folders import read_object, reference_folder
from tests.reference.adapters import ADAPTERS, Interval


def cases_of(path: Path) -> Iterator[dict[str, Any]]:
    record = read_object(path)
    yield from (record if isinstance(record, list) else record["cases"])


def statistics_of(case: dict[str, Any]) -> list[str]:
    named = case["statistic"]
    return [named] if isinstance(named, str) else list(named)


def merged(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    result = dict(left)
    for key, value in right.items():
        before = result.get(key)
        result[key] = merged(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return result


def differences(found: Any, expected: Any, tolerance: float, where: str) -> Iterator[str]:
    """Where `found` does not match: null must be null with a reason, numbers within the tolerance."""
    if isinstance(expected, dict) and not isinstance(found, Estimate):
        if not isinstance(found, dict):
            yield f"{where}: {found!r} instead of named figures"
            return
        for key, value in expected.items():
            if key not in found:
                yield f"{where}.{key}: not computed"
            else:
                yield from differences(found[key], value, tolerance, f"{where}.{key}")
        return
    if isinstance(found, Interval):
        estimate = found.estimate
        found = None if estimate.low is None else [estimate.low, estimate.high]
        if found is None and not isinstance(estimate.interval_reason or estimate.undefined_reason, Reason):
            yield f"{where}: null without a reason"
    elif isinstance(found, Estimate):
        if found.value is None and not isinstance(found.undefined_reason, Reason):
            yield f"{where}: null without a reason"
        found = found.value
    if expected is None or found is None:
        if not (expected is None and found is None):
            yield f"{where}: {found!r} instead of {expected!r}"
    elif isinstance(expected, list):
        found = list(found)
        if len(found) != len(expected):
            yield f"{where}: {len(found)} entries instead of {len(expected)}"
            return
        for place, value in enumerate(expected):
            yield from differences(found[place], value, tolerance, f"{where}[{place}]")
    elif isinstance(expected, bool | str):
        if found != expected:
            yield f"{where}: {found!r} instead of {expected!r}"
    elif not math.isfinite(found) or abs(found - expected) > tolerance * max(1.0, abs(expected)):
        yield f"{where}: {found!r} instead of {expected!r}"


def test_every_reference_case_is_reproduced() -> None:
    files = sorted(reference_folder().glob("*.json"))
    assert files, "JUDGE_REFERENCE_DIR names a folder without *.json"
    wrong: list[str] = []
    seen = 0
    for path in files:
        for case in cases_of(path):
            seen += 1
            where = f"{path.name} {case['id']}"
            found: dict[str, Any] = {}
            for name in statistics_of(case):
                if name not in ADAPTERS:
                    wrong.append(f"{where}: unknown statistic {name!r}")
                    continue
                found = merged(found, ADAPTERS[name](case["input"]))
            wrong += differences(found, case["expected"], case["tolerance"], where)
    assert not wrong, f"{len(wrong)} differences in {seen} cases:\n" + "\n".join(wrong)


def test_every_adapter_is_of_a_statistic_that_the_reference_names() -> None:
    named = {
        name for path in reference_folder().glob("*.json") for case in cases_of(path) for name in statistics_of(case)
    }
    assert named <= ADAPTERS.keys()


@pytest.mark.parametrize(
    ("found", "expected", "complaints"),
    [
        ({"a": Estimate.undefined(Reason.EMPTY, 0, "m")}, {"a": None}, 0),
        ({"a": Estimate.point(0.5, 1, "m")}, {"a": None}, 1),
        ({"a": Estimate.undefined(Reason.EMPTY, 0, "m")}, {"a": 0.0}, 1),
        ({"a": 0.5}, {"a": 0.5, "b": 1}, 1),
        ({"a": [1, 2]}, {"a": [1]}, 1),
        ({"a": 1.0}, {"a": 1.0 + 1e-6}, 1),
        ({"a": math.nan}, {"a": 1.0}, 1),
    ],
)
def test_the_comparison_itself_notices_what_is_wrong(found: Any, expected: Any, complaints: int) -> None:
    assert len(list(differences(found, expected, 1e-9, "case"))) == complaints
