"""What citation_support@1 reads, lets a judge write, publishes and asks of people.

Owns the derived figures: recall, precision, coverage and weighted support of an answer's citations.
"""

from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, create_model, field_validator, model_validator

from rubrics.citations import MarkerStatus
from rubrics.records import CaseInput, DecodingModel, HumanLabel, Outcome, Record
from rubrics.texts import Passage

Support = Literal["full", "partial", "none"]
SUPPORTS: tuple[Support, ...] = ("full", "partial", "none")
Role = Literal["supports", "needed", "unneeded"]
ROLES: tuple[Role, ...] = ("supports", "needed", "unneeded")
YesNo = Literal["yes", "no"]
WEIGHTS: dict[Support, float] = {"full": 1.0, "partial": 0.5, "none": 0.0}

STATEMENTS_PER_ASK = 6
CITATIONS_PER_ASK = 24
RATIONALE_LENGTH = 160

Shape = tuple[tuple[str, tuple[int, ...]], ...]
"""Statement ids with the numbers of the known sources each cites."""


class CitationCase(CaseInput):
    """An answer with citation markers, and the sources in their order: `[1]` is the first. `sources` is accepted as
    another spelling of `contexts`.
    """

    question: str | None = None
    contexts: tuple[Passage, ...] = Field(default=(), validation_alias=AliasChoices("contexts", "sources"))
    answer: str

    @field_validator("contexts", mode="before")
    @classmethod
    def _null_is_empty(cls, value: Any) -> Any:
        if value is None:
            return ()
        if isinstance(value, list | tuple):
            return [{"text": ""} if item is None else item for item in value]
        return value


@lru_cache(maxsize=1024)
def statement_model(sources: tuple[int, ...]) -> type[DecodingModel]:
    """What a judge writes on one statement that cites these sources.

    Without a source only whether one is needed. With one source its role follows from the support; with more, each
    has a role before the joint support.
    """
    fields: dict[str, Any] = {}
    if sources:
        fields["rationale"] = (Annotated[str, Field(max_length=RATIONALE_LENGTH)], ...)
        if len(sources) > 1:
            fields.update({f"p{number}": (Role, ...) for number in sources})
        fields["support"] = (Support, ...)
    fields["needs_citation"] = (YesNo, ...)
    return create_model("StatementSupport", __base__=DecodingModel, **fields)


@lru_cache(maxsize=1024)
def support_model(shape: Shape) -> type[DecodingModel]:
    """A reply to the support step: one required closed object per statement id."""
    fields: dict[str, Any] = {statement_id: (statement_model(sources), ...) for statement_id, sources in shape}
    return create_model("CitationSupport", __base__=DecodingModel, **fields)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CitationRecord(_Part):
    """One source cited by one statement. `missing_source`: no such source, or one without text; it has no role.

    `counts`: the citation supports the statement alone or is needed for the joint support, and there is some support.
    """

    source: int = Field(ge=0)
    source_id: str | None = None
    status: Literal["known", "missing_source"]
    role: Role | None
    counts: bool


class MarkerProblem(_Part):
    """A marker that names no source as it is written: `answer[start:end]` is it."""

    text: str
    start: int = Field(ge=0)
    end: int = Field(gt=0)
    status: Literal[MarkerStatus.MALFORMED, MarkerStatus.OUT_OF_RANGE]


class StatementRecord(_Part):
    """One statement with its citations. `support` is null where no known source is cited."""

    id: str
    text: str
    start: int = Field(ge=0)
    end: int = Field(gt=0)
    citations: tuple[CitationRecord, ...]
    problems: tuple[MarkerProblem, ...] = ()
    support: Support | None
    needs_citation: bool | None
    rationale: str | None

    @model_validator(mode="after")
    def _no_contradiction(self) -> "StatementRecord":
        known = [citation for citation in self.citations if citation.status == "known"]
        if len({citation.source for citation in self.citations}) != len(self.citations):
            raise ValueError("a statement lists a source once")
        if (self.support is not None) != bool(known) and self.needs_citation is not None:
            raise ValueError("exactly a statement that cites a known source has support")
        for citation in self.citations:
            if (citation.role is not None) != (citation.status == "known" and self.support is not None):
                raise ValueError("exactly a judged citation of a known source has a role")
            supported = self.support in ("full", "partial")
            if citation.counts != (supported and citation.role in ("supports", "needed")):
                raise ValueError("a citation counts only if it supports alone or is needed, and there is support")
        if len(known) == 1 and self.support is not None and known[0].role != only_role(self.support):
            raise ValueError("the role of a statement's only citation follows from its support")
        return self

    @property
    def relevant(self) -> bool:
        """Does the statement carry a citation or need one? Others are left out of recall and weighted support."""
        return bool(self.citations) or self.needs_citation is True


