"""What the labelling page shows of a case: texts with their language, items, and groups of choices in their order.

One view for every rubric. Knows no HTTP and no store; holds nothing that `ShownCase` does not.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup, escape

from judge_service.annotation.labelling import ShownCase
from judge_service.annotation.shapes import Answer, Choice, Draft, Evidence, Form, Item, ItemAnswer, Question, Text
from judge_service.domain.calibration_set import LabelCondition
from judge_service.errors import FieldProblem
from judge_service.visible import pieces

_SAMPLE = 2000
_LANGUAGES = {
    "HIRAGANA": "ja",
    "KATAKANA": "ja",
    "HANGUL": "ko",
    "CJK": "zh",
    "THAI": "th",
    "HEBREW": "he",
    "GREEK": "el",
    "ARABIC": "und-Arab",
    "CYRILLIC": "und-Cyrl",
    "DEVANAGARI": "und-Deva",
}
"""By the first word of a letter's Unicode name. A script of many languages names itself, so that a font fits."""


def language_of(text: str) -> str | None:
    """The BCP 47 tag that the letters tell, None for Latin and others that tell too little."""
    counts: Counter[str | None] = Counter()
    for letter in text[:_SAMPLE]:
        if letter.isalpha():
            counts[_LANGUAGES.get(unicodedata.name(letter, "").split(" ")[0].split("-")[0])] += 1
    if not counts:
        return None
    # Japanese is written with Chinese characters too: any kana beside them decides.
    if counts["ja"] and counts["ja"] * 10 >= counts["zh"]:
        counts["ja"] += counts.pop("zh", 0)
    return counts.most_common(1)[0][0]


def exact(text: str) -> Markup:
    """Text as HTML that a browser gives back character for character, so that places in it can be counted there.

    A misleading character stands in an element of its own, which shows how it is written.
    """
    return Markup("").join(
        _escaped(piece)
        if code is None
        else Markup('<bdi class="odd" data-code="{}">{}</bdi>').format(code, _escaped(piece))
        for piece, code in pieces(text)
        if piece
    )


def _escaped(text: str) -> Markup:
    # HTML knows neither of the first two, and readers change the third.
    safe = re.sub("[\x00\ud800-\udfff]", "\ufffd", text)
    return Markup(str(escape(safe)).replace("\r", "&#13;"))  # noqa: S704  # escaped in this line


@dataclass(frozen=True, slots=True)
class ShownChoice:
    """One radio of a group."""

    value: str
    text: str
    description: str
    key: str | None
    chosen: bool


@dataclass(frozen=True, slots=True)
class Group:
    """One fieldset. `path` is how a problem names it, `name` the field, `item` the id of the item it is about.

    `when`: question and values that make it asked, `of_items` when they may be any item's.
    """

    id: str
    name: str
    path: str
    legend: str
    text: str | None
    choices: tuple[ShownChoice, ...]
    required: bool
    gap: str
    question: str
    item: str | None = None
    item_title: str | None = None
    evidence: bool = False
    when: str | None = None
    values: tuple[str, ...] = ()
    of_items: bool = False

    @property
    def said(self) -> str | None:
        """The words of what is chosen."""
        return next((choice.text for choice in self.choices if choice.chosen), None)

    @property
    def described(self) -> bool:
        """True where a choice needs more words than its name."""
        return self.item is None and any(choice.description for choice in self.choices)


@dataclass(frozen=True, slots=True)
class Quote:
    """One piece of evidence."""

    place: str
    title: str
    quote: str


@dataclass(frozen=True, slots=True)
class Row:
    """One item. `source` is `<text>:<start>:<end>`; `original` the proposed text where it was changed."""

    id: str
    title: str
    text: str
    origin: str
    from_ids: tuple[str, ...]
    source: str
    passages: tuple[str, ...]
    cited: str
    quotes: tuple[Quote, ...]
    groups: tuple[Group, ...]
    takes_evidence: bool

    @property
    def said(self) -> str:
        """What was answered of it, in words; empty for nothing."""
        return ", ".join(group.said for group in self.groups if group.said is not None)

    @property
    def open(self) -> bool:
        """True while a required answer is missing."""
        return any(group.required and group.said is None for group in self.groups)


