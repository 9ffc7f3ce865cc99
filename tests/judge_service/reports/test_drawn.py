"""Cases drawn with unequal probabilities are marked wherever figures count each of them once."""

from dataclasses import replace
from typing import Any

import pytest

from judge_service.reports.decision import decide
from judge_service.reports.drawn import drawn_cases
from judge_service.reports.sections import labels
from judge_service.reports.statistics import Rules, set_statistics
from judge_service.reports.study import Study
from tests.judge_service.reports.studies import FAST, Reply, dataset_of, set_of

KEY = "inclusion_probability"


def drawn(chances: list[Any]) -> Any:
    made = dataset_of({"j": lambda pair: Reply.same(pair.label)}, len(chances))
    items = tuple(
        item
        if chance is None
        else replace(item, case=item.case.model_copy(update={"metadata": {**item.case.metadata, KEY: chance}}))
        for item, chance in zip(made.items, chances, strict=True)
    )
    return replace(made, items=items)


def test_nothing_is_said_where_nothing_was_drawn() -> None:
    assert drawn_cases(drawn([None] * 40).items) is None
    assert drawn_cases(drawn([0, True, 2.0, "0.5", float("nan"), None]).items) is None


@pytest.mark.parametrize(
    ("chances", "n", "lowest", "highest", "uneven"),
    [([0.25] * 40, 40, 0.25, 0.25, False), ([0.25, 0.5] * 20, 40, 0.25, 0.5, True), ([0.5, None], 1, 0.5, 1.0, True)],
)
def test_probabilities_are_counted(chances: list[Any], n: int, lowest: float, highest: float, uneven: bool) -> None:
    found = drawn_cases(drawn(chances).items)
    assert found is not None
    assert (found["n"], found["of"]) == (n, len(chances))
    assert (found["lowest"], found["highest"], found["uneven"]) == (lowest, highest, uneven)
    assert found["text"].startswith(f"{n} of {len(chances)} labelled cases were drawn")
    assert ("is over the drawn cases" in found["text"]) is uneven


def test_statistics_the_report_and_its_decision_say_so() -> None:
    uneven = drawn([0.1, 1.0] * 60)
    found = set_statistics(set_of(uneven), Rules(resamples=100))["set"]["labels"]["drawn"]
    study = Study(uneven, FAST, labelled_set=set_of(uneven))
    assert labels.build(study)["drawn"] == found
    assert found["text"] in decide(study)["holds"]
    even = drawn([0.1] * 120)
    assert "drawn" not in decide(Study(even, FAST, labelled_set=set_of(even)))["holds"]
