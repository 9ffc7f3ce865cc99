"""Reads citation markers in an answer and gives each to the statement it belongs to.

Owns the grammar of markers: `[1]`, `[1][2]`, `[1, 3]`, `[2-4]` with any dash, before or after the full stop; not in
code, not with escaped brackets. Knows nothing of what the sources say.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from rubrics.sentences import split_sentences
from rubrics.texts import says_nothing

MAX_RANGE = 100
"""Longest range that is expanded; a longer one names no source anybody gave."""

_DASH = "-\u2010\u2011\u2012\u2013\u2014\u2212"
_ITEM = rf"\d{{1,18}}(?:\s*[{_DASH}]\s*\d{{1,18}})?"
_MARKER = re.compile(rf"[\[【]\s*({_ITEM}(?:\s*[,;]\s*{_ITEM})*)\s*[\]】]")
_DEFINITION = re.compile(r"^[ \t]*\[\d{1,18}\]:[ \t]\S.*$", re.MULTILINE)
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)


class MarkerStatus(StrEnum):
    """Can the marker be read? `malformed`: a reversed range. `out_of_range`: a range too long to mean sources."""

    READ = "read"
    MALFORMED = "malformed_citation"
    OUT_OF_RANGE = "out_of_range"


@dataclass(frozen=True, slots=True)
class Marker:
    """One marker: `text` = `answer[start:end]`, and the source numbers it names, in order, each once."""

    start: int
    end: int
    text: str
    sources: tuple[int, ...]
    status: MarkerStatus


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence of an answer without its markers. `answer[start:end]` is the sentence as it stands there.

    `sources` are the numbers that its markers name, in order, each once.
    """

    id: str
    text: str
    start: int
    end: int
    markers: tuple[Marker, ...] = ()

    @property
    def sources(self) -> tuple[int, ...]:
        """Source numbers named by the statement's markers, in order, each once."""
        return tuple(dict.fromkeys(number for marker in self.markers for number in marker.sources))


def find_markers(text: str) -> tuple[Marker, ...]:
    """Every citation marker of `text`, in order."""
    code = list(_code(text))
    starts = [start for start, _ in code]
    markers = []
    for match in _MARKER.finditer(text):
        inside = bisect_right(starts, match.start()) - 1
        if inside >= 0 and match.start() < code[inside][1]:
            continue
        if _escaped(text, match.start()) or _is_definition(text, match):
            continue
        markers.append(_marker(match))
    return tuple(markers)


def _marker(match: re.Match[str]) -> Marker:
    sources: dict[int, None] = {}
    status = MarkerStatus.READ
    for item in re.split(r"[,;]", match[1]):
        first, *rest = (int(number) for number in re.findall(r"\d+", item))
        last = rest[0] if rest else first
        if last < first:
            status = MarkerStatus.MALFORMED
        elif last - first >= MAX_RANGE:
            status = MarkerStatus.OUT_OF_RANGE
        else:
            sources.update(dict.fromkeys(range(first, last + 1)))
    return Marker(match.start(), match.end(), match[0], tuple(sources), status)


def _escaped(text: str, position: int) -> bool:
    slashes = 0
    while position > slashes and text[position - slashes - 1] == "\\":
        slashes += 1
    return slashes % 2 == 1


def _is_definition(text: str, match: re.Match[str]) -> bool:
    """`[1]: address` at the start of a line defines a link, `![1](address)` shows a picture; neither cites."""
    line = text.rfind("\n", 0, match.start()) + 1
    if text[match.end() : match.end() + 1] == ":" and not text[line : match.start()].strip():
        return True
    return text[match.start() - 1 : match.start()] == "!" and text[match.end() : match.end() + 1] == "("


def _code(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of Markdown code: fenced blocks, then spans between equal runs of backticks outside of them."""
    position = 0
    fence: tuple[int, str] | None = None
    for match in _FENCE.finditer(text):
        if fence is None:
            yield from _code_spans(text, position, match.start())
            fence = match.start(), match[1]
        elif match[1][0] == fence[1][0] and len(match[1]) >= len(fence[1]):
            yield fence[0], match.end()
            position, fence = match.end(), None
    if fence is not None:
        yield fence[0], len(text)
    else:
        yield from _code_spans(text, position, len(text))


def _code_spans(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    runs = [(run.start(), run.end()) for run in re.compile("`+").finditer(text, start, end)]
    later: dict[int, list[int]] = {}
    for index, (left, right) in enumerate(runs):
        later.setdefault(right - left, []).append(index)
    position = 0
    while position < len(runs):
        left, right = runs[position]
        same = later[right - left]
        following = bisect_right(same, position)
        if following == len(same):
            position += 1
            continue
        yield left, runs[same[following]][1]
        position = same[following] + 1


def split_statements(answer: str) -> tuple[Statement, ...]:
    """The answer's sentences with the markers that belong to each.

    A marker after a full stop belongs to the sentence before it on the same line; at the start of a line, to the one
    that follows.
    """
    markers = find_markers(answer)
    clean, origins, places = _without(answer, markers)
    sentences = [sentence for sentence in split_sentences(clean) if not says_nothing(sentence.text)]
    owned: dict[int, list[Marker]] = {}
    if sentences:
        starts = [sentence.start for sentence in sentences]
        for marker, place in zip(markers, places, strict=True):
            # The last sentence that begins before the marker.
            index = max(bisect_right(starts, place - 1) - 1, 0)
            gap = clean[sentences[index].end : place]
            if "\n" in gap and index + 1 < len(sentences):
                index += 1
            owned.setdefault(index, []).append(marker)
    statements = []
    for index, sentence in enumerate(sentences):
        text = re.sub(r"[ \t]+(?=[.,;:!?。！？]|$)|(?<=[ \t])[ \t]+", "", sentence.text)
        statements.append(
            Statement(
                id=f"s{index + 1}",
                text=text,
                start=origins[sentence.start],
                end=origins[sentence.end - 1] + 1,
                markers=tuple(owned.get(index, ())),
            )
        )
    return tuple(statements)


def _without(answer: str, markers: tuple[Marker, ...]) -> tuple[str, list[int], list[int]]:
    """The answer without markers and definitions of links, where each of its characters stood, and where each marker
    was taken out.
    """
    pieces: list[str] = []
    origins: list[int] = []
    places: list[int] = []
    cuts = [(marker.start, marker.end, True) for marker in markers]
    cuts.extend((match.start(), match.end(), False) for match in _DEFINITION.finditer(answer))
    position = length = 0
    for start, end, is_marker in (*sorted(cuts), (len(answer), len(answer), False)):
        if start < position:
            # A marker inside a link's definition went with it.
            if is_marker:
                places.append(length)
            continue
        pieces.append(answer[position:start])
        origins.extend(range(position, start))
        length += start - position
        if is_marker:
            places.append(length)
        position = end
    return "".join(pieces), origins, places


def restrict(statement: Statement, known: frozenset[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The statement's source numbers that exist, and those that do not."""
    sources = statement.sources
    return tuple(n for n in sources if n in known), tuple(n for n in sources if n not in known)