@dataclass(frozen=True, slots=True)
class ShownText:
    """One text with its language, where the letters tell it."""

    id: str
    role: str
    title: str
    text: Markup
    language: str | None


@dataclass(frozen=True, slots=True)
class View:
    """A case as the page draws it.

    `layout`: `pair`, `items` (answer and items beside contexts), `sides` or `single`. `problems` are ids of elements
    and what is wrong with each.
    """

    shown: ShownCase
    form: Form
    layout: str
    top: tuple[ShownText, ...]
    left: tuple[ShownText, ...]
    right: tuple[ShownText, ...]
    rows: tuple[Row, ...]
    groups: tuple[Group, ...]
    note: str
    version: int
    draft_version: int
    problems: tuple[tuple[str, str], ...] = ()
    wrong: frozenset[str] = field(default_factory=frozenset)

    @property
    def assisted(self) -> bool:
        """True where verdicts of judges are shown and every label says so."""
        return self.shown.condition is LabelCondition.ASSISTED

    @property
    def position(self) -> str:
        """How far the person is."""
        return position(self.shown)


def position(shown: ShownCase) -> str:
    """Such as "Case 38 of 120"."""
    return f"Case {shown.number} of {shown.of}"


def view_of(
    shown: ShownCase,
    *,
    answer: Answer | None = None,
    note: str | None = None,
    version: int | None = None,
    problems: Sequence[FieldProblem] = (),
) -> View:
    """The view of a case with `answer` filled in: what was just sent, else the draft, else the saved one."""
    form = shown.form
    kept = Draft.model_validate(shown.draft or shown.saved or {})
    said = kept if answer is None else answer
    rows = _rows(form, said)
    groups: list[Group] = []
    for row in rows:
        groups += row.groups
    for question in form.questions:
        groups.append(_case_group(len(groups), question, said))
    layout, top, left, right = _layout(form)
    paths = {group.path: group.id for group in groups}
    anchors = tuple((_anchor(problem.path, paths, rows), problem.message) for problem in problems)
    return View(
        shown=shown,
        form=form,
        layout=layout,
        top=top,
        left=left,
        right=right,
        rows=rows,
        groups=tuple(groups),
        note=(note if note is not None else kept.note if kept.note is not None else shown.note) or "",
        version=shown.version if version is None else version,
        draft_version=shown.draft_version,
        problems=anchors,
        wrong=frozenset(anchor for anchor, _ in anchors),
    )


def in_words(form: Form, answer: Answer) -> list[str]:
    """An answer as short sentences, for two to be told apart."""
    rows = _rows(form, answer)
    found = [f"{row.title}: {row.said or 'no answer'}" for row in rows]
    groups = [_case_group(0, question, answer) for question in form.questions]
    single = len(form.questions) == 1 and not rows
    return found + [
        group.said if single else f"{group.legend} {group.said}" for group in groups if group.said is not None
    ]


def _layout(form: Form) -> tuple[str, tuple[ShownText, ...], tuple[ShownText, ...], tuple[ShownText, ...]]:
    texts = [_text(text) for text in form.texts]
    answers = tuple(text for text in texts if text.role == "answer")
    contexts = tuple(text for text in texts if text.role == "context")
    if form.kind == "pairwise":
        return "pair", tuple(text for text in texts if text.id not in ("first", "second")), answers, ()
    others = tuple(text for text in texts if text.role not in ("answer", "context"))
    if form.item_questions:
        return "items", others, answers, contexts
    if answers and contexts:
        return "sides", others, answers, contexts
    return "single", (*others, *contexts), answers, ()


def _text(text: Text) -> ShownText:
    return ShownText(text.id, text.role, text.title, exact(text.text), language_of(text.text))


def _choices(choices: Sequence[Choice], value: str | None) -> tuple[ShownChoice, ...]:
    return tuple(
        ShownChoice(one.value, one.text, one.description, one.key, chosen=one.value == value) for one in choices
    )


