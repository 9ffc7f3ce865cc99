"""Cuts a text into sentences that restore it exactly.

Owns the repair rules around sentencex, which finds the boundaries (Wikimedia's segmenter: kept up, fast, loses no
character; pysbd, tried first, cuts German ordinals, drops leading space and takes quadratic time).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from sentencex import get_sentence_boundaries

from rubrics.texts import says_nothing


def _words(*lists: str) -> frozenset[str]:
    return frozenset(" ".join(lists).split())


_MONTHS = _words(
    "jan feb mar mär apr mai may jun jul aug sep okt oct nov dez dec "  # German, Scandinavian, English
    "januar februar märz maart april juni juli august augustus september oktober november dezember "
    "januari februari mei marts desember december tammikuu helmikuu "
    "ledna února března dubna května června července srpna září října listopadu prosince"
)
_ORDINAL_LEADS = _words(
    "am der die das dem den des im vom zum zur beim bis ab seit und oder in ins ein eine einen einem einer eines "
    "jeder jede jedes jeden dieser diese dieses diesen mein sein ihr unser auf nach vor aus mit von für gegen "
    "den det de en et i på fra til og"
)
_ABBREVIATIONS = _words(
    "bzw bspw usw evtl ggf inkl exkl zzgl abzgl ca vgl sog geb gest hrsg aufl bd nr str tel abb abs art kap ebd "
    "mme mlle mgr sig sra srta dott ing avv prof dr mr mrs ms st sr jr dipl phil med jur rer nat habil "
    "e.g i.e cf vs approx esp resp ibid op fig figs eq eqs sec ch vol pp p no nos ed eds al etc "
    "z.b d.h u.a o.ä u.ä i.d.r z.t s.o s.u v.a m.e bzgl p.ej pág págs núm aprox ej "
    "jan feb apr jun jul aug sep sept oct okt nov dec dez"
)
# These also end sentences, so only a following lower-case letter or digit shows that they do not.
_CLOSING = _words(
    "usw etc al no nos str st jr sr ed eds ch art abs p pp sec ca i.d.r nat med jur phil fig figs eq eqs vol op bd nr "
    "abb kap tel jan feb apr jun jul aug sep sept oct okt nov dec dez u.a s.o s.u v.a geb gest ej"
)

_ORDINAL = re.compile(r"(?:^|\s|[(\[\"'„“«])(?:(?P<lead>[^\W\d_]+)\s+)?\d{1,3}\.\s*$")
_LAST_WORD = re.compile(r"([^\W\d_][\w.]*)\.$")
_FIRST_WORD = re.compile(r"[^\W\d_]+")
_PORTION = 10_000
_MAY_END = re.compile(r"[.!?]\s+|[。！？]")
_LIST_NUMBER = re.compile(r"[ \t]*(?:\d{1,3}|[^\W\d_])[.)]")


@dataclass(frozen=True, slots=True)
class Sentence:
    """`text` = `source[start:end]` without white space at its ends. `id` is s1, s2 ... in order."""

    id: str
    start: int
    end: int
    text: str


def split_pieces(text: str) -> list[str]:
    """Pieces of `text`, one sentence each with the white space around it; joined they are exactly `text`."""
    pieces: list[str] = []
    for paragraph in _paragraphs(text):
        cuts = [boundary["start_index"] for boundary in get_sentence_boundaries("en", paragraph)]
        # Guarded: whatever the library says, the pieces restore the text.
        edges = [0, *sorted({cut for cut in cuts if 0 < cut < len(paragraph)}), len(paragraph)]
        fresh = True
        for start, end in pairwise(edges):
            piece = paragraph[start:end]
            if pieces and (
                (not fresh and _belongs(pieces[-1], piece)) or says_nothing(piece) or says_nothing(pieces[-1])
            ):
                pieces[-1] += piece
            else:
                pieces.append(piece)
            fresh = False
    return pieces


def _paragraphs(text: str) -> list[str]:
    # A new paragraph, list item, heading or table row starts a sentence whatever stands before it; a single line
    # break inside running text does not.
    parts = re.split(
        r"(?<=\n)(?=[ \t]*\r?\n|[ \t]*(?:[-*+•‣–—]|\d{1,3}[.)]|#{1,6}|>|\|)[ \t])|(?<=[\u2028\u2029])", text
    )
    return [chunk for part in parts for chunk in _chunks(part)]


def _chunks(part: str) -> Iterator[str]:
    # The library's time grows with the square of odd text (180,000 brackets and backticks: 3.6 s), so a part that no
    # prose reaches is handed over in portions that end where a sentence may.
    while len(part) > _PORTION:
        ends = [match.end() for match in _MAY_END.finditer(part, _PORTION // 2, _PORTION)]
        at = ends[-1] if ends else _PORTION
        yield part[:at]
        part = part[at:]
    if part:
        yield part


def _belongs(previous: str, piece: str) -> bool:
    """Was the cut between two neighbours none? Then they are one sentence."""
    # Only the end of it is looked at: each pattern searched through every sentence would cost more than the cuts.
    ended = previous.rstrip()
    if ended.endswith((".", ")")) and _LIST_NUMBER.fullmatch(ended.rpartition("\n")[2]):
        return True
    if not ended.endswith("."):
        return False
    first = _FIRST_WORD.match(piece.lstrip())
    following = first[0] if first else ""
    if ended[-2:-1].isdigit() and (ordinal := _ORDINAL.search(previous)):
        lead = (ordinal["lead"] or "").lower()
        return following.lower() in _MONTHS or lead in _ORDINAL_LEADS or following[:1].islower()
    word = _LAST_WORD.search(ended.rsplit(None, 1)[-1])
    if word is None:
        return False
    token = word[1].lower()
    starts_small = following[:1].islower() or piece.lstrip()[:1].isdigit()
    return token in _ABBREVIATIONS and (starts_small or token not in _CLOSING)


def split_sentences(text: str) -> tuple[Sentence, ...]:
    """The sentences of `text` with ids and offsets; pieces without a letter or digit belong to their neighbour."""
    sentences: list[Sentence] = []
    position = 0
    for piece in split_pieces(text):
        stripped = piece.strip()
        start = position + len(piece) - len(piece.lstrip())
        if stripped:
            sentences.append(Sentence(f"s{len(sentences) + 1}", start, start + len(stripped), stripped))
        position += len(piece)
    return tuple(sentences)
