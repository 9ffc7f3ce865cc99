"""An answer as the fields of an HTML form: how they are read, and how lists of items are changed by buttons.

Names: `q.<question>`; `item` (once an item, in order), `text.<item>`, `from.<item>`, `a.<item>.<question>`,
`p.<item>.<question>.<passage>`, `e.<item>` (`<text>:<start>:<end>`). Knows no HTTP and no rubric.
"""

import re
from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from judge_service.annotation.checking import asked
from judge_service.annotation.shapes import ITEM_LENGTH, MOST_ITEMS, Answer, Evidence, Form, Item, ItemAnswer
from judge_service.errors import FieldProblem, InvalidInput

Fields = Mapping[str, Sequence[str]]
_PLACE = re.compile(r"([A-Za-z0-9_]{1,64}):([0-9]{1,9}):([0-9]{1,9})")
_ID = re.compile(r"[A-Za-z0-9_]{1,64}")


def one(fields: Fields, name: str) -> str:
    """The first value of a field, empty where there is none."""
    values = fields.get(name, ())
    return values[0] if values else ""


def _many_lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


def answer_of(form: Form, fields: Fields) -> Answer:
    """The answer in a form's fields, gaps allowed. Answers to questions that are not asked now are left out.

    Raises InvalidInput naming a field that the page never sends so.
    """
    items = tuple(_item(form, fields, identifier) for identifier in _ids(form, fields))
    said = {question.id: one(fields, f"q.{question.id}") for question in form.questions}
    given = {name: value for name, value in said.items() if value}
    kept = {question.id for question in form.questions if asked(question, given, items)}
    return Answer(answers={name: value for name, value in given.items() if name in kept}, items=items)


def _ids(form: Form, fields: Fields) -> list[str]:
    if not form.item_questions:
        return []
    found = list(dict.fromkeys(fields.get("item", ())))
    if len(found) > MOST_ITEMS or any(not _ID.fullmatch(identifier) for identifier in found):
        raise InvalidInput(fields=[FieldProblem("item", "item: this page did not send these.")])
    return found


def _item(form: Form, fields: Fields, identifier: str) -> ItemAnswer:
    proposed = next((item for item in form.items if item.id == identifier), None)
    sources = tuple(dict.fromkeys(one(fields, f"from.{identifier}").split()))
    text, origin = _wording(fields, identifier, proposed, merged=bool(sources))
    answers: dict[str, str] = {}
    passages: dict[str, dict[str, str]] = {}
    for question in form.item_questions:
        if question.per_passage:
            names = proposed.passages if proposed is not None else ()
            said = {name: one(fields, f"p.{identifier}.{question.id}.{name}") for name in names}
            if kept := {name: value for name, value in said.items() if value}:
                passages[question.id] = kept
        elif value := one(fields, f"a.{identifier}.{question.id}"):
            answers[question.id] = value
    quotes = tuple(_quote(form, place) for place in dict.fromkeys(fields.get(f"e.{identifier}", ())))
    try:
        return ItemAnswer.model_validate(
            {
                "id": identifier,
                "text": text,
                "origin": origin,
                "from_ids": sources,
                "answers": answers,
                "passages": passages,
                "evidence": quotes,
            }
        )
    except ValidationError:
        message = f"Write what this {form.item_noun} says, in at most {ITEM_LENGTH} characters, or remove it."
        raise InvalidInput(message, fields=[FieldProblem(f"text.{identifier}", message)]) from None


def _wording(fields: Fields, identifier: str, proposed: Item | None, *, merged: bool) -> tuple[str, str]:
    written = fields.get(f"text.{identifier}")
    # Browsers change line ends: a text that is otherwise the proposed one was not edited.
    if proposed is not None and not merged and (not written or _many_lines(written[0]) == _many_lines(proposed.text)):
        return proposed.text, "proposed"
    text = _many_lines(written[0]) if written else ""
    return text, "merged" if merged else "edited" if proposed is not None else "added"


def _quote(form: Form, place: str) -> Evidence:
    """A quoted place; its words are taken from the case and not from the browser."""
    found = _PLACE.fullmatch(place)
    text = next((one.text for one in form.texts if found and one.id == found[1]), None)
    if found is not None and text is not None:
        start, end = int(found[2]), int(found[3])
        if start < end <= len(text) and end - start <= ITEM_LENGTH:
            return Evidence(text=found[1], start=start, end=end, quote=text[start:end])
    message = f"Evidence is one place of a text, with 1 to {ITEM_LENGTH} characters."
    raise InvalidInput(message, fields=[FieldProblem("evidence", message)])


def added(form: Form, answer: Answer, text: str) -> Answer:
    """The answer with one more item at the end. Raises InvalidInput on `new` for no text, or too many items."""
    _must_edit(form)
    words = _many_lines(text)
    message = None
    if not words or len(words) > ITEM_LENGTH:
        message = f"Write what the {form.item_noun} says, in 1 to {ITEM_LENGTH} characters."
    elif len(answer.items) >= MOST_ITEMS:
        message = f"There are {MOST_ITEMS} already."
    if message is not None:
        raise InvalidInput(message, fields=[FieldProblem("new", message)])
    used = {item.id for item in answer.items} | {item.id for item in form.items}
    identifier = next(name for name in (f"n{number}" for number in range(1, MOST_ITEMS * 2 + 2)) if name not in used)
    return answer.model_copy(update={"items": (*answer.items, ItemAnswer(id=identifier, text=words, origin="added"))})


def removed(form: Form, answer: Answer, identifier: str) -> Answer:
    """The answer without one item."""
    _must_edit(form)
    return answer.model_copy(update={"items": tuple(item for item in answer.items if item.id != identifier)})


def merged(form: Form, answer: Answer, identifier: str) -> Answer:
    """The answer with an item joined to the one before it; what was answered of both is asked again.

    Raises InvalidInput where there is none before it, or the text would be too long.
    """
    _must_edit(form)
    place = next((place for place, item in enumerate(answer.items) if item.id == identifier), 0)
    if place == 0:
        message = f"There is no {form.item_noun} before it."
        raise InvalidInput(message, fields=[FieldProblem(f"text.{identifier}", message)])
    first, second = answer.items[place - 1], answer.items[place]
    text = f"{first.text} {second.text}"
    if len(text) > ITEM_LENGTH:
        message = f"Together they have more than {ITEM_LENGTH} characters."
        raise InvalidInput(message, fields=[FieldProblem(f"text.{identifier}", message)])
    known = {item.id for item in form.items}
    sources = dict.fromkeys((first.id, *first.from_ids, second.id, *second.from_ids))
    from_ids = tuple(name for name in sources if name in known)
    joined = ItemAnswer(
        id=first.id,
        text=text,
        origin="merged" if from_ids else "added",
        from_ids=from_ids,
        evidence=tuple(dict.fromkeys((*first.evidence, *second.evidence))),
    )
    return answer.model_copy(update={"items": (*answer.items[: place - 1], joined, *answer.items[place + 1 :])})


def _must_edit(form: Form) -> None:
    if not form.items_editable:
        message = "The list is fixed for this rubric."
        raise InvalidInput(message, fields=[FieldProblem("item", message)])
