"""Splits by group that let nothing leak, and the leakage checks. Knows group names and texts, no files."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np

from calibration.duplicates import normalise
from calibration.estimate import InvalidStatisticInput

SPLITS = ("development", "calibration", "release", "monitoring")


def split_of(group: str, shares: Mapping[str, float], *, salt: str = "") -> str:
    """The split of a group: sha256 of group and salt, to a bucket of size `shares`; the same on every machine.

    `shares` are positive and sum to 1. A case that is added later changes no other case's split.
    """
    if not shares or any(part < 0 for part in shares.values()) or not math.isclose(sum(shares.values()), 1):
        raise InvalidStatisticInput("shares of the splits are 0 or more and sum to 1")
    digest = hashlib.sha256(f"{salt}\x1f{group}".encode()).digest()
    place = int.from_bytes(digest[:8], "big") / 2**64
    reached = 0.0
    usable = [(name, part) for name, part in shares.items() if part > 0]
    for name, part in usable:
        reached += part
        if place < reached:
            return name
    return usable[-1][0]


def stratified_splits(
    groups: Sequence[Hashable], labels: Sequence[object], shares: Mapping[str, int], *, seed: int = 1
) -> list[str]:
    """Split of each case by group with the classes kept balanced; `shares` in whole parts (e.g. 2 to 1 to 1).

    Not stable under added cases: for a set that grows use `split_of`. Fewer groups than parts are refused.
    """
    from sklearn.model_selection import StratifiedGroupKFold

    from calibration.resample import group_codes

    parts = sum(shares.values())
    codes = group_codes(groups)
    if len(groups) != len(labels) or any(part < 0 for part in shares.values()) or parts < 2:
        raise InvalidStatisticInput("groups and labels have one entry a case, shares are whole parts, two or more")
    if not len(codes) or int(codes.max()) + 1 < parts:
        raise InvalidStatisticInput("there are fewer groups than parts")
    owner = [name for name, part in shares.items() for _ in range(part)]
    # Numbers in a fixed order make the folds independent of how the labels are spelled.
    numbered = {label: i for i, label in enumerate(sorted(set(map(repr, labels))))}
    outcome = np.array([numbered[repr(label)] for label in labels])
    result = [""] * len(codes)
    import warnings

    with warnings.catch_warnings():
        # It warns when a class is smaller than the number of parts; the split is then as even as it can be.
        warnings.simplefilter("ignore", UserWarning)
        folds = StratifiedGroupKFold(n_splits=parts, shuffle=True, random_state=seed)
        try:
            for fold, (_, chosen) in enumerate(folds.split(np.zeros((len(codes), 1)), outcome, codes)):
                for case in chosen:
                    result[int(case)] = owner[fold]
        except ValueError as failed:
            raise InvalidStatisticInput(f"the labels cannot be stratified: {failed}") from failed
    return result


@dataclasses.dataclass(frozen=True)
class Leakage:
    """What is in two splits at once; a report over splits that are not `ok` must not be made.

    `groups` and `texts` (positions of cases with one normalised text in two splits); `few_shot` are positions of cases
    outside development whose text is an example in the judge's prompt.
    """

    groups: tuple[Hashable, ...] = ()
    texts: tuple[tuple[int, ...], ...] = ()
    few_shot: tuple[int, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing leaks."""
        return not (self.groups or self.texts or self.few_shot)


def leakage(
    groups: Sequence[Hashable],
    splits: Sequence[str],
    *,
    texts: Sequence[str] | None = None,
    few_shot: Iterable[str] = (),
    development: str = "development",
) -> Leakage:
    """Check splits: no group and no normalised text in two of them, no few-shot example outside `development`."""
    if len(groups) != len(splits) or (texts is not None and len(texts) != len(splits)):
        raise InvalidStatisticInput("groups, splits and texts must have one entry for each case")
    seen: dict[Hashable, set[str]] = {}
    for group, split in zip(groups, splits, strict=True):
        seen.setdefault(group, set()).add(split)
    by_text: dict[str, list[int]] = {}
    for case, text in enumerate(texts or ()):
        key = normalise(text)
        if key:
            by_text.setdefault(key, []).append(case)
    examples = {normalise(text) for text in few_shot} - {""}
    return Leakage(
        tuple(group for group, where in seen.items() if len(where) > 1),
        tuple(tuple(cases) for cases in by_text.values() if len({splits[case] for case in cases}) > 1),
        tuple(sorted(case for example in examples for case in by_text.get(example, ()) if splits[case] != development)),
    )
