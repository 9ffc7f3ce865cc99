"""Reads a verdict's probability from the tokens of a reply.

The token at the verdict's own position counts, and its alternatives, normalised over the allowed labels. Values are
taken as the backend gives them, before any mask; the raw mass on the labels is kept as a health signal.
"""

import json
import math
from collections.abc import Mapping, Sequence
from json.decoder import scanstring  # type: ignore[attr-defined]

from judge_service.backends.base import TokenLogprob
from judge_service.judging.reading import ReadReply
from rubrics.model import LabelProbabilities, VerdictField

_DECODER = json.JSONDecoder()
_BLANK = " \t\r\n"
_CLOSING = '",}] \t\r\n'


def _skip(text: str, index: int) -> int:
    while index < len(text) and text[index] in _BLANK:
        index += 1
    return index


def locate(text: str, path: Sequence[str]) -> int | None:
    """Index in the JSON object `text` where the string value at `path` begins, after its quote; None if absent."""
    index = _skip(text, 0)
    for depth, wanted in enumerate(path):
        if index >= len(text) or text[index] != "{":
            return None
        index = _skip(text, index + 1)
        while True:
            if index >= len(text) or text[index] != '"':
                return None
            key, index = scanstring(text, index + 1, True)
            index = _skip(text, _skip(text, index) + 1)
            if key == wanted:
                break
            _, index = _DECODER.raw_decode(text, index)
            index = _skip(text, index)
            if text[index] != ",":
                return None
            index = _skip(text, index + 1)
        if depth == len(path) - 1:
            return index + 1 if text[index] == '"' else None
    return None


def _label_of(candidate: str, labels: Sequence[str]) -> str | None:
    """The one label that `candidate` begins, or begins with; None where there is none. ValueError if several."""
    found = [
        label
        for label in labels
        if label.startswith(candidate) or (candidate.startswith(label) and not candidate[len(label) :].strip(_CLOSING))
    ]
    if len(found) > 1:
        raise ValueError("labels share their first token")
    return found[0] if found else None


def _at(tokens: Sequence[TokenLogprob], offset: int) -> tuple[TokenLogprob, str] | None:
    position = 0
    for token in tokens:
        if position + len(token.token) > offset:
            return token, token.token[: offset - position]
        position += len(token.token)
    return None


def label_probabilities(token: TokenLogprob, lead: str, labels: Sequence[str]) -> LabelProbabilities | None:
    """Probabilities of `labels` at one token position, normalised to 1, with the raw mass they had.

    `lead` is what the token holds before the label begins. None when no label is among the alternatives, or
    when two labels begin with the same token, so that they cannot be told apart.
    """
    raw = dict.fromkeys(labels, 0.0)
    seen: set[str] = set()
    for text, logprob in ((token.token, token.logprob), *token.top):
        if text in seen or not text.startswith(lead) or math.isnan(logprob):
            continue
        seen.add(text)
        rest = text[len(lead) :] if lead else text.lstrip()
        if not rest:
            continue
        try:
            label = _label_of(rest, labels)
        except ValueError:
            return None
        if label is not None:
            raw[label] += math.exp(min(logprob, 0.0))
    mass = math.fsum(raw.values())
    if mass <= 0:
        return None
    return LabelProbabilities({label: value / mass for label, value in raw.items()}, min(mass, 1.0))


def read_probabilities(
    raw: str, read: ReadReply, verdicts: Mapping[str, VerdictField], tokens: Sequence[TokenLogprob] | None
) -> dict[str, LabelProbabilities]:
    """Probabilities of every verdict that can be located in the tokens; verdicts that cannot are left out.

    Tokens that do not spell the raw reply are not used: a position in them would mean nothing.
    """
    if not tokens:
        return {}
    spelled = "".join(token.token for token in tokens)
    shift = spelled.find(raw)
    if shift < 0:
        return {}
    result: dict[str, LabelProbabilities] = {}
    for name, field in verdicts.items():
        inner = 0 if not field.path else locate(raw[read.start : read.end], field.path)
        if inner is None:
            continue
        found = _at(tokens, shift + read.start + inner)
        if found is None:
            continue
        probabilities = label_probabilities(found[0], found[1], field.values)
        if probabilities is not None:
            result[name] = probabilities
    return result
