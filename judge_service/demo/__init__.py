"""Packaged sample cases with their author's labels, so that the product can be tried without any data.

Owns the two sample files and reading them as bytes. Knows no rubric, judge or store.
"""

from importlib.resources import files

RUBRICS = ("faithfulness", "pairwise")
"""Rubrics that have samples."""


def sample_lines(rubric: str) -> list[bytes]:
    """The lines of the sample file of `rubric` (a name from `RUBRICS`), one JSON object each."""
    if rubric not in RUBRICS:
        raise KeyError(rubric)
    return files(__package__).joinpath(f"{rubric}.jsonl").read_bytes().splitlines(keepends=True)