def _case_group(number: int, question: Question, said: Answer) -> Group:
    when = question.when
    return Group(
        id=f"g{number}",
        name=f"q.{question.id}",
        path=f"answers.{question.id}",
        legend=question.text,
        text=None,
        choices=_choices(question.choices, said.answers.get(question.id)),
        required=question.required,
        gap=f"{question.text} Choose an answer.",
        question=question.id,
        evidence=False,
        when=when.question if when is not None else None,
        values=when.values if when is not None else (),
        of_items=when is not None and when.item,
    )


def _given(form: Form, said: Answer) -> list[tuple[Item | None, ItemAnswer]]:
    """Each item with its answers: the proposed ones until a person changed the list, if only by emptying it."""
    proposed = {item.id: item for item in form.items}
    if form.items_editable and "items" in said.model_fields_set:
        return [(proposed.get(item.id), item) for item in said.items]
    answers = {item.id: item for item in said.items}
    return [(item, answers.get(item.id) or ItemAnswer(id=item.id, text=item.text)) for item in form.items]


def _rows(form: Form, said: Answer) -> tuple[Row, ...]:
    if not form.item_questions:
        return ()
    titles = {text.id: text.title for text in form.texts}
    short = {text.id: f"Context {text.id.removeprefix('ctx')}" for text in form.texts if text.role == "context"}
    rows: list[Row] = []
    count = 0
    for place, (proposed, item) in enumerate(_given(form, said)):
        # An added item is asked what every item is asked, but for what needs passages of its own.
        questions = [
            question
            for question in form.item_questions
            if (question.id in proposed.asks if proposed is not None else not question.per_passage)
        ]
        title = f"{form.item_noun.capitalize()} {place + 1}"
        passages = proposed.passages if proposed is not None else ()
        groups: list[Group] = []
        for question in questions:
            required = question.id in proposed.required if proposed is not None else question.required
            for passage in passages if question.per_passage else (None,):
                groups.append(_item_group(count, question, item, place, title, passage, short, required=required))
                count += 1
        source = proposed.source if proposed is not None else None
        rows.append(
            Row(
                id=item.id,
                title=title,
                text=item.text,
                origin=item.origin,
                from_ids=item.from_ids,
                source="" if source is None else f"{source.text}:{source.start}:{source.end}",
                passages=passages,
                cited=", ".join(short.get(name, name) for name in passages),
                quotes=tuple(_quote(one, titles) for one in item.evidence),
                groups=tuple(groups),
                takes_evidence=any(question.evidence for question in questions),
            )
        )
    return tuple(rows)


def _item_group(
    number: int,
    question: Question,
    item: ItemAnswer,
    place: int,
    title: str,
    passage: str | None,
    short: dict[str, str],
    *,
    required: bool,
) -> Group:
    if passage is None:
        value = item.answers.get(question.id)
        name, path = f"a.{item.id}.{question.id}", f"items[{place}].answers.{question.id}"
        legend = question.text
    else:
        value = item.passages.get(question.id, {}).get(passage)
        name = f"p.{item.id}.{question.id}.{passage}"
        path = f"items[{place}].passages.{question.id}.{passage}"
        legend = f"{question.text} {short.get(passage, passage)}"
    return Group(
        id=f"g{number}",
        name=name,
        path=path,
        legend=legend,
        text=item.text,
        choices=_choices(question.choices, value),
        required=required,
        gap=f"{title} has no answer.",
        question=question.id,
        item=item.id,
        item_title=title,
        evidence=question.evidence,
    )


def _quote(one: Evidence, titles: dict[str, str]) -> Quote:
    return Quote(f"{one.text}:{one.start}:{one.end}", titles.get(one.text, one.text), one.quote)


def _anchor(path: str, paths: dict[str, str], rows: Sequence[Row]) -> str:
    """The id of the element that a problem is about."""
    if path in paths:
        return paths[path]
    if path in ("note", "new", "reason"):
        return path
    for place, row in enumerate(rows):
        if path.startswith(f"items[{place}]") or path == f"text.{row.id}":
            return f"item-{row.id}"
    return "case"
