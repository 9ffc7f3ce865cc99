"""What faithfulness@1 reads, lets a judge write, publishes and asks of people.

Owns the record's rules: which claims exist, how they are divided, and which failure mode that makes.
"""

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model, field_validator, model_validator

from rubrics.quotes import fold
from rubrics.records import CaseInput, DecodingModel, HumanLabel, Outcome, Record
from rubrics.texts import Passage, says_nothing

Verdict = Literal["supported", "fabrication", "overgeneralization", "wrong_entity", "stale_fact"]
FailureMode = Literal["none", "fabrication", "overgeneralization", "wrong_entity", "stale_fact"]
VERDICTS: tuple[Verdict, ...] = ("supported", "fabrication", "overgeneralization", "wrong_entity", "stale_fact")
FAILURE_MODES: tuple[FailureMode, ...] = ("none", "fabrication", "overgeneralization", "wrong_entity", "stale_fact")
Confidence = Literal[0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]

CLAIMS_PER_SENTENCE = 4
CLAIM_LENGTH = 200
SENTENCES_PER_ASK = 6
CLAIMS_PER_ASK = 12
QUOTE_LENGTH = 120
RATIONALE_LENGTH = 100
NO_CONTEXT = "none"


class FaithfulnessCase(CaseInput):
    """An answer, and the contexts that should support it. A context is a text or an object with id, text, title.

    Contexts that are missing, null or blank are the same: nothing to support the answer.
    """

    question: str | None = None
    contexts: tuple[Passage, ...] = ()
    answer: str

    @field_validator("contexts", mode="before")
    @classmethod
    def _null_is_empty(cls, value: Any) -> Any:
        if value is None:
            return ()
        if isinstance(value, list | tuple):
            return [{"text": ""} if item is None else item for item in value]
        return value


@lru_cache(maxsize=512)
def extraction_model(sentence_ids: tuple[str, ...]) -> type[DecodingModel]:
    """A reply to the extract step: one required list of claims per sentence id, possibly empty."""
    claims = tuple[Annotated[str, Field(min_length=1, max_length=CLAIM_LENGTH)], ...]
    fields: dict[str, Any] = {
        sentence_id: (Annotated[claims, Field(max_length=CLAIMS_PER_SENTENCE)], ...) for sentence_id in sentence_ids
    }
    return create_model("Extraction", __base__=DecodingModel, **fields)


class ClaimVerdict(DecodingModel):
    """What a judge writes on one claim: evidence and rationale first, then the verdict, then its confidence in it.

    The id of the context is an enum of those sent, so every use narrows `context`.
    """

    context: str
    quote: Annotated[str, Field(max_length=QUOTE_LENGTH)]
    rationale: Annotated[str, Field(max_length=RATIONALE_LENGTH)]
    verdict: Verdict
    confidence: Confidence


@lru_cache(maxsize=512)
def _claim_verdict_model(context_ids: tuple[str, ...]) -> type[ClaimVerdict]:
    allowed = Literal[(*context_ids, NO_CONTEXT)]  # type: ignore[valid-type]  # an enum of the ids that were sent
    return create_model("ClaimVerdict", __base__=ClaimVerdict, context=(allowed, ...))


@lru_cache(maxsize=1024)
def verification_model(claim_ids: tuple[str, ...], context_ids: tuple[str, ...]) -> type[DecodingModel]:
    """A reply to the verify step: one required closed object per claim id."""
    fields: dict[str, Any] = {claim_id: (_claim_verdict_model(context_ids), ...) for claim_id in claim_ids}
    return create_model("Verification", __base__=DecodingModel, **fields)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SentenceRecord(_Part):
    """One sentence of the answer: `text` is `answer[start:end]`."""

    id: str
    start: int = Field(ge=0)
    end: int = Field(ge=0)
    text: str


class Evidence(_Part):
    """Where a judge saw a claim decided.

    `context` is the position in the case's contexts (from 0), null where the judge named none; `context_id` the
    caller's id. `found` says whether the quote stands there; then `context.text[start:end]` is it. A quote that is not
    found is kept as it was given.
    """

    context: int | None = Field(ge=0)
    context_id: str | None
    quote: str
    found: bool
    start: int | None = Field(default=None, ge=0)
    end: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _offsets_belong_to_found_quotes(self) -> "Evidence":
        if self.found != (self.start is not None) or self.found != (self.end is not None):
            raise ValueError("exactly a quote that was found has offsets")
        if self.found and self.context is None:
            raise ValueError("a quote is found in a context")
        if self.start is not None and self.end is not None and self.start >= self.end:
            raise ValueError("a quote that was found is not empty")
        return self


class ClaimRecord(_Part):
    """One claim with its verdict. `also_in` are sentences whose equal claims were merged into this one.

    `at_length_limit`: the claim fills the length limit and may have been cut there. `probability_supported` is the
    token probability of `supported`; null where the judge model gives none. `confidence` is the judge's own, 0 to 100.
    """

    id: str
    text: str
    sentence: str
    also_in: tuple[str, ...] = ()
    at_length_limit: bool = False
    evidence: Evidence
    rationale: str
    verdict: Verdict
    confidence: int = Field(ge=0, le=100)
    probability_supported: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)


