"""Where a run is cut: every case once, and finer towards the end."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from judge_service.store.chunks import LARGEST, SMALLEST, spans


@given(st.integers(1, 200_000))
@example(1)
@example(SMALLEST + 1)
def test_every_case_is_in_one_chunk(n: int) -> None:
    found = spans(n)
    assert [position for first, last in found for position in (first, last + 1)][1:-1:2] == [
        first for first, _ in found[1:]
    ]
    assert (found[0][0], found[-1][1]) == (0, n - 1)
    sizes = [last - first + 1 for first, last in found]
    assert all(1 <= size <= LARGEST for size in sizes)
    # The last one holds what is left.
    assert all(size >= SMALLEST for size in sizes[:-1])
    assert sizes[:-1] == sorted(sizes[:-1], reverse=True)


@pytest.mark.parametrize(
    ("n", "sizes"),
    [
        (0, []),
        (20, [8, 8, 4]),
        (4800, [75] * 48 + [18] * 66 + [12]),
        (100_000, [256] * 374 + [64] * 66 + [32]),
    ],
)
def test_the_end_is_cut_finer(n: int, sizes: list[int]) -> None:
    assert [last - first + 1 for first, last in spans(n)] == sizes
