"""Near-duplicate texts, and cases that belong together because of them.

MinHash only proposes pairs; the exact Jaccard index of word shingles decides. Texts are looked at one after another and
not held: what stays of one is a hash and a key a band, so memory does not grow with their length.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import statistics
import unicodedata
from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from calibration.estimate import InvalidStatisticInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

DEFAULT_THRESHOLD = 0.8
PERMUTATIONS = 512
"""The standard error of a MinHash estimate is then at most 0.022."""

SHORT_TEXT_WORDS = 20
WANTED_RECALL = 0.99
LARGE_COMPONENT = 0.05
MIN_ANSWER_WORDS = 5
ALL_PAIRS_UP_TO = 60
"""Distinct texts up to which every pair is compared and nothing needs proposing."""
READ_AT_ONCE = 256
"""Proposed pairs whose texts are read together."""
REMEMBERED = 200_000
"""Pairs that were compared and differ: a pair may be proposed by many bands."""

Read = Callable[[Sequence[int]], Sequence[str]]
"""Texts by their numbers, in the order asked for."""


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
    return _words_for([len(text.split()) for text in texts])


def _words_for(lengths: Sequence[int]) -> int:
    return 2 if not lengths or statistics.median(lengths) < SHORT_TEXT_WORDS else 3


def jaccard(left: frozenset[str], right: frozenset[str]) -> float:
    """Shared over all shingles; two texts without any share nothing: 0."""
    union = len(left | right)
    return len(left & right) / union if union else 0.0


def long_enough(text: str) -> bool:
    """Whether a text says enough to tie cases together: five words, or as many letters of a script without spaces."""
    if len(text.split()) >= MIN_ANSWER_WORDS:
        return True
    return sum("\u2e80" <= letter <= "\ud7ff" for letter in text) >= 3 * MIN_ANSWER_WORDS


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


class Components:
    """Which of n things are joined, directly or through others."""

    def __init__(self, n: int) -> None:
        self._parent = list(range(n))

    def find(self, i: int) -> int:
        """One of the things that i is joined with: the same for all of them."""
        while self._parent[i] != i:
            self._parent[i] = self._parent[self._parent[i]]
            i = self._parent[i]
        return i

    def join(self, i: int, j: int) -> None:
        """Join i and j, and so all that they are joined with."""
        a, b = self.find(i), self.find(j)
        if a != b:
            self._parent[max(a, b)] = min(a, b)

    def numbers(self) -> tuple[int, ...]:
        """The number of each thing's component, in order of first appearance."""
        order: dict[int, int] = {}
        return tuple(order.setdefault(self.find(i), len(order)) for i in range(len(self._parent)))


def largest_of(group: Sequence[int]) -> tuple[int, tuple[str, ...]]:
    """Members of the largest group, and what to look at because of it."""
    largest = int(np.bincount(np.asarray(group, dtype=np.int64)).max()) if group else 0
    large = len(group) >= 40 and largest > LARGE_COMPONENT * len(group)
    return largest, ("large_component",) if large else ()