class FaithfulnessRecord(Record):
    """Which claims the answer makes and which of them the contexts support.

    `extracted_claims` are divided completely into `supported_claims` and `unsupported_claims`; `claims` holds the
    details in the order of `extracted_claims`. `failure_mode` is the most frequent kind of failure, ties by the
    declared order. `sentences_at_limit` filled their list of claims, so more may have been meant; `merged` counts
    claims that equalled an earlier one, `blank` items that stated nothing.
    """

    outcome: Literal[Outcome.SCORED, Outcome.NOT_APPLICABLE]
    extracted_claims: tuple[str, ...]
    supported_claims: tuple[str, ...]
    unsupported_claims: tuple[str, ...]
    failure_mode: FailureMode
    rationale: str
    claims: tuple[ClaimRecord, ...]
    sentences: tuple[SentenceRecord, ...]
    sentences_without_claims: tuple[str, ...]
    sentences_at_limit: tuple[str, ...] = ()
    merged: int = Field(default=0, ge=0)
    blank: int = Field(default=0, ge=0)

    @property
    def score(self) -> float | None:
        """Supported claims / extracted claims; None without claims."""
        return len(self.supported_claims) / len(self.extracted_claims) if self.extracted_claims else None

    @model_validator(mode="after")
    def _no_contradiction(self) -> "FaithfulnessRecord":
        extracted = self.extracted_claims
        if any(says_nothing(claim) for claim in extracted):
            raise ValueError("a claim is blank")
        if len({claim_key(claim) for claim in extracted}) != len(extracted):
            raise ValueError("a claim is listed twice")
        if set(self.supported_claims) & set(self.unsupported_claims):
            raise ValueError("a claim is both supported and unsupported")
        if sorted((*self.supported_claims, *self.unsupported_claims)) != sorted(extracted):
            raise ValueError("supported and unsupported claims must together be the extracted claims")
        if (self.outcome is Outcome.SCORED) != bool(extracted):
            raise ValueError("exactly an answer with claims is scored")
        self._check_details()
        if self.failure_mode != fold_failure_mode(claim.verdict for claim in self.claims):
            raise ValueError("failure_mode must be the most frequent failure, `none` exactly when nothing failed")
        return self

    def _check_details(self) -> None:
        if tuple(claim.text for claim in self.claims) != self.extracted_claims:
            raise ValueError("claims must give the details of extracted_claims in order")
        if len({claim.id for claim in self.claims}) != len(self.claims):
            raise ValueError("a claim id is used twice")
        supported = tuple(claim.text for claim in self.claims if claim.verdict == "supported")
        if supported != self.supported_claims:
            raise ValueError("supported_claims must be the claims whose verdict is `supported`, in order")
        unsupported = tuple(claim.text for claim in self.claims if claim.verdict != "supported")
        if unsupported != self.unsupported_claims:
            raise ValueError("unsupported_claims must be the claims whose verdict is a failure, in order")
        ids = [sentence.id for sentence in self.sentences]
        if len(set(ids)) != len(ids):
            raise ValueError("a sentence id is used twice")
        with_claims = {name for claim in self.claims for name in (claim.sentence, *claim.also_in)}
        if not with_claims <= set(ids):
            raise ValueError("a claim names a sentence that does not exist")
        if self.sentences_without_claims != tuple(name for name in ids if name not in with_claims):
            raise ValueError("sentences_without_claims must list the sentences that no claim comes from, in order")
        if not set(self.sentences_at_limit) <= with_claims | set(self.sentences_without_claims):
            raise ValueError("sentences_at_limit names a sentence that does not exist")


def claim_key(claim: str) -> str:
    """What makes two claims equal: their words in one spelling, without case and closing punctuation."""
    return fold(claim).casefold().rstrip(" .!;,:")


def fold_failure_mode(verdicts: Iterable[str]) -> FailureMode:
    """The most frequent failure, ties by declared order; `none` when every claim is supported."""
    counts = Counter(verdicts)
    failures = [mode for mode in FAILURE_MODES if mode != "none" and counts[mode]]
    return max(failures, key=lambda mode: counts[mode], default="none")


class Span(_Part):
    """`answer[start:end]` in code points."""

    start: int = Field(ge=0)
    end: int = Field(gt=0)

    @model_validator(mode="after")
    def _not_empty(self) -> "Span":
        if self.start >= self.end:
            raise ValueError("a span must not be empty")
        return self


class FaithfulnessLabel(HumanLabel):
    """A person's answer: is everything the answer claims supported by the contexts? Optionally what is not."""

    label: Literal["supported", "unsupported", "cannot_say"]
    failure_mode: FailureMode | None = None
    unsupported_spans: tuple[Span, ...] = ()

    @model_validator(mode="after")
    def _details_fit(self) -> "FaithfulnessLabel":
        failed = self.label == "unsupported"
        if self.failure_mode is not None and (self.failure_mode != "none") != failed:
            raise ValueError("exactly an unsupported answer has a failure mode")
        if self.unsupported_spans and not failed:
            raise ValueError("only an unsupported answer has unsupported spans")
        return self
