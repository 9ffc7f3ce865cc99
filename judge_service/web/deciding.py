"""The fields of a final word: what may be decided about a case, and the entries of its form as an answer.

Fields: `q.<question>`, `a.<item>.<question>`, `p.<item>.<question>.<passage>`. Knows no HTTP and no database.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from judge_service.annotation.adjudication import Opinion, ToAdjudicate
from judge_service.annotation.checking import asked
from judge_service.annotation.shapes import Answer, Form, Item, ItemAnswer, Question
from rubrics.texts import says_nothing

_ORIGINS = ("edited", "merged", "added")


@dataclass(frozen=True, slots=True)
class Candidate:
    """An item that may be decided. One that was not proposed may be left out, and covers those it came from."""

    item: ItemAnswer
    title: str
    questions: tuple[Question, ...]
    required: tuple[str, ...]
    passages: tuple[str, ...] = ()

    @property
    def proposed(self) -> bool:
        """True for an item of the form itself."""
        return self.item.origin == "proposed"


def candidates(shown: ToAdjudicate) -> tuple[Candidate, ...]:
    """The items of the form, then what people wrote themselves where they may, each wording once."""
    form = shown.form
    found = [_proposed(form, item) for item in form.items]
    if not form.items_editable:
        return tuple(found)
    seen = {one.item.text for one in found}
    names = {item.id for item in form.items}
    for given in _written(shown.opinions):
        text = str(given.get("text", ""))
        if text in seen or says_nothing(text) or given.get("origin") not in _ORIGINS:
            continue
        seen.add(text)
        sources = [name for name in (given.get("id"), *given.get("from_ids", ())) if name in names]
        made = ItemAnswer(
            id=f"w{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}",
            text=text,
            origin=given["origin"],
            from_ids=tuple(dict.fromkeys(sources)),
        )
        required = tuple(question.id for question in form.item_questions if question.required)
        title = f"{form.item_noun.capitalize()} as somebody {'joined' if made.origin == 'merged' else made.origin} it"
        found.append(Candidate(made, title, form.item_questions, required))
    return tuple(found)


def _proposed(form: Form, item: Item) -> Candidate:
    questions = tuple(question for question in form.item_questions if question.id in item.asks)
    return Candidate(ItemAnswer(id=item.id, text=item.text), item.title, questions, item.required, item.passages)


def _written(opinions: Iterable[Opinion]) -> Iterable[Mapping[str, Any]]:
    for opinion in opinions:
        yield from (opinion.items or {}).get("items", ())


def field_names(form: Form, items: Iterable[Candidate]) -> list[str]:
    """Every field that the page may send."""
    names = [f"q.{question.id}" for question in form.questions]
    for one in items:
        for question in one.questions:
            if question.per_passage:
                names += [f"p.{one.item.id}.{question.id}.{passage}" for passage in one.passages]
            else:
                names.append(f"a.{one.item.id}.{question.id}")
    return names


def answer_of(form: Form, items: Iterable[Candidate], said: Mapping[str, str]) -> tuple[Answer, list[tuple[str, str]]]:
    """The answer that the entries give, and what is missing: the field and a sentence.

    Answers to questions that are not asked after all are left out, and so are written items without an answer.
    """
    kept: list[ItemAnswer] = []
    gaps: list[tuple[str, str]] = []
    open_items: list[Candidate] = []
    for one in items:
        decided = _decided(one, said)
        if not decided.answers and not decided.passages and (form.items_editable or not one.required):
            open_items += [one] if one.proposed and form.items_editable else []
            continue
        missing = [name for name in one.required if name not in decided.answers]
        gaps += [(f"a.{one.item.id}.{name}", f"{one.title} has no answer.") for name in missing]
        kept.append(decided)
    covered = {name for item in kept for name in item.from_ids}
    gaps += [
        (f"a.{one.item.id}.{one.questions[0].id}", f"{one.title} has no answer.")
        for one in open_items
        if one.item.id not in covered
    ]
    given = {question.id: said[f"q.{question.id}"] for question in form.questions if said[f"q.{question.id}"]}
    wanted = [question for question in form.questions if asked(question, given, kept)]
    gaps += [
        (f"q.{question.id}", f"{question.text} Choose an answer.")
        for question in wanted
        if question.required and question.id not in given
    ]
    answers = {question.id: given[question.id] for question in wanted if question.id in given}
    return Answer(answers=answers, items=tuple(kept)), gaps


def _decided(one: Candidate, said: Mapping[str, str]) -> ItemAnswer:
    answers: dict[str, str] = {}
    passages: dict[str, dict[str, str]] = {}
    for question in one.questions:
        if question.per_passage:
            named = {name: said[f"p.{one.item.id}.{question.id}.{name}"] for name in one.passages}
            if any(named.values()):
                passages[question.id] = {name: value for name, value in named.items() if value}
        elif value := said[f"a.{one.item.id}.{question.id}"]:
            answers[question.id] = value
    return one.item.model_copy(update={"answers": answers, "passages": passages})


def words_of(form: Form, value: str | None) -> str:
    """A label as its button names it; one that no button has in plain words."""
    if value is None:
        return "Cannot tell"
    for question in (*form.questions, *form.item_questions):
        for choice in question.choices:
            if choice.value == value:
                return choice.text
    text = value.replace("_", " ")
    return text[:1].upper() + text[1:]
