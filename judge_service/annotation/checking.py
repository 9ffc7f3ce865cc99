"""What every answer is checked for against its form: gaps, unknown names, choices, quoted places. Knows no rubric."""

from collections.abc import Mapping, Sequence

from judge_service.annotation.shapes import Answer, Form, Item, ItemAnswer, Question
from judge_service.errors import FieldProblem, InvalidInput
from rubrics.texts import says_nothing


def check(form: Form, said: Answer) -> None:
    """Raises InvalidInput naming every field that is missing, unknown or no choice, with the same words as the page."""
    problems = _answers(form.questions, said.answers, "answers", form, said)
    known = {item.id: item for item in form.items}
    texts = {text.id: text.text for text in form.texts}
    seen: set[str] = set()
    if not form.item_questions and said.items:
        problems.append(FieldProblem("items", "items: this rubric has none."))
    for place, item in enumerate(said.items if form.item_questions else ()):
        path = f"items[{place}]"
        proposed = known.get(item.id)
        if item.id in seen:
            problems.append(FieldProblem(f"{path}.id", f"{path}.id: {item.id[:64]!a} is there twice."))
        seen.add(item.id)
        if says_nothing(item.text):
            problems.append(FieldProblem(f"{path}.text", f"{path}.text: write what is claimed, or remove it."))
        problems += _changes(form, item, proposed, path)
        problems += _item_answers(form, item, proposed, path)
        for number, quote in enumerate(item.evidence):
            where = f"{path}.evidence[{number}]"
            if quote.text not in texts:
                problems.append(FieldProblem(f"{where}.text", f"{where}.text names no text of the case."))
            elif texts[quote.text][quote.start : quote.end] != quote.quote:
                message = f"{where}.quote is not what stands at that place."
                problems.append(FieldProblem(f"{where}.quote", message))
    covered = seen | {name for item in said.items for name in item.from_ids}
    if not form.items_editable:
        gaps = [proposed.title for proposed in form.items if proposed.id not in covered]
        problems += [FieldProblem("items", f"{title} has no answer.") for title in gaps]
    if problems:
        first = problems[0].message
        raise InvalidInput(first, fields=problems)


def _changes(form: Form, item: ItemAnswer, proposed: Item | None, path: str) -> list[FieldProblem]:
    problems = []
    if item.origin == "proposed" and (proposed is None or proposed.text != item.text):
        message = f"{path}: this {form.item_noun} was not proposed so: say that it was edited or added."
        problems.append(FieldProblem(f"{path}.text", message))
    if item.origin != "proposed" and not form.items_editable:
        problems.append(FieldProblem(f"{path}.origin", f"{path}.origin: the list is fixed for this rubric."))
    names = {one.id for one in form.items}
    if any(name not in names for name in item.from_ids):
        problems.append(FieldProblem(f"{path}.from_ids", f"{path}.from_ids names no proposed {form.item_noun}."))
    return problems


def _item_answers(form: Form, item: ItemAnswer, proposed: Item | None, path: str) -> list[FieldProblem]:
    asks = {question.id for question in form.item_questions} if proposed is None else set(proposed.asks)
    needed = {question.id for question in form.item_questions if question.required}
    if proposed is not None:
        needed = set(proposed.required)
    title = proposed.title if proposed is not None else f"The added {form.item_noun}"
    problems = []
    questions = {question.id: question for question in form.item_questions}
    for name, value in item.answers.items():
        question = questions.get(name)
        if question is None or question.per_passage or name not in asks:
            problems.append(FieldProblem(f"{path}.answers.{name}", f"{path}.answers.{name} is not asked here."))
        elif value not in {choice.value for choice in question.choices}:
            problems.append(_no_choice(f"{path}.answers.{name}", question, value))
    gaps = sorted(needed - set(item.answers))
    problems += [FieldProblem(f"{path}.answers.{name}", f"{title} has no answer.") for name in gaps]
    for name, answers in item.passages.items():
        question = questions.get(name)
        if question is None or not question.per_passage or name not in asks:
            problems.append(FieldProblem(f"{path}.passages.{name}", f"{path}.passages.{name} is not asked here."))
            continue
        allowed = set(proposed.passages) if proposed is not None else set()
        for passage, value in answers.items():
            where = f"{path}.passages.{name}.{passage}"
            if passage not in allowed:
                problems.append(FieldProblem(where, f"{where} is no passage of this {form.item_noun}."))
            elif value not in {choice.value for choice in question.choices}:
                problems.append(_no_choice(where, question, value))
    return problems


def _no_choice(path: str, question: Question, value: str) -> FieldProblem:
    allowed = ", ".join(choice.value for choice in question.choices)
    return FieldProblem(path, f"{path}: {value[:80]!a} is none of {allowed}.")


def asked(question: Question, answers: Mapping[str, str], items: Sequence[ItemAnswer]) -> bool:
    """Whether a question about the whole case is asked, given what was answered so far."""
    when = question.when
    if when is None:
        return True
    if when.item:
        return any(item.answers.get(when.question) in when.values for item in items)
    return answers.get(when.question) in when.values


def _answers(
    questions: Sequence[Question], answers: Mapping[str, str], path: str, form: Form, said: Answer
) -> list[FieldProblem]:
    problems = []
    known = {question.id: question for question in questions}
    for name, value in answers.items():
        question = known.get(name)
        if question is None or not asked(question, answers, said.items):
            problems.append(FieldProblem(f"{path}.{name}", f"{path}.{name} is not asked here."))
        elif value not in {choice.value for choice in question.choices}:
            problems.append(_no_choice(f"{path}.{name}", question, value))
    gaps = [one for one in questions if one.required and one.id not in answers and asked(one, answers, said.items)]
    problems += [FieldProblem(f"{path}.{one.id}", f"{one.text} Choose an answer.") for one in gaps]
    return problems