def only_role(support: Support) -> Role:
    """The role of a statement's only known citation."""
    roles: dict[Support, Role] = {"full": "supports", "partial": "needed", "none": "unneeded"}
    return roles[support]


class CitationSupportRecord(Record):
    """How well an answer's citations support its statements.

    Over the statements that carry a citation or need one: `recall` is the share fully supported, `weighted_support`
    the mean of full 1, partial 0.5, none 0 (a statement without a known source has none). `precision`: citations that
    count / all citations, unknown sources included. `coverage`: statements that need a citation and have one / those
    that need one. A figure without a denominator is null. `missing_sources`: numbers cited that no source has.
    """

    outcome: Literal[Outcome.SCORED, Outcome.NOT_APPLICABLE]
    statements: tuple[StatementRecord, ...]
    recall: float | None = Field(ge=0, le=1, allow_inf_nan=False)
    precision: float | None = Field(ge=0, le=1, allow_inf_nan=False)
    coverage: float | None = Field(ge=0, le=1, allow_inf_nan=False)
    weighted_support: float | None = Field(ge=0, le=1, allow_inf_nan=False)
    missing_sources: tuple[int, ...]

    @model_validator(mode="after")
    def _figures_follow_from_statements(self) -> "CitationSupportRecord":
        ids = [statement.id for statement in self.statements]
        if len(set(ids)) != len(ids):
            raise ValueError("a statement id is used twice")
        scored = self.outcome is Outcome.SCORED
        if any((statement.needs_citation is not None) != scored for statement in self.statements):
            raise ValueError("exactly in a scored answer every statement was judged")
        expected = figures(self.statements) if scored else NO_FIGURES
        for name, value in expected.items():
            given = getattr(self, name)
            if (given is None) != (value is None) or (value is not None and abs(given - value) > 1e-9):
                raise ValueError(f"{name} does not follow from the statements")
        if scored and self.weighted_support is None:
            raise ValueError("a scored answer has a statement that carries or needs a citation")
        if self.missing_sources != missing(self.statements):
            raise ValueError("missing_sources must list the unknown numbers cited, sorted")
        return self


NO_FIGURES: dict[str, float | None] = dict.fromkeys(("recall", "precision", "coverage", "weighted_support"))


def figures(statements: tuple[StatementRecord, ...]) -> dict[str, float | None]:
    """Recall, precision, coverage and weighted support of judged statements; see CitationSupportRecord."""
    relevant = [statement for statement in statements if statement.relevant]
    citations = [citation for statement in statements for citation in statement.citations]
    needing = [statement for statement in statements if statement.needs_citation]
    return {
        "recall": _mean([statement.support == "full" for statement in relevant]),
        "precision": _mean([citation.counts for citation in citations]),
        "coverage": _mean([bool(statement.citations) for statement in needing]),
        "weighted_support": _mean([WEIGHTS[statement.support or "none"] for statement in relevant]),
    }


def _mean(values: list[Any]) -> float | None:
    return sum(map(float, values)) / len(values) if values else None


def missing(statements: tuple[StatementRecord, ...]) -> tuple[int, ...]:
    """Numbers cited that no source has, sorted."""
    unknown = {c.source for statement in statements for c in statement.citations if c.status == "missing_source"}
    return tuple(sorted(unknown))


class CitationLabel(HumanLabel):
    """A person's answer: how far do the cited passages support what the answer states with them?"""

    label: Literal["full", "partial", "none", "cannot_say"]
    needs_citation: bool | None = None
