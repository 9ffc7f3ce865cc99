"""citation_support@1: each statement against the passages it cites, together and one by one.

Owns batching of statements and the derivation of the record; markers are read by `rubrics.citations`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from rubrics.citations import MarkerStatus, Statement, restrict, split_statements
from rubrics.library.citation_support_v1.records import (
    CITATIONS_PER_ASK,
    NO_FIGURES,
    ROLES,
    STATEMENTS_PER_ASK,
    SUPPORTS,
    CitationCase,
    CitationLabel,
    CitationRecord,
    CitationSupportRecord,
    MarkerProblem,
    Shape,
    StatementRecord,
    figures,
    missing,
    only_role,
    support_model,
)
from rubrics.model import (
    Ask,
    Constraint,
    Example,
    Label,
    Message,
    NotApplicable,
    Reply,
    Rubric,
    Rules,
    Scale,
    Scored,
    SinglePlan,
    VerdictField,
)
from rubrics.prompt import Fence, render
from rubrics.records import Elicitation, NotApplicableReason, Outcome
from rubrics.schema import json_constraint
from rubrics.texts import Passage, is_blank, numbered, one_line

_PACKAGE = "rubrics.library.citation_support_v1"


class CitationSupport(Rubric[CitationCase]):
    """Do the cited passages support the statements that cite them?

    `token_confidence`: P(all full) is the minimum over relevant statements of P(full), P(all none) the minimum of
    P(none), and `partial` has the rest; statements without a known source count as certain `none`. Minima, because
    the statements of one answer are not independent. No confidence is asked for in words.
    """

    name: ClassVar[str] = "citation_support"
    version: ClassVar[int] = 1
    title: ClassVar[str] = "Support by the cited passages"
    question: ClassVar[str] = "Do the cited passages support the statements that cite them?"
    case_model = CitationCase
    record_model = CitationSupportRecord
    label_model = CitationLabel
    scale = Scale(
        labels=(
            Label("none", "No statement that carries or needs a citation has any support by what it cites."),
            Label("partial", "Some support, but not all of every such statement."),
            Label("full", "Every statement that carries or needs a citation is fully supported by what it cites."),
        ),
        ordered=True,
        minimum=0.0,
        maximum=1.0,
    )
    rules = Rules(
        score="Weighted support: the mean over statements that carry or need a citation, full 1, partial 0.5, none 0. "
        "Beside it recall, precision and coverage. A citation counts for precision if it supports its statement "
        "alone, fully or in part, or is needed for the joint support; where nothing is supported none counts.",
        nothing_to_judge={
            "empty_answer": "The answer holds nothing visible. No call.",
            "no_statements": "The answer holds no letter or digit outside its markers. No call.",
            "no_citations": "No marker of the answer names a source; reversed and endless ranges name none. No call.",
            "empty_context": "There are no sources, or only blank ones. No call; the record lists every citation as "
            "missing_source.",
        },
        length_policy="Length does not count; statements that neither carry nor need a citation are left out.",
        sources=("Gao et al. 2023, ALCE", "TREC 2024 RAG track, support evaluation"),
    )
    steps: ClassVar[Mapping[str, str]] = {
        "support": "How far do its cited passages support each statement, and does it need a citation?"
    }
    examples = (
        Example(
            case={
                "question": "When did the bridge open?",
                "contexts": ["The bridge {{ x }} opened in 1931.", {"text": "It is 60 m long.", "title": "Length"}],
                "answer": "The bridge opened in 1931 and is 60 m long [1][2]. Have a look.",
            },
            replies=(
                {
                    "s1": {
                        "rationale": "One gives the year, the other the length.",
                        "p1": "needed",
                        "p2": "needed",
                        "support": "full",
                        "needs_citation": "yes",
                    },
                    "s2": {"needs_citation": "no"},
                },
            ),
            quality="good",
        ),
        Example(
            case={
                "contexts": ["Die Brücke wurde 1931 eröffnet."],
                "answer": "Die Brücke ist 80 m lang.[1] Sie wurde 1938 umgebaut [1, 4].",
            },
            replies=(
                {
                    "s1": {"rationale": "Keine Länge genannt.", "support": "none", "needs_citation": "yes"},
                    "s2": {"rationale": "Kein Umbau genannt.", "support": "none", "needs_citation": "yes"},
                },
            ),
            quality="bad",
        ),
    )

    def nothing_to_judge(self, case: CitationCase) -> NotApplicable | None:
        """No answer, no statement, no citation, or no source at all."""
        if is_blank(case.answer):
            return NotApplicable(NotApplicableReason.EMPTY_ANSWER)
        statements = split_statements(case.answer)
        if not statements:
            return NotApplicable(NotApplicableReason.NO_STATEMENTS)
        if not any(statement.sources for statement in statements):
            return NotApplicable(NotApplicableReason.NO_CITATIONS)
        if all(is_blank(context.text) for context in case.contexts):
            record = _record(case, statements, frozenset(), None)
            return NotApplicable(NotApplicableReason.EMPTY_CONTEXT, record)
        return None

    def plan(self, case: CitationCase, fence: Fence, elicitation: Elicitation = "reasoned") -> SinglePlan:
        """Statements in batches, each batch with the passages that it cites."""
        nothing = self.nothing_to_judge(case)
        if nothing is not None:
            return nothing
        sent = numbered("p", case.contexts)
        known = frozenset(int(name.removeprefix("p")) for name in sent)
        statements = split_statements(case.answer)
        replies: dict[str, Any] = {}
        full: list[float | None] = []
        none: list[float | None] = []
        for batch in _batches(statements, known):
            reply = yield _ask(case, fence, sent, known, batch)
            for statement in batch:
                replies[statement.id] = said = getattr(reply.value, statement.id)
                if restrict(statement, known)[0]:
                    full.append(_probability(reply, statement.id, "full"))
                    none.append(_probability(reply, statement.id, "none"))
                elif statement.sources or said.needs_citation == "yes":
                    full.append(0.0)
                    none.append(1.0)
        record = _record(case, statements, known, replies)
        label = _label(record)
        if record.weighted_support is None:
            raise AssertionError("an answer with a citation has weighted support")
        return Scored(
            record=record,
            score=record.weighted_support,
            label=label,
            token_confidence=_confidence(label, full, none),
        )

    def sample_constraints(self) -> Mapping[str, Constraint]:
        """Statements with two citations, with one and with none; and the largest batch."""
        mixed: Shape = (("s1", (1, 3)), ("s2", (2,)), ("s3", ()))
        each = CITATIONS_PER_ASK // STATEMENTS_PER_ASK
        largest: Shape = tuple((f"s{n}", tuple(range(1, each + 1))) for n in range(1, STATEMENTS_PER_ASK + 1))
        return {
            "support": json_constraint(support_model(mixed)),
            "support.largest": json_constraint(support_model(largest)),
        }


def _batches(statements: Sequence[Statement], known: frozenset[int]) -> Iterator[list[Statement]]:
    """In order; a batch holds few statements and few citations, and one statement with many is a batch alone."""
    batch: list[Statement] = []
    citations = 0
    for statement in statements:
        count = len(restrict(statement, known)[0])
        if batch and (len(batch) == STATEMENTS_PER_ASK or citations + count > CITATIONS_PER_ASK):
            yield batch
            batch, citations = [], 0
        batch.append(statement)
        citations += count
    if batch:
        yield batch


def _ask(
    case: CitationCase,
    fence: Fence,
    sent: Mapping[str, Passage],
    known: frozenset[int],
    batch: Sequence[Statement],
) -> Ask:
    shape: Shape = tuple((statement.id, restrict(statement, known)[0]) for statement in batch)
    cited = sorted({number for _, sources in shape for number in sources})
    lines = []
    verdicts: dict[str, VerdictField] = {}
    for statement, (name, sources) in zip(batch, shape, strict=True):
        cites = ", ".join(f"p{number}" for number in sources) or "nothing"
        lines.append(f"{name} (cites {cites}): {one_line(statement.text)}")
        if sources:
            verdicts[name] = VerdictField((name, "support"), tuple(SUPPORTS))
        if len(sources) > 1:
            verdicts.update({f"{name}.p{n}": VerdictField((name, f"p{n}"), tuple(ROLES)) for n in sources})
        verdicts[f"{name}.needs_citation"] = VerdictField((name, "needs_citation"), ("yes", "no"))
    question = None if case.question is None or is_blank(case.question) else fence.block("question", case.question)
    ids = [name for name, _ in shape]
    user = render(
        _PACKAGE,
        "support.md.j2",
        passages=[fence.block(f"p{number}", sent[f"p{number}"].shown) for number in cited],
        question=question,
        statements=fence.block("statements", "\n".join(lines)),
        ids=", ".join(ids) if len(ids) < 3 else f"{ids[0]} to {ids[-1]}",
    )
    return Ask(
        step="support",
        messages=(Message("system", render(_PACKAGE, "system.md.j2")), Message("user", user)),
        constraint=json_constraint(support_model(shape)),
        verdicts=verdicts,
        items={statement.id: statement.text for statement in batch},
        passages={f"p{number}": sent[f"p{number}"].text for number in cited},
        question=case.question,
    )


def _record(
    case: CitationCase,
    statements: Sequence[Statement],
    known: frozenset[int],
    replies: Mapping[str, Any] | None,
) -> CitationSupportRecord:
    """The record; without replies that of an answer that could not be judged."""
    records = tuple(
        _statement(case, statement, known, None if replies is None else replies[statement.id])
        for statement in statements
    )
    derived = NO_FIGURES if replies is None else figures(records)
    return CitationSupportRecord(
        outcome=Outcome.NOT_APPLICABLE if replies is None else Outcome.SCORED,
        statements=records,
        missing_sources=missing(records),
        recall=derived["recall"],
        precision=derived["precision"],
        coverage=derived["coverage"],
        weighted_support=derived["weighted_support"],
    )


def _statement(case: CitationCase, statement: Statement, known: frozenset[int], said: Any) -> StatementRecord:
    cited, unknown = restrict(statement, known)
    support = said.support if said is not None and cited else None
    citations = []
    for number in statement.sources:
        if number in unknown:
            citations.append(CitationRecord(source=number, status="missing_source", role=None, counts=False))
            continue
        role = None if support is None else only_role(support) if len(cited) == 1 else getattr(said, f"p{number}")
        counts = support in ("full", "partial") and role in ("supports", "needed")
        source_id = case.contexts[number - 1].id
        citations.append(CitationRecord(source=number, source_id=source_id, status="known", role=role, counts=counts))
    return StatementRecord(
        id=statement.id,
        text=statement.text,
        start=statement.start,
        end=statement.end,
        citations=tuple(citations),
        problems=tuple(
            MarkerProblem(text=marker.text, start=marker.start, end=marker.end, status=marker.status)
            for marker in statement.markers
            if marker.status is not MarkerStatus.READ
        ),
        support=support,
        needs_citation=None if said is None else said.needs_citation == "yes",
        rationale=said.rationale if said is not None and cited else None,
    )


def _label(record: CitationSupportRecord) -> str:
    if record.recall == 1:
        return "full"
    return "none" if record.weighted_support == 0 else "partial"


def _probability(reply: Reply, name: str, value: str) -> float | None:
    read = reply.probabilities.get(name)
    return None if read is None else min(max(read.values.get(value, 0.0), 0.0), 1.0)


def _confidence(label: str, full: Sequence[float | None], none: Sequence[float | None]) -> float | None:
    known_full = [value for value in full if value is not None]
    known_none = [value for value in none if value is not None]
    if not known_full or len(known_full) < len(full) or len(known_none) < len(none):
        return None
    # Without a verdict that was asked for there is no probability either, only certainties.
    all_full, all_none = min(known_full), min(known_none)
    return {"full": all_full, "none": all_none, "partial": max(1 - all_full - all_none, 0.0)}[label]


RUBRIC: Rubric[Any] = CitationSupport()
