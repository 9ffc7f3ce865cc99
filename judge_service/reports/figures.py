"""How a figure stands in a report's JSON: an estimate without the counts that another section holds already."""

from collections.abc import Mapping
from typing import Any

from calibration.estimate import Estimate, plain

_ELSEWHERE = ("table", "weighted_table", "classes", "bin_n", "bin_confidence", "bin_accuracy", "rows")
"""Details that stand once in the report: the table of labels, the bins, the rows of thresholds."""


def shown(estimate: Estimate) -> dict[str, Any]:
    """`value`, `low`, `high`, `n`, `method`, `undefined_reason` and what else is known, as docs/reports.md says."""
    record = estimate.to_dict()
    details = {name: value for name, value in record.pop("details", {}).items() if name not in _ELSEWHERE}
    return record | ({"details": details} if details else {})


def shown_all(figures: Mapping[str, Estimate]) -> dict[str, Any]:
    """Several figures by their names."""
    return {name: shown(estimate) for name, estimate in figures.items()}


def jsonable(value: Any) -> Any:
    """Any structure with estimates in it, in JSON's own types; NaN and infinity become null."""
    if isinstance(value, Estimate):
        return shown(value)
    if isinstance(value, Mapping):
        return {str(key): jsonable(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(part) for part in value]
    return plain(value)
