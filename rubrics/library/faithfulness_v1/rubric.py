"""faithfulness@1: extract the answer's claims sentence by sentence, then verify each against the contexts.

Owns the two steps and how replies become the record. The record's own rules are in `records`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from rubrics.library.faithfulness_v1.records import (
    CLAIM_LENGTH,
    CLAIMS_PER_ASK,
    CLAIMS_PER_SENTENCE,
    NO_CONTEXT,
    QUOTE_LENGTH,
    SENTENCES_PER_ASK,
    VERDICTS,
    ClaimRecord,
    ClaimVerdict,
    Evidence,
    FaithfulnessCase,
    FaithfulnessLabel,
    FaithfulnessRecord,
    SentenceRecord,
    claim_key,
    extraction_model,
    fold_failure_mode,
    verification_model,
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
from rubrics.quotes import Folded
from rubrics.records import Elicitation, NotApplicableReason, Outcome
from rubrics.schema import json_constraint
from rubrics.sentences import Sentence, split_sentences
from rubrics.texts import Passage, is_blank, numbered, one_line, says_nothing

_PACKAGE = "rubrics.library.faithfulness_v1"
_BEFORE = 2
"""Sentences shown before a later batch, so that its pronouns can be resolved."""

T = TypeVar("T")


@dataclass(slots=True)
class _Claim:
    id: str
    text: str
    sentence: str
    at_limit: bool
    also_in: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Extracted:
    """Claims in order of the answer, equal ones merged, and what was noticed on the way."""

    claims: dict[str, _Claim] = field(default_factory=dict)
    at_limit: list[str] = field(default_factory=list)
    merged: int = 0
    blank: int = 0

    def take(self, sentence_id: str, texts: Sequence[str]) -> None:
        if len(texts) == CLAIMS_PER_SENTENCE:
            self.at_limit.append(sentence_id)
        for text in texts:
            if says_nothing(text):
                self.blank += 1
                continue
            known = self.claims.get(key := claim_key(text))
            if known is None:
                name = f"c{len(self.claims) + 1}"
                self.claims[key] = _Claim(name, text.strip(), sentence_id, len(text) == CLAIM_LENGTH)
                continue
            self.merged += 1
            if sentence_id != known.sentence and sentence_id not in known.also_in:
                known.also_in.append(sentence_id)


class Faithfulness(Rubric[FaithfulnessCase]):
    """Do the contexts support what the answer claims? Score: supported claims / extracted claims.

    Confidence. P(answer supported) is the minimum over claims of P(claim supported): the weakest claim decides, and
    nothing is assumed about how claims depend on each other (a product would assume independence, which claims of one
    answer do not have, and would fall with their number). The confidence in the label is that probability, or 1 minus
    it for `unsupported`. `token_confidence` takes P(claim supported) from the token probabilities of the verdict,
    `verbalised_confidence` from the stated confidence c: c / 100 for a supported claim, 1 - c / 100 for another. Null
    unless every claim has one.
    """

    name: ClassVar[str] = "faithfulness"
    version: ClassVar[int] = 1
    title: ClassVar[str] = "Faithfulness to the contexts"
    question: ClassVar[str] = "Do the contexts support everything that the answer claims?"
    case_model = FaithfulnessCase
    record_model = FaithfulnessRecord
    label_model = FaithfulnessLabel
    scale = Scale(
        labels=(
            Label("unsupported", "At least one claim of the answer is not supported by the contexts."),
            Label("supported", "Every claim of the answer is supported by the contexts."),
        ),
        ordered=True,
        minimum=0.0,
        maximum=1.0,
    )
    rules = Rules(
        score="Supported claims / extracted claims; 3 of 4 gives 0.75. The label is `supported` when all are. The "
        "judge's verdict decides; whether its quote stands in the context is reported beside it.",
        nothing_to_judge={
            "empty_answer": "The answer holds nothing visible. No call.",
            "empty_context": "There is no context, or only blank ones. No call: nothing could be called supported, and "
            "a missing context is the retriever's failure, not a verdict on the answer.",
            "no_claims": "The answer states no fact that could be checked. The record lists its sentences.",
        },
        length_policy="Length does not count: an answer with one claim and one with forty are scored alike. At most "
        f"{CLAIMS_PER_SENTENCE} claims a sentence and no limit in all; sentences that reach the limit are listed.",
        sources=("Min et al. 2023, FActScore", "Es et al. 2024, Ragas"),
    )
    steps: ClassVar[Mapping[str, str]] = {
        "extract": "Which claims does each sentence of the answer make?",
        "verify": "Which context decides each claim, and how?",
    }
    examples = (
        Example(
            case={
                "question": "When did the bridge open?",
                "contexts": [
                    "The Aldermere bridge opened to traffic on 4\u00a0May 1931. It is 60 m long, {{ not }} 80\u202fm.",
                    {
                        "id": "doc-7",
                        "title": "Works",
                        "text": "Repairs were finished in 1988 <|im_end|> by the county.",
                    },
                ],
                "answer": "It opened in 1931. The bridge is 60 m long. Glad to help!",
            },
            replies=(
                {
                    "s1": ["The Aldermere bridge opened in 1931."],
                    "s2": ["The Aldermere bridge is 60 m long."],
                    "s3": [],
                },
                {
                    "c1": {
                        "context": "ctx1",
                        "quote": "opened to traffic on 4 May 1931",
                        "rationale": "The year is stated.",
                        "verdict": "supported",
                        "confidence": 90,
                    },
                    "c2": {
                        "context": "ctx1",
                        "quote": "It is 60 m long",
                        "rationale": "The length is stated.",
                        "verdict": "supported",
                        "confidence": 100,
                    },
                },
            ),
            quality="good",
        ),
        Example(
            case={
                "question": None,
                "contexts": ["Die Brücke wurde 1931 eröffnet.", " \u200b"],
                "answer": "Die Brücke wurde am 3. Mai 1938 eröffnet. Sie ist die längste im Land.",
            },
            replies=(
                {"s1": ["Die Brücke wurde am 3. Mai 1938 eröffnet."], "s2": ["Die Brücke ist die längste im Land."]},
                {
                    "c1": {
                        "context": "ctx1",
                        "quote": "wurde 1931 eröffnet",
                        "rationale": "Another year is given.",
                        "verdict": "wrong_entity",
                        "confidence": 80,
                    },
                    "c2": {
                        "context": "none",
                        "quote": "",
                        "rationale": "Nothing on length.",
                        "verdict": "fabrication",
                        "confidence": 70,
                    },
                },
            ),
            quality="bad",
        ),
    )

    def nothing_to_judge(self, case: FaithfulnessCase) -> NotApplicable | None:
        """No visible answer, or no context with visible text."""
        if is_blank(case.answer):
            return NotApplicable(NotApplicableReason.EMPTY_ANSWER)
        if all(is_blank(context.text) for context in case.contexts):
            return NotApplicable(NotApplicableReason.EMPTY_CONTEXT)
        return None

    def plan(self, case: FaithfulnessCase, fence: Fence, elicitation: Elicitation = "reasoned") -> SinglePlan:
        """Extract in batches of sentences, merge equal claims, verify in batches of claims."""
        nothing = self.nothing_to_judge(case)
        if nothing is not None:
            return nothing
        sentences = split_sentences(case.answer)
        sent = numbered("ctx", case.contexts)
        extracted = _Extracted()
        # A sentence without a letter or digit states nothing, and an answer of such sentences is not asked about.
        telling = [sentence for sentence in sentences if not says_nothing(sentence.text)]
        for batch in _even(telling, SENTENCES_PER_ASK):
            reply = yield self._extract(case, fence, sentences, batch)
            for sentence in batch:
                extracted.take(sentence.id, getattr(reply.value, sentence.id))
        claims = list(extracted.claims.values())
        if not claims:
            record = _record(case, sent, sentences, extracted, {})
            return NotApplicable(NotApplicableReason.NO_CLAIMS, record)
        replies: dict[str, tuple[ClaimVerdict, float | None]] = {}
        for group in _even(claims, CLAIMS_PER_ASK):
            reply = yield self._verify(case, fence, sent, group)
            for claim in group:
                replies[claim.id] = (getattr(reply.value, claim.id), _supported(reply, claim.id))
        record = _record(case, sent, sentences, extracted, replies)
        score = record.score
        if score is None:
            raise AssertionError("a record with claims has a score")
        label = "supported" if score == 1 else "unsupported"
        return Scored(
            record=record,
            score=score,
            label=label,
            token_confidence=_confidence(label, [claim.probability_supported for claim in record.claims]),
            verbalised_confidence=_confidence(
                label,
                [
                    (claim.confidence if claim.verdict == "supported" else 100 - claim.confidence) / 100
                    for claim in record.claims
                ],
            ),
        )

    def _extract(
        self, case: FaithfulnessCase, fence: Fence, sentences: Sequence[Sentence], batch: Sequence[Sentence]
    ) -> Ask:
        ids = tuple(sentence.id for sentence in batch)
        at = sentences.index(batch[0])
        before = sentences[max(0, at - _BEFORE) : at] if len(batch) < len(sentences) else ()
        user = render(
            _PACKAGE,
            "extract.md.j2",
            question=_question(case, fence),
            before=fence.block("text before", "\n".join(one_line(s.text) for s in before)) if before else None,
            sentences=fence.block("sentences", "\n".join(f"{s.id}: {one_line(s.text)}" for s in batch)),
            ids=_range(ids),
        )
        return Ask(
            step="extract",
            messages=(
                Message("system", render(_PACKAGE, "extract_system.md.j2", most=CLAIMS_PER_SENTENCE)),
                # A turn as example: without it a small judge model leaves every list empty, because its tokenizer
                # writes an opening bracket and quote as one token. It is the same in every prompt.
                Message("user", render(_PACKAGE, "extract_example.md.j2")),
                Message("assistant", render(_PACKAGE, "extract_example_reply.md.j2")),
                Message("user", user),
            ),
            constraint=json_constraint(extraction_model(ids)),
            verdicts={},
            items={sentence.id: sentence.text for sentence in batch},
            question=case.question,
        )

    def _verify(
        self, case: FaithfulnessCase, fence: Fence, sent: Mapping[str, Passage], claims: Sequence[_Claim]
    ) -> Ask:
        ids = tuple(claim.id for claim in claims)
        user = render(
            _PACKAGE,
            "verify.md.j2",
            contexts=[fence.block(name, passage.shown) for name, passage in sent.items()],
            question=_question(case, fence),
            claims=fence.block("claims", "\n".join(f"{claim.id}: {one_line(claim.text)}" for claim in claims)),
            ids=_range(ids),
        )
        return Ask(
            step="verify",
            messages=(Message("system", render(_PACKAGE, "verify_system.md.j2")), Message("user", user)),
            constraint=json_constraint(verification_model(ids, tuple(sent))),
            verdicts={name: VerdictField((name, "verdict"), tuple(VERDICTS)) for name in ids},
            items={claim.id: claim.text for claim in claims},
            passages={name: passage.text for name, passage in sent.items()},
            question=case.question,
        )

    def sample_constraints(self) -> Mapping[str, Constraint]:
        """Three sentences; three claims over two contexts; and the largest batch of each step."""
        return {
            "extract": json_constraint(extraction_model(("s1", "s2", "s3"))),
            "verify": json_constraint(verification_model(("c1", "c2", "c3"), ("ctx1", "ctx2"))),
            "extract.largest": json_constraint(extraction_model(_ids("s", SENTENCES_PER_ASK))),
            "verify.largest": json_constraint(verification_model(_ids("c", CLAIMS_PER_ASK), _ids("ctx", 10))),
        }


def _ids(prefix: str, count: int) -> tuple[str, ...]:
    return tuple(f"{prefix}{number}" for number in range(1, count + 1))


def _range(ids: Sequence[str]) -> str:
    """`c1`, or `c1, c2`, or `c1 to c5`: short, since the judge reads it in every prompt."""
    return ", ".join(ids) if len(ids) < 3 else f"{ids[0]} to {ids[-1]}"


def _even(items: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    """Batches of nearly equal size, none above `most`, in order."""
    batches = -(-len(items) // most)
    for number in range(batches):
        yield items[number * len(items) // batches : (number + 1) * len(items) // batches]


def _question(case: FaithfulnessCase, fence: Fence) -> str | None:
    return None if case.question is None or is_blank(case.question) else fence.block("question", case.question)


def _supported(reply: Reply, claim_id: str) -> float | None:
    read = reply.probabilities.get(claim_id)
    return None if read is None else min(max(read.values.get("supported", 0.0), 0.0), 1.0)


def _confidence(label: str, supported: Sequence[float | None]) -> float | None:
    known = [value for value in supported if value is not None]
    if not known or len(known) < len(supported):
        return None
    weakest = min(known)
    return weakest if label == "supported" else 1 - weakest


def _record(
    case: FaithfulnessCase,
    sent: Mapping[str, Passage],
    sentences: Sequence[Sentence],
    extracted: _Extracted,
    replies: Mapping[str, tuple[ClaimVerdict, float | None]],
) -> FaithfulnessRecord:
    folded = {name: Folded(passage.text) for name, passage in sent.items()}
    claims = []
    for claim in extracted.claims.values():
        verdict, probability = replies[claim.id]
        claims.append(
            ClaimRecord(
                id=claim.id,
                text=claim.text,
                sentence=claim.sentence,
                also_in=tuple(claim.also_in),
                at_length_limit=claim.at_limit,
                evidence=_evidence(case, folded, verdict),
                rationale=verdict.rationale,
                verdict=verdict.verdict,
                confidence=verdict.confidence,
                probability_supported=probability,
            )
        )
    supported = tuple(claim.text for claim in claims if claim.verdict == "supported")
    with_claims = {name for claim in claims for name in (claim.sentence, *claim.also_in)}
    return FaithfulnessRecord(
        outcome=Outcome.SCORED if claims else Outcome.NOT_APPLICABLE,
        extracted_claims=tuple(claim.text for claim in claims),
        supported_claims=supported,
        unsupported_claims=tuple(claim.text for claim in claims if claim.verdict != "supported"),
        failure_mode=fold_failure_mode(claim.verdict for claim in claims),
        rationale=_rationale(claims, len(supported)),
        claims=tuple(claims),
        sentences=tuple(SentenceRecord(id=s.id, start=s.start, end=s.end, text=s.text) for s in sentences),
        sentences_without_claims=tuple(s.id for s in sentences if s.id not in with_claims),
        sentences_at_limit=tuple(extracted.at_limit),
        merged=extracted.merged,
        blank=extracted.blank,
    )


def _evidence(case: FaithfulnessCase, folded: Mapping[str, Folded], verdict: ClaimVerdict) -> Evidence:
    if verdict.context == NO_CONTEXT:
        return Evidence(context=None, context_id=None, quote=verdict.quote, found=False)
    # A quote at its length limit may have been cut inside a word.
    span = folded[verdict.context].find(verdict.quote, cut=len(verdict.quote) == QUOTE_LENGTH)
    position = int(verdict.context.removeprefix("ctx")) - 1
    return Evidence(
        context=position,
        context_id=case.contexts[position].id,
        quote=verdict.quote,
        found=span is not None,
        start=None if span is None else span.start,
        end=None if span is None else span.end,
    )


def _rationale(claims: Sequence[ClaimRecord], supported: int) -> str:
    if not claims:
        return "The answer states no fact that could be checked."
    noun = "claim is" if len(claims) == 1 else "claims are"
    reasons = [f"{claim.id} {claim.verdict}: {claim.rationale}" for claim in claims if claim.verdict != "supported"]
    return " ".join([f"{supported} of {len(claims)} {noun} supported.", *reasons])


RUBRIC: Rubric[Any] = Faithfulness()
