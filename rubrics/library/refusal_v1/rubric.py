"""refusal@1: does the answer refuse, and should it have.

Owns two separate questions: the answer is judged without the contexts, the contexts without the answer, so that
neither reading leans on the other.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from rubrics.library.refusal_v1.records import (
    NO_CONTEXT,
    QUOTE_LENGTH,
    REFUSALS,
    AnswerableReply,
    Quoted,
    RefusalCase,
    RefusalLabel,
    RefusalRecord,
    RefusalReply,
    answerable_model,
    cell_of,
)
from rubrics.model import (
    Ask,
    Constraint,
    Example,
    Label,
    Message,
    NotApplicable,
    Rubric,
    Rules,
    Scale,
    Scored,
    SinglePlan,
    VerdictField,
)
from rubrics.prompt import Fence, render
from rubrics.quotes import find_quote
from rubrics.records import Elicitation, NotApplicableReason
from rubrics.schema import json_constraint
from rubrics.texts import Passage, is_blank, numbered

_PACKAGE = "rubrics.library.refusal_v1"


class RefusalCorrectness(Rubric[RefusalCase]):
    """Was it right to abstain? The label is what the answer did; the score is whether that was due.

    `token_confidence` is the token probability of the refusal verdict, `verbalised_confidence` the stated one; both
    speak of what the answer did, not of whether the question could be answered.
    """

    name: ClassVar[str] = "refusal"
    version: ClassVar[int] = 1
    title: ClassVar[str] = "Right to answer or to abstain"
    question: ClassVar[str] = "Does the answer refuse, in full, in part or not at all?"
    case_model = RefusalCase
    record_model = RefusalRecord
    label_model = RefusalLabel
    scale = Scale(
        labels=(
            Label("refusal", "The answer declines or says it does not know, and gives nothing that was asked for."),
            Label("partial", "The answer declines or says it does not know, and still gives some of it."),
            Label("compliance", "The answer tries to answer, well or badly."),
        ),
        ordered=True,
        minimum=0.0,
        maximum=1.0,
    )
    rules = Rules(
        score="1 for a refusal where one was due and for an attempt where an answer was due, 0 for the opposite. A "
        "partial refusal is 0 where a refusal was due and 0.5 where an answer was due.",
        nothing_to_judge={
            "empty_answer": "The answer holds nothing visible: it neither refuses nor tries. No call.",
            "empty_context": "The caller does not say whether the question is answerable, and there is no context that "
            "could. No call.",
        },
        length_policy="Length does not count.",
        ties="Refuse first and answer then is a partial refusal.",
        sources=("Röttger et al. 2024, XSTest", "Thakur et al. 2024, NoMIRACL"),
    )
    steps: ClassVar[Mapping[str, str]] = {
        "refusal": "Does the answer refuse in full, in part or not?",
        "answerable": "Do the contexts hold an answer? Asked only when the caller does not say.",
    }
    examples = (
        Example(
            case={
                "question": "Who designed the bridge?",
                "contexts": ["The Aldermere bridge opened in 1931 {{ or }} so.", None],
                "answer": "I\u2019m sorry, but the documents don\u2019t say who designed it.",
            },
            replies=(
                {
                    "quote": "the documents don't say",
                    "rationale": "It says the documents do not tell and gives no name.",
                    "refusal": "refusal",
                    "confidence": 90,
                },
                {"context": "none", "quote": "", "rationale": "No designer is named.", "answerable": "no"},
            ),
            quality="good",
        ),
        Example(
            case={
                "question": "Wann wurde die Brücke eröffnet?",
                "contexts": [],
                "answer": "Dazu kann ich leider nichts sagen.",
                "answerable": True,
            },
            replies=(
                {
                    "quote": "kann ich leider nichts sagen",
                    "rationale": "Es wird keine Antwort gegeben.",
                    "refusal": "refusal",
                    "confidence": 100,
                },
            ),
            quality="bad",
        ),
    )

    def nothing_to_judge(self, case: RefusalCase) -> NotApplicable | None:
        """No visible answer, or nothing that tells whether the question is answerable."""
        if is_blank(case.answer):
            return NotApplicable(NotApplicableReason.EMPTY_ANSWER)
        if case.answerable is None and all(is_blank(context.text) for context in case.contexts):
            return NotApplicable(NotApplicableReason.EMPTY_CONTEXT)
        return None

    def plan(self, case: RefusalCase, fence: Fence, elicitation: Elicitation = "reasoned") -> SinglePlan:
        """One call on the answer; a second on the contexts where the caller does not say what was due."""
        nothing = self.nothing_to_judge(case)
        if nothing is not None:
            return nothing
        reply = yield _refusal_ask(case, fence)
        said = reply.value
        if not isinstance(said, RefusalReply):
            raise TypeError("the refusal step is answered by a RefusalReply")
        read = reply.probabilities.get("refusal")
        answerable, quote, rationale = case.answerable, None, None
        if answerable is None:
            sent = numbered("ctx", case.contexts)
            found = (yield _answerable_ask(case, fence, sent)).value
            if not isinstance(found, AnswerableReply):
                raise TypeError("the answerable step is answered by an AnswerableReply")
            answerable = found.answerable == "yes"
            quote, rationale = _context_quote(found, sent), found.rationale
        record = RefusalRecord(
            refusal=said.refusal,
            should_refuse=not answerable,
            answerable_source="caller" if quote is None else "judge",
            cell=cell_of(said.refusal, should_refuse=not answerable),
            rationale=said.rationale,
            refusal_quote=_quoted(case.answer, said.quote),
            answer_quote=quote,
            answerable_rationale=rationale,
            confidence=said.confidence,
        )
        return Scored(
            record=record,
            score=record.score,
            label=said.refusal,
            token_confidence=None if read is None else min(max(read.values.get(said.refusal, 0.0), 0.0), 1.0),
            verbalised_confidence=said.confidence / 100,
        )

    def sample_constraints(self) -> Mapping[str, Constraint]:
        """The reply on the answer, and the reply on two contexts."""
        return {
            "refusal": json_constraint(RefusalReply),
            "answerable": json_constraint(answerable_model(("ctx1", "ctx2"))),
        }


def _refusal_ask(case: RefusalCase, fence: Fence) -> Ask:
    user = render(
        _PACKAGE,
        "refusal.md.j2",
        question=fence.block("question", case.question),
        answer=fence.block("answer", case.answer),
    )
    return Ask(
        step="refusal",
        messages=(Message("system", render(_PACKAGE, "refusal_system.md.j2")), Message("user", user)),
        constraint=json_constraint(RefusalReply),
        verdicts={"refusal": VerdictField(("refusal",), tuple(REFUSALS))},
        items={"refusal": case.answer},
        question=case.question,
    )


def _answerable_ask(case: RefusalCase, fence: Fence, sent: Mapping[str, Passage]) -> Ask:
    user = render(
        _PACKAGE,
        "answerable.md.j2",
        contexts=[fence.block(name, passage.shown) for name, passage in sent.items()],
        question=fence.block("question", case.question),
    )
    return Ask(
        step="answerable",
        messages=(Message("system", render(_PACKAGE, "answerable_system.md.j2")), Message("user", user)),
        constraint=json_constraint(answerable_model(tuple(sent))),
        verdicts={"answerable": VerdictField(("answerable",), ("yes", "no"))},
        items={"answerable": case.question},
        passages={name: passage.text for name, passage in sent.items()},
        question=case.question,
    )


def _quoted(text: str, quote: str, context: int | None = None) -> Quoted:
    span = find_quote(text, quote, cut=len(quote) == QUOTE_LENGTH)
    if span is None:
        return Quoted(quote=quote, found=False, context=context)
    return Quoted(quote=quote, found=True, start=span.start, end=span.end, context=context)


def _context_quote(reply: AnswerableReply, sent: Mapping[str, Passage]) -> Quoted:
    if reply.context == NO_CONTEXT:
        return Quoted(quote=reply.quote, found=False)
    return _quoted(sent[reply.context].text, reply.quote, int(reply.context.removeprefix("ctx")) - 1)


RUBRIC: Rubric[Any] = RefusalCorrectness()
