"""What a person is asked about a case, generated from its rubric, and how the answer becomes a label.

The shapes of both are in `shapes`. Shows only what the rubric's own case model names: no metadata, no ids, no system.
Knows no database.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, get_args

from pydantic import ValidationError

from judge_service.annotation.checking import check
from judge_service.annotation.shapes import (
    ITEM_LENGTH,
    MOST_ITEMS,
    Answer,
    Choice,
    Draft,
    Form,
    Item,
    Question,
    Role,
    Source,
    Text,
    When,
)
from judge_service.errors import InvalidInput
from judge_service.judging.cases import field_problems
from rubrics.citations import split_statements
from rubrics.declared.rubric import PASS_AT, DeclaredRubric, overall
from rubrics.model import Rubric
from rubrics.records import CaseInput, Order
from rubrics.sentences import split_sentences
from rubrics.texts import Passage, numbered, says_nothing

CANNOT_SAY = "cannot_say"
A = TypeVar("A", bound=Answer)


@dataclass(frozen=True, slots=True)
class ReadLabel:
    """An answer as a label: `label` None is "cannot be said"; `detail` is the rubric's own human label, dumped.

    `items` is the answer item by item, and question by question where the rubric's label holds only the fold of them.
    """

    label: str | None
    detail: dict[str, Any]
    items: dict[str, Any] | None = None


def form_of(
    rubric: Rubric[Any], fields: Mapping[str, Any], order: Order | None = None, claims: Sequence[str] = ()
) -> Form:
    """The form of a case's input. `order` is needed for a pair. Raises InvalidInput when the case does not fit.

    `claims` are those that the case came with: where claims are asked, they are proposed in place of the sentences.
    """
    case = _case(rubric, fields)
    made = _proposing(_builder(rubric).make(rubric, case, order), claims)
    counted = sum(question.required for question in made.questions)
    one = not made.item_questions and counted == 1 and len(made.questions) == 1
    return made.model_copy(update={"one_question": one})


def read_answer(
    rubric: Rubric[Any],
    fields: Mapping[str, Any],
    answer: Mapping[str, Any],
    order: Order | None = None,
    claims: Sequence[str] = (),
) -> ReadLabel:
    """The label that an answer gives. Raises InvalidInput naming every field that is missing or does not fit.

    Pairs are restored to the caller's frame. The rubric's own human label model has the last word. `claims` are those
    of the form that was shown.
    """
    case = _case(rubric, fields)
    builder = _builder(rubric)
    form = _proposing(builder.make(rubric, case, order), claims)
    said = parse_answer(answer)
    check(form, said)
    parts = builder.fold(rubric, case, form, said, order)
    try:
        detail = rubric.label_model.model_validate(parts).model_dump(mode="json")
    except ValidationError as error:
        raise InvalidInput(fields=field_problems(error, "answers")) from None
    label = detail["label"]
    more = bool(form.item_questions) or len(form.questions) > 1
    kept = said.model_dump(mode="json") if more else None
    return ReadLabel(None if label == CANNOT_SAY else label, detail, kept)


def parse_answer(answer: Mapping[str, Any]) -> Answer:
    """An answer, gaps allowed. Raises InvalidInput naming the field that has the wrong shape."""
    return _parsed(Answer, answer)


def parse_draft(draft: Mapping[str, Any]) -> Draft:
    """A draft: an answer with gaps and its note. Raises as `parse_answer`."""
    return _parsed(Draft, draft)


def _parsed(shape: type[A], given: Mapping[str, Any]) -> A:
    try:
        return shape.model_validate(given)
    except ValidationError as error:
        raise InvalidInput(fields=field_problems(error)) from None


def _case(rubric: Rubric[Any], fields: Mapping[str, Any]) -> CaseInput:
    try:
        case: CaseInput = rubric.case_model.model_validate(dict(fields))
    except ValidationError as error:
        raise InvalidInput(f"The case does not fit {rubric.id}.", fields=field_problems(error, "case")) from None
    return case


# The parts of a form that come from the case and from the scale.

_ROLES: Mapping[str, Role] = {
    "question": "question",
    "prompt": "question",
    "answer": "answer",
    "response": "answer",
    "output": "answer",
    "reference": "reference",
}
_ORDER: Mapping[Role, int] = {"question": 0, "context": 1, "reference": 2, "other": 3, "answer": 4}


def _texts(case: CaseInput, leave_out: frozenset[str] = frozenset()) -> tuple[Text, ...]:
    found: list[Text] = []
    for name in type(case).model_fields:
        value = getattr(case, name)
        if name in leave_out:
            continue
        if isinstance(value, str) and value.strip():
            role = _ROLES.get(name, "other")
            found.append(Text(id=name, role=role, title=name.replace("_", " ").capitalize(), text=value))
        elif isinstance(value, tuple) and value and all(isinstance(one, Passage) for one in value):
            # The caller's own id of a passage is not shown: it may name a system.
            found += [
                Text(
                    id=key,
                    role="context",
                    title=f"Context {key.removeprefix('ctx')}" + (f": {passage.title}" if passage.title else ""),
                    text=passage.text,
                )
                for key, passage in numbered("ctx", value).items()
            ]
    return tuple(sorted(found, key=lambda text: _ORDER[text.role]))


def _choices(pairs: Sequence[tuple[str, str, str]]) -> tuple[Choice, ...]:
    return tuple(
        Choice(value=value, text=text, description=description, key=str(place) if place <= 9 else None)
        for place, (value, text, description) in enumerate(pairs, start=1)
    )


_CANNOT = (CANNOT_SAY, "Cannot tell", "It cannot be decided from what is shown.")
_YES_NO = (("yes", "Yes", ""), ("no", "No", ""))


def _scale(rubric: Rubric[Any]) -> tuple[Choice, ...]:
    pairs = [(label.name, _words(label.name), label.description) for label in rubric.scale.labels]
    if CANNOT_SAY in get_args(rubric.label_model.model_fields["label"].annotation):
        pairs.append(_CANNOT)
    return _choices(pairs)


def _words(name: str) -> str:
    words = name.replace("_", " ")
    return words[:1].upper() + words[1:]


def _rules(rubric: Rubric[Any]) -> tuple[str, ...]:
    return tuple(rule for rule in (rubric.rules.length_policy, rubric.rules.ties) if rule)


@dataclass(frozen=True, slots=True)
class _Builder:
    """How the form of one kind of rubric is made, and how its answers fold into the fields of the label model."""

    make: Callable[[Rubric[Any], Any, Order | None], Form]
    fold: Callable[[Rubric[Any], Any, Form, Answer, Order | None], dict[str, Any]]


# Any rubric: the label, and what else its label model asks with a few values.


def _make_plain(rubric: Rubric[Any], case: CaseInput, order: Order | None) -> Form:
    questions = [Question(id="label", text=rubric.question, choices=_scale(rubric))]
    for name, values in _more_fields(rubric).items():
        text = rubric.label_model.model_fields[name].description or f"{_words(name)}?"
        pairs = _YES_NO if values == (True, False) else [(str(one), _words(str(one)), "") for one in values]
        questions.append(Question(id=name, text=text, choices=_choices(pairs), required=False))
    return Form(
        rubric=rubric.id,
        kind="single",
        title=rubric.title,
        question=rubric.question,
        rules=_rules(rubric),
        texts=_texts(case),
        questions=tuple(questions),
    )


def _more_fields(rubric: Rubric[Any]) -> dict[str, tuple[Any, ...]]:
    found: dict[str, tuple[Any, ...]] = {}
    for name, info in rubric.label_model.model_fields.items():
        kinds = [kind for kind in (get_args(info.annotation) or (info.annotation,)) if kind is not type(None)]
        if name == "label":
            continue
        if kinds == [bool]:
            found[name] = (True, False)
        else:
            values = [value for kind in kinds for value in (get_args(kind) or (kind,)) if isinstance(value, str | int)]
            if values and not any(isinstance(kind, type) for kind in kinds):
                found[name] = tuple(values)
    return found


def _fold_plain(rubric: Rubric[Any], case: CaseInput, form: Form, said: Answer, order: Order | None) -> dict[str, Any]:
    more = _more_fields(rubric)
    parts: dict[str, Any] = {"label": said.answers["label"]}
    for name, value in said.answers.items():
        if name in more:
            parts[name] = next(one for one in more[name] if value == _said(one))
    return parts


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


# A pair: two answers in a drawn order.


def _sides(rubric: Rubric[Any]) -> tuple[str, str]:
    names = list(rubric.case_model.model_fields)
    for name in names:
        if name.endswith("_a") and f"{name[:-2]}_b" in names:
            return name, f"{name[:-2]}_b"
    raise InvalidInput(f"{rubric.id} compares two answers, but its cases name none `..._a` and `..._b`.")


def _make_pair(rubric: Rubric[Any], case: CaseInput, order: Order | None) -> Form:
    if order is None:
        raise ValueError("a pair is shown in an order")
    sides = _sides(rubric)
    first, second = sides if order == "AB" else sides[::-1]
    texts = _texts(case, frozenset(sides))
    shown = (
        Text(id="first", role="answer", title="Answer 1", text=getattr(case, first)),
        Text(id="second", role="answer", title="Answer 2", text=getattr(case, second)),
    )
    pairs = [("first", "Answer 1", ""), ("second", "Answer 2", "")]
    if "tie" in rubric.scale.names:
        pairs.append(("tie", "About the same", "Neither answer is better."))
    if CANNOT_SAY in get_args(rubric.label_model.model_fields["label"].annotation):
        pairs.append(_CANNOT)
    return Form(
        rubric=rubric.id,
        kind="pairwise",
        title=rubric.title,
        question=rubric.question,
        rules=(rubric.rules.length_policy,),
        texts=(*texts, *shown),
        questions=(Question(id="label", text=rubric.question, choices=_choices(pairs)),),
    )


def _fold_pair(rubric: Rubric[Any], case: CaseInput, form: Form, said: Answer, order: Order | None) -> dict[str, Any]:
    value = said.answers["label"]
    if value in ("first", "second"):
        value = "A" if (value == "first") == (order == "AB") else "B"
    return {"label": value}


# Claims against contexts.

_FAILURES = {
    "fabrication": "Nothing in the contexts says so.",
    "overgeneralization": "The contexts say it of less, or less strongly.",
    "wrong_entity": "The contexts say it of something or somebody else.",
    "stale_fact": "The contexts say that it was so and is not any more.",
}


def _make_claims(rubric: Rubric[Any], case: Any, order: Order | None) -> Form:
    sentences = [one for one in split_sentences(case.answer) if not says_nothing(one.text)]
    items = tuple(
        Item(
            id=f"c{place}",
            title=f"Claim {place}",
            text=sentence.text[:ITEM_LENGTH],
            source=Source(text="answer", start=sentence.start, end=sentence.end),
            asks=("verdict",),
            required=("verdict",),
        )
        for place, sentence in enumerate(sentences[:MOST_ITEMS], start=1)
    )
    verdict = Question(
        id="verdict",
        text="Does the context support this claim?",
        choices=_choices(
            [
                ("supported", "Supported", "Every part of the claim stands in the contexts."),
                ("unsupported", "Not supported", "A part of it does not."),
                _CANNOT,
            ]
        ),
        evidence=True,
    )
    failure = Question(
        id="failure_mode",
        text="What is mostly wrong with what is not supported?",
        choices=_choices([(name, _words(name), text) for name, text in _FAILURES.items()]),
        required=False,
        when=When(question="verdict", values=("unsupported",), item=True),
    )
    return Form(
        rubric=rubric.id,
        kind="single",
        title=rubric.title,
        question="Is each claim supported by the context?",
        rules=("Judge by the context alone. A claim is supported only if every part of it is.",),
        texts=_texts(case),
        questions=(failure,),
        items=items,
        item_questions=(verdict,),
        item_noun="claim",
        items_editable=True,
    )


def _proposing(form: Form, claims: Sequence[str]) -> Form:
    """The form with given claims in place of its own; each with its place in the answer where it stands there."""
    if not claims or not form.items_editable or form.item_noun != "claim":
        return form
    answer = next((text.text for text in form.texts if text.id == "answer"), "")
    items = []
    for place, claim in enumerate(claims[:MOST_ITEMS], start=1):
        start = answer.find(claim)
        source = None if start < 0 else Source(text="answer", start=start, end=start + len(claim))
        items.append(
            Item(
                id=f"c{place}",
                title=f"Claim {place}",
                text=claim[:ITEM_LENGTH],
                source=source,
                asks=("verdict",),
                required=("verdict",),
            )
        )
    return form.model_copy(update={"items": tuple(items)})


def _fold_claims(rubric: Rubric[Any], case: Any, form: Form, said: Answer, order: Order | None) -> dict[str, Any]:
    verdicts = [item.answers["verdict"] for item in said.items]
    if "unsupported" in verdicts:
        label = "unsupported"
    else:
        label = "supported" if verdicts and CANNOT_SAY not in verdicts else CANNOT_SAY
    parts: dict[str, Any] = {"label": label}
    if label == "unsupported":
        sources = {item.id: item.source for item in form.items}
        spans: dict[tuple[int, int], None] = {}
        for item in said.items:
            if item.answers["verdict"] == "unsupported":
                for name in (item.id, *item.from_ids):
                    source = sources.get(name)
                    if source is not None:
                        spans[(source.start, source.end)] = None
        parts["unsupported_spans"] = [{"start": start, "end": end} for start, end in sorted(spans)]
        if "failure_mode" in said.answers:
            parts["failure_mode"] = said.answers["failure_mode"]
    return parts


# Statements with the passages they cite.


def _make_statements(rubric: Rubric[Any], case: Any, order: Order | None) -> Form:
    texts = _texts(case)
    known = {text.id for text in texts if text.role == "context"}
    items = []
    for place, statement in enumerate(split_statements(case.answer)[:MOST_ITEMS], start=1):
        cited = tuple(f"ctx{number}" for number in statement.sources if f"ctx{number}" in known)
        asks = ("support", *(("helps",) if len(cited) > 1 else ()), "needed") if cited else ("needed",)
        items.append(
            Item(
                id=f"st{place}",
                title=f"Statement {place}",
                text=statement.text[:ITEM_LENGTH] or case.answer[statement.start : statement.end][:ITEM_LENGTH] or "-",
                source=Source(text="answer", start=statement.start, end=statement.end),
                passages=cited,
                asks=asks,
                required=("support",) if cited else ("needed",),
            )
        )
    questions = (
        Question(
            id="support",
            text="How far do the cited passages together support this statement?",
            choices=_choices(
                [
                    ("full", "Full", "Everything it states stands in them."),
                    ("partial", "Partial", "Some of it does."),
                    ("none", "None", "Nothing of it does."),
                    _CANNOT,
                ]
            ),
            evidence=True,
        ),
        Question(
            id="helps",
            text="Does each citation help?",
            choices=_choices(_YES_NO),
            required=False,
            per_passage=True,
        ),
        Question(id="needed", text="Does this statement need a citation?", choices=_choices(_YES_NO), required=False),
    )
    return Form(
        rubric=rubric.id,
        kind="single",
        title=rubric.title,
        question=rubric.question,
        rules=("Judge each statement by exactly the passages that it cites.",),
        texts=texts,
        items=tuple(items),
        item_questions=questions,
        item_noun="statement",
    )


def _fold_statements(rubric: Rubric[Any], case: Any, form: Form, said: Answer, order: Order | None) -> dict[str, Any]:
    support: list[str] = []
    needed: list[str] = []
    cited = {item.id: bool(item.passages) for item in form.items}
    for item in said.items:
        needs = item.answers.get("needed")
        needed += [needs] if needs else []
        if cited[item.id]:
            support.append(item.answers["support"])
        elif needs == "yes":
            support.append("none")
    if CANNOT_SAY in support or not support:
        label = CANNOT_SAY
    elif len(set(support)) == 1:
        label = support[0]
    else:
        label = "partial"
    return {"label": label, "needs_citation": "yes" in needed if needed else None}


# Refusals: what the answer did, then whether it should have.


def _make_refusal(rubric: Rubric[Any], case: Any, order: Order | None) -> Form:
    made = _make_plain(rubric, case, order)
    texts = {"refusal": "Full refusal", "partial": "Partly", "compliance": "No refusal"}
    choices = tuple(
        choice.model_copy(update={"text": texts.get(choice.value, choice.text)}) for choice in made.questions[0].choices
    )
    questions = [made.questions[0].model_copy(update={"choices": choices})]
    if case.answerable is None:
        questions.append(
            Question(
                id="should_refuse",
                text="Should it have refused?",
                choices=_choices([*_YES_NO, _CANNOT]),
            )
        )
    return made.model_copy(update={"questions": tuple(questions)})


def _fold_refusal(rubric: Rubric[Any], case: Any, form: Form, said: Answer, order: Order | None) -> dict[str, Any]:
    should = said.answers.get("should_refuse")
    return {"label": said.answers["label"], "answerable": {"yes": False, "no": True}.get(should or "")}


# Declared rubrics: criterion by criterion; code folds them as it does a judge's.


def _keyed_by_level(choices: tuple[Choice, ...]) -> tuple[Choice, ...]:
    """Each level is chosen by its own digit, what is left by the next free one; unchanged for levels of two digits."""
    levels = [choice.value for choice in choices if choice.value != CANNOT_SAY]
    if any(value not in tuple("0123456789") for value in levels):
        return choices
    after = [digit for digit in "123456789" if digit > levels[-1]]
    free = next((digit for digit in (*after, *"1234567890") if digit not in levels), None)
    return tuple(
        choice.model_copy(update={"key": free if choice.value == CANNOT_SAY else choice.value}) for choice in choices
    )


def _make_declared(rubric: Rubric[Any], case: CaseInput, order: Order | None) -> Form:
    declaration = _declared(rubric).declaration
    single = len(declaration.criteria) == 1
    questions = []
    for one in declaration.criteria:
        pairs = [
            (str(value), str(value), choice.description) for value, choice in zip(one.values, one.choices, strict=True)
        ]
        name = "label" if single else one.name
        choices = _choices([*pairs, _CANNOT])
        if one.levels is not None:
            choices = _keyed_by_level(choices)
        questions.append(Question(id=name, text=one.text, choices=choices))
    return _make_plain(rubric, case, order).model_copy(update={"questions": tuple(questions), "rules": _rules(rubric)})


def _fold_declared(
    rubric: Rubric[Any], case: CaseInput, form: Form, said: Answer, order: Order | None
) -> dict[str, Any]:
    declaration = _declared(rubric).declaration
    if len(declaration.criteria) == 1:
        return {"label": said.answers["label"]}
    scores: list[tuple[float, float]] = []
    for one in declaration.criteria:
        value = said.answers[one.name]
        if one.weight == 0:
            continue
        if value == CANNOT_SAY:
            return {"label": CANNOT_SAY}
        normalised = one.normalised(int(value) if one.levels is not None else value)
        scores.append((0.0 if normalised is None else normalised, one.weight))
    return {"label": "pass" if overall(scores) >= _limit(rubric) else "fail"}


def _limit(rubric: Rubric[Any]) -> float:
    """The overall score from which a declared rubric with several criteria says `pass`."""
    limit = _declared(rubric).declaration.pass_at
    return PASS_AT if limit is None else limit


def _declared(rubric: Rubric[Any]) -> DeclaredRubric:
    if not isinstance(rubric, DeclaredRubric):
        raise TypeError(f"{rubric.id} is not declared")
    return rubric


_PLAIN = _Builder(_make_plain, _fold_plain)
_PAIR = _Builder(_make_pair, _fold_pair)
_DECLARED = _Builder(_make_declared, _fold_declared)
_OWN: Mapping[str, _Builder] = {
    "faithfulness": _Builder(_make_claims, _fold_claims),
    "citation_support": _Builder(_make_statements, _fold_statements),
    "refusal": _Builder(_make_refusal, _fold_refusal),
}
"""Built-in rubrics whose people are asked in steps. Every other one needs no code here."""


def _builder(rubric: Rubric[Any]) -> _Builder:
    if isinstance(rubric, DeclaredRubric):
        return _DECLARED
    if rubric.kind == "pairwise":
        return _PAIR
    built_in = type(rubric).__module__.startswith("rubrics.library.")
    return _OWN.get(rubric.name, _PLAIN) if built_in else _PLAIN