class TextIndex:
    """Texts of one kind, added one after another and numbered from 0; finds which are near-duplicates.

    Holds 16 bytes of hash a distinct text and 4 bytes a band. Texts equal after normalisation are one, whatever the
    seed; empty ones are nobody's duplicate. Pairs at the threshold are proposed with probability 0.99 or more.
    """

    def __init__(self, words: int, *, threshold: float = DEFAULT_THRESHOLD, seed: int = 1) -> None:
        from datasketch import MinHash

        self.words = words
        self.threshold = threshold
        self._curve = choose_bands(threshold)
        # Copied for each text: drawing the permutations takes longer than a signature.
        self._empty = MinHash(num_perm=PERMUTATIONS, seed=seed)
        width = self._curve.bands * self._curve.rows
        self._factors = np.random.default_rng(seed).integers(1, 2**63, size=width, dtype=np.uint64) | np.uint64(1)
        self._known: dict[bytes, int] = {}
        self._distinct = array("q")
        """The distinct text that each text is; -1 for an empty one."""
        self._holder = array("q")
        """A number of each distinct text."""
        self._keys = array("I")

    def __len__(self) -> int:
        """Texts so far, empty ones included."""
        return len(self._distinct)

    def add(self, text: str) -> int:
        """The number of this text."""
        number = len(self._distinct)
        normal = normalise(text)
        if not normal:
            self._distinct.append(-1)
            return number
        digest = hashlib.blake2b(normal.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        place = self._known.setdefault(digest, len(self._holder))
        self._distinct.append(place)
        if place == len(self._holder):
            self._holder.append(number)
            self._keys.frombytes(self._band_keys(text).tobytes())
        return number

    def _band_keys(self, text: str) -> NDArray[np.uint32]:
        signature = self._empty.copy()
        signature.update_batch([one.encode("utf-8", "surrogatepass") for one in shingles(text, self.words)])
        rows = signature.hashvalues[: self._factors.size].astype(np.uint64) * self._factors
        mixed = rows.reshape(self._curve.bands, self._curve.rows).sum(axis=1, dtype=np.uint64)
        keys: NDArray[np.uint32] = (mixed >> np.uint64(32)).astype(np.uint32)
        return keys

    def groups(self, read: Read) -> tuple[int, ...]:
        """The group of each text, numbered in order of first appearance; empty texts are alone."""
        joined = Components(len(self._holder))
        for _ in self._confirmed(read, joined, every=False):
            pass
        return self._numbers(joined)

    def pairs(self, read: Read) -> tuple[tuple[tuple[int, int, float], ...], tuple[int, ...]]:
        """Every confirmed pair (i, j, Jaccard) of distinct texts, and the groups."""
        joined = Components(len(self._holder))
        found = {(i, j): similarity for i, j, similarity in self._confirmed(read, joined, every=True)}
        return tuple((i, j, similarity) for (i, j), similarity in sorted(found.items())), self._numbers(joined)

    def _numbers(self, joined: Components) -> tuple[int, ...]:
        order: dict[int, int] = {}
        # An empty text has a key of its own.
        keys = (joined.find(place) if place >= 0 else -1 - number for number, place in enumerate(self._distinct))
        return tuple(order.setdefault(key, len(order)) for key in keys)

    def _confirmed(self, read: Read, joined: Components, *, every: bool) -> Iterator[tuple[int, int, float]]:
        """Pairs at the threshold or above, joined as they are found; without `every` those that join something new."""
        differ: set[tuple[int, int]] = set()
        proposed = self._proposed(joined, differ, every=every)
        sets: dict[int, frozenset[str]] = {}
        while chunk := list(islice(proposed, READ_AT_ONCE)):
            wanted = dict.fromkeys(place for pair in chunk for place in pair)
            missing = [place for place in wanted if place not in sets]
            texts = read([self._holder[place] for place in missing])
            sets = {place: kept for place, kept in sets.items() if place in wanted}
            sets.update((place, shingles(text, self.words)) for place, text in zip(missing, texts, strict=True))
            for i, j in chunk:
                if not every and joined.find(i) == joined.find(j):
                    continue
                similarity = jaccard(sets[i], sets[j])
                if similarity >= self.threshold - 1e-12:
                    joined.join(i, j)
                    yield self._holder[i], self._holder[j], similarity
                elif len(differ) < REMEMBERED:
                    differ.add((i, j))

    def _proposed(self, joined: Components, differ: set[tuple[int, int]], *, every: bool) -> Iterator[tuple[int, int]]:
        for bucket in self._buckets():
            for place, i in enumerate(bucket):
                if not every and len({joined.find(member) for member in bucket}) == 1:
                    break
                for j in bucket[place + 1 :]:
                    if (every or joined.find(i) != joined.find(j)) and (i, j) not in differ:
                        yield i, j

    def _buckets(self) -> Iterator[list[int]]:
        """Distinct texts that share a key, band by band, in ascending order."""
        n = len(self._holder)
        if n <= ALL_PAIRS_UP_TO:
            yield list(range(n))
            return
        keys = np.frombuffer(self._keys, dtype=np.uint32).reshape(n, self._curve.bands)
        for band in range(self._curve.bands):
            column = keys[:, band]
            order = np.argsort(column, kind="stable")
            ends = np.flatnonzero(np.diff(column[order])) + 1
            starts = np.concatenate(([0], ends))
            for start, end in zip(starts, np.append(ends, n), strict=True):
                if end - start > 1:
                    yield order[start:end].tolist()


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
    index = TextIndex(words, threshold=threshold, seed=seed)
    for text in texts:
        index.add(text)
    pairs, group = index.pairs(lambda numbers: [texts[number] for number in numbers])
    largest, flags = largest_of(group)
    return DuplicateGroups(group, pairs, words, threshold, largest, flags)


@dataclasses.dataclass(frozen=True, slots=True)
class CaseTexts:
    """What cases are compared by: the text that opens one, its answers by position, the texts it was made from."""

    prompt: str = ""
    answers: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


ReadCases = Callable[[Sequence[int]], Sequence[CaseTexts]]
"""Cases by their numbers, in the order asked for."""

_KINDS: dict[str, tuple[Callable[[CaseTexts], Sequence[str]], bool]] = {
    "prompts": (lambda case: (case.prompt,), True),
    "answers": (lambda case: case.answers, False),
    "sources": (lambda case: case.sources, False),
}
"""The texts of a case by kind, and whether short ones are compared: every "Yes." would chain its cases."""


def _texts_of(case: CaseTexts, kind: str) -> Iterator[tuple[int, str]]:
    of, short = _KINDS[kind]
    return ((place, text) for place, text in enumerate(of(case)) if short or long_enough(text))


class CaseLengths:
    """A first look at cases: how long their texts are decides how many words a shingle has."""

    def __init__(self) -> None:
        self._lengths = {kind: array("q") for kind in _KINDS}

    def add(self, case: CaseTexts) -> None:
        """Look at the next case."""
        for kind, lengths in self._lengths.items():
            lengths.extend(len(text.split()) for _, text in _texts_of(case, kind))

    def words(self) -> dict[str, int]:
        """Words a shingle, by kind of text."""
        return {kind: _words_for(lengths) for kind, lengths in self._lengths.items()}


class CaseIndex:
    """Cases, added one after another and numbered from 0, that belong together: near-duplicate texts, chained.

    Compares prompts, answers across positions (so mirrored pairs are found) and source texts, each kind by itself and
    only the `kinds` that are named. Answers and sources that say too little are not compared (`long_enough`).
    """

    def __init__(
        self,
        words: Mapping[str, int],
        *,
        kinds: Iterable[str] = tuple(_KINDS),
        threshold: float = DEFAULT_THRESHOLD,
        seed: int = 1,
    ) -> None:
        self.threshold = threshold
        self.words = dict(words)
        self._n = 0
        self._texts = {kind: TextIndex(words[kind], threshold=threshold, seed=seed) for kind in kinds}
        self._case = {kind: array("q") for kind in self._texts}
        self._place = {kind: array("q") for kind in self._texts}

    def add(self, case: CaseTexts) -> int:
        """The number of this case."""
        for kind, index in self._texts.items():
            for place, text in _texts_of(case, kind):
                index.add(text)
                self._case[kind].append(self._n)
                self._place[kind].append(place)
        self._n += 1
        return self._n - 1

    def groups(self, read: ReadCases, given: Sequence[Hashable | None] | None = None) -> DuplicateGroups:
        """Groups of the cases, chained with the groups they were `given`; `pairs` are left empty."""
        joined = Components(self._n)
        for kind, index in self._texts.items():
            _join(joined, index.groups(self._reader(kind, read)), self._case[kind])
        if given is not None:
            named = [(name, number) for number, name in enumerate(given) if name is not None]
            _join(joined, [name for name, _ in named], [number for _, number in named])
        group = joined.numbers()
        largest, flags = largest_of(group)
        return DuplicateGroups(group, (), self.words.get("prompts", 0), self.threshold, largest, flags)

    def _reader(self, kind: str, read: ReadCases) -> Read:
        of, _ = _KINDS[kind]
        owner, place = self._case[kind], self._place[kind]

        def texts(numbers: Sequence[int]) -> list[str]:
            cases = read([owner[number] for number in numbers])
            return [of(case)[place[number]] for number, case in zip(numbers, cases, strict=True)]

        return texts


def _join(joined: Components, names: Iterable[Hashable], members: Iterable[int]) -> None:
    first: dict[Hashable, int] = {}
    for name, member in zip(names, members, strict=True):
        joined.join(first.setdefault(name, member), member)


def group_cases(
    prompts: Sequence[str],
    answers: Sequence[Sequence[str]] = (),
    *,
    sources: Sequence[Sequence[str]] | None = None,
    given: Sequence[Hashable | None] | None = None,
    threshold: float = DEFAULT_THRESHOLD,
    seed: int = 1,
) -> DuplicateGroups:
    """Groups of whole cases that are in memory: near-duplicate prompts, answers or source texts, or one `given` group.

    `answers` holds one list per answer position, each with one text a case; `sources`, for each case, the texts it was
    made from. Compared as `CaseIndex` says. `pairs` are left empty.
    """
    n = len(prompts)
    if sources is not None and len(sources) != n:
        raise InvalidStatisticInput("sources must have one entry for each case")
    if any(len(column) != n for column in answers) or (given is not None and len(given) != n):
        raise InvalidStatisticInput("answers and given groups must have one entry for each case")
    cases = [
        CaseTexts(prompt, tuple(column[i] for column in answers), () if sources is None else tuple(sources[i]))
        for i, prompt in enumerate(prompts)
    ]
    lengths = CaseLengths()
    for case in cases:
        lengths.add(case)
    index = CaseIndex(lengths.words(), threshold=threshold, seed=seed)
    for case in cases:
        index.add(case)
    return index.groups(lambda numbers: [cases[number] for number in numbers], given)
