"""Which cases belong together, and splits that let nothing leak: near-duplicates, group hashes, leakage checks.

MinHash only proposes pairs; the exact Jaccard index of word shingles decides. Knows texts and group names, no files.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import statistics
import unicodedata
from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np

from calibration.estimate import InvalidStatisticInput

DEFAULT_THRESHOLD = 0.8
PERMUTATIONS = 512
"""The standard error of a MinHash estimate is then at most 0.022."""

SHORT_TEXT_WORDS = 20
WANTED_RECALL = 0.99
LARGE_COMPONENT = 0.05
MIN_ANSWER_WORDS = 5
SPLITS = ("development", "calibration", "release", "monitoring")


def normalise(text: str) -> str:
    """Lower-cased, Unicode-normalised (NFKC), white space collapsed: texts equal here are the same text."""
    return " ".join(unicodedata.normalize("NFKC", text).lower().split())


def shingles(text: str, words: int) -> frozenset[str]:
    """Runs of `words` consecutive words of the normalised text; a shorter text is one run, an empty one none."""
    if words < 1:
        raise InvalidStatisticInput("a shingle has at least one word")
    tokens = normalise(text).split()
    if not tokens:
        return frozenset()
    if len(tokens) <= words:
        return frozenset([" ".join(tokens)])
    return frozenset(" ".join(tokens[i : i + words]) for i in range(len(tokens) - words + 1))


def shingle_length(texts: Iterable[str]) -> int:
    """Words a shingle for a collection: 2 when half of its texts have under 20 words, else 3."""
    lengths = [len(text.split()) for text in texts]
    return 2 if not lengths or statistics.median(lengths) < SHORT_TEXT_WORDS else 3


def jaccard(left: frozenset[str], right: frozenset[str]) -> float:
    """Shared over all shingles; two texts without any share nothing: 0."""
    union = len(left | right)
    return len(left & right) / union if union else 0.0


@dataclasses.dataclass(frozen=True)
class BandCurve:
    """How likely `bands` bands of `rows` rows propose a pair of a given similarity."""

    bands: int
    rows: int

    def detection(self, similarity: float) -> float:
        """Probability 1 - (1 - s^r)^b that a pair of this Jaccard index is proposed."""
        if not 0 <= similarity <= 1:
            raise InvalidStatisticInput("similarity must lie between 0 and 1")
        missed = 1 - similarity**self.rows
        return 1.0 if missed <= 0 else -math.expm1(self.bands * math.log(missed))

    @property
    def half_point(self) -> float:
        """Similarity at which half of the pairs are proposed."""
        return float((1 - 0.5 ** (1 / self.bands)) ** (1 / self.rows))

    @property
    def approximate_threshold(self) -> float:
        """The usual rule of thumb (1/b)^(1/r): not a guarantee."""
        return float((1 / self.bands) ** (1 / self.rows))


def choose_bands(threshold: float, *, permutations: int = PERMUTATIONS, recall: float = WANTED_RECALL) -> BandCurve:
    """The most selective bands that still propose pairs at `threshold` with probability `recall` or more."""
    if not 0 < threshold <= 1:
        raise InvalidStatisticInput("the threshold must lie in (0, 1]")
    for rows in range(min(permutations, 32), 0, -1):
        curve = BandCurve(permutations // rows, rows)
        if curve.detection(threshold) >= recall:
            return curve
    return BandCurve(permutations, 1)


@dataclasses.dataclass(frozen=True)
class DuplicateGroups:
    """Connected components of near-duplicates.

    `group[i]` numbers the group of text i in order of first appearance; `pairs` are the confirmed pairs (i, j, Jaccard)
    of distinct normalised texts. Flag `large_component` when one group holds over 5% of at least 40 texts: raise the
    threshold.
    """

    group: tuple[int, ...]
    pairs: tuple[tuple[int, int, float], ...]
    shingle_words: int
    threshold: float
    largest: int
    flags: tuple[str, ...] = ()


class _Components:
    def __init__(self, n: int) -> None:
        self._parent = list(range(n))

    def find(self, i: int) -> int:
        while self._parent[i] != i:
            self._parent[i] = self._parent[self._parent[i]]
            i = self._parent[i]
        return i

    def join(self, i: int, j: int) -> None:
        a, b = self.find(i), self.find(j)
        if a != b:
            self._parent[max(a, b)] = min(a, b)

    def numbers(self) -> tuple[int, ...]:
        order: dict[int, int] = {}
        return tuple(order.setdefault(self.find(i), len(order)) for i in range(len(self._parent)))


def _largest(group: Sequence[int]) -> tuple[int, tuple[str, ...]]:
    largest = int(np.bincount(np.asarray(group, dtype=np.int64)).max()) if group else 0
    large = len(group) >= 40 and largest > LARGE_COMPONENT * len(group)
    return largest, ("large_component",) if large else ()


def near_duplicates(
    texts: Sequence[str],
    *,
    threshold: float = DEFAULT_THRESHOLD,
    shingle_words: int | None = None,
    seed: int = 1,
) -> DuplicateGroups:
    """Group texts whose shingles have a Jaccard index of at least `threshold`, chained.

    Texts equal after normalisation are always together; every empty text is alone. `shingle_words` None: by the
    lengths of the texts. Pairs at the threshold are proposed with probability 0.99 or more.
    """
    words = shingle_length(texts) if shingle_words is None else shingle_words
    components = _Components(len(texts))
    first: dict[str, int] = {}
    for i, text in enumerate(texts):
        key = normalise(text)
        if key:
            components.join(first.setdefault(key, i), i)
    distinct = list(first.values())
    sets = {i: shingles(texts[i], words) for i in distinct}
    pairs = []
    for i, j in _proposed(distinct, sets, threshold, seed):
        similarity = jaccard(sets[i], sets[j])
        if similarity >= threshold - 1e-12:
            pairs.append((i, j, similarity))
            components.join(i, j)
    group = components.numbers()
    largest, flags = _largest(group)
    return DuplicateGroups(group, tuple(sorted(pairs)), words, threshold, largest, flags)


_ALL_PAIRS_UP_TO = 60


def _proposed(
    distinct: Sequence[int], sets: Mapping[int, frozenset[str]], threshold: float, seed: int
) -> Iterable[tuple[int, int]]:
    if len(distinct) <= _ALL_PAIRS_UP_TO:
        yield from ((i, j) for place, i in enumerate(distinct) for j in distinct[place + 1 :])
        return
    from datasketch import MinHash, MinHashLSH

    curve = choose_bands(threshold)
    index = MinHashLSH(num_perm=PERMUTATIONS, params=(curve.bands, curve.rows))
    for i in distinct:
        signature = MinHash(num_perm=PERMUTATIONS, seed=seed)
        signature.update_batch([shingle.encode() for shingle in sets[i]])
        for j in index.query(signature):
            yield int(j), i
        index.insert(i, signature)


def long_enough(text: str) -> bool:
    """Whether a text says enough to tie cases together: five words, or as many letters of a script without spaces."""
    if len(text.split()) >= MIN_ANSWER_WORDS:
        return True
    return sum("\u2e80" <= letter <= "\ud7ff" for letter in text) >= 3 * MIN_ANSWER_WORDS


def group_cases(
    prompts: Sequence[str],
    answers: Sequence[Sequence[str]] = (),
    *,
    sources: Sequence[Sequence[str]] | None = None,
    given: Sequence[Hashable | None] | None = None,
    threshold: float = DEFAULT_THRESHOLD,
    seed: int = 1,
) -> DuplicateGroups:
    """Groups of whole cases: near-duplicate prompts, answers or source texts, or the same `given` group.

    `sources` holds, for each case, the texts it was made from: cases that share one near-duplicate are together.

    `answers` holds one list per answer position, each with one text a case; duplicates are looked for across positions,
    so mirrored pairs are found. Answers under 5 words are not compared: every "Yes." would chain its cases. `pairs`
    are left empty.
    """
    n = len(prompts)
    if sources is not None and len(sources) != n:
        raise InvalidStatisticInput("sources must have one entry for each case")
    if any(len(column) != n for column in answers) or (given is not None and len(given) != n):
        raise InvalidStatisticInput("answers and given groups must have one entry for each case")
    components = _Components(n)

    def join_all(numbers: Sequence[int], cases: Sequence[int]) -> None:
        first: dict[int, int] = {}
        for number, case in zip(numbers, cases, strict=True):
            components.join(first.setdefault(number, case), case)

    found = near_duplicates(prompts, threshold=threshold, seed=seed)
    join_all(found.group, range(n))
    texts, cases = [], []
    for column in answers:
        for case, text in enumerate(column):
            if long_enough(text):
                texts.append(text)
                cases.append(case)
    join_all(near_duplicates(texts, threshold=threshold, seed=seed).group, cases)
    if sources is not None:
        held = [(case, text) for case, own in enumerate(sources) for text in own if long_enough(text)]
        alike = near_duplicates([text for _, text in held], threshold=threshold, seed=seed)
        join_all(alike.group, [case for case, _ in held])
    if given is not None:
        first: dict[Hashable, int] = {}
        for case, name in enumerate(given):
            if name is not None:
                components.join(first.setdefault(name, case), case)
    group = components.numbers()
    largest, flags = _largest(group)
    return DuplicateGroups(group, (), found.shingle_words, threshold, largest, flags)


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
