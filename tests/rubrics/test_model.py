import math

import pytest

from rubrics.model import Label, Scale


def scale(*names: str, minimum: float = 0.0, maximum: float = 1.0) -> Scale:
    return Scale(tuple(Label(name, "what it means") for name in names), True, minimum, maximum)


def test_labels_keep_their_declared_order() -> None:
    assert scale("low", "medium", "high").names == ("low", "medium", "high")
    assert scale("low", "high").higher_is_better


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        ((), "at least two labels"),
        (("pass",), "at least two labels"),
        (("pass", "Pass "), "'pass' and 'Pass ' are equal"),
        (("STRASSE", "straße"), "are equal after trimming and case folding"),
        (("pass", " "), "a label needs a name"),
    ],
)
def test_degenerate_label_sets_are_refused(names: tuple[str, ...], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        scale(*names)


@pytest.mark.parametrize(("minimum", "maximum"), [(0, 0), (1, 0), (math.nan, 1), (0, math.inf)])
def test_bounds_that_are_no_range_are_refused(minimum: float, maximum: float) -> None:
    with pytest.raises(ValueError, match="finite minimum below"):
        scale("a", "b", minimum=minimum, maximum=maximum)
