"""Reasons of a judge error and the enforcement reached: the vocabulary that every record uses."""

from enum import StrEnum

from rubrics.records import NotApplicableReason, Outcome

__all__ = ["Enforcement", "JudgeErrorReason", "NotApplicableReason", "Outcome"]


class JudgeErrorReason(StrEnum):
    """Why a case has no verdict although there was something to judge."""

    PARSE_ERROR = "parse_error"
    SCHEMA_ERROR = "schema_error"
    TRUNCATED = "truncated"
    JUDGE_REFUSED = "judge_refused"
    CONTENT_FILTERED = "content_filtered"
    CONTEXT_OVERFLOW = "context_overflow"
    TIMEOUT = "timeout"
    RATE_LIMITED = "rate_limited"
    PROVIDER_ERROR = "provider_error"
    MISSING_VERDICT = "missing_verdict"
    ID_MISMATCH = "id_mismatch"
    DUPLICATE_VERDICT = "duplicate_verdict"
    INCOMPLETE_PAIR = "incomplete_pair"
    BUDGET = "budget"


class Enforcement(StrEnum):
    """What guaranteed the shape of a reply.

    `grammar`: the decoder cannot leave the schema. `provider`: the provider promises it. `reask`: validated and
    asked again. `none`: nothing but validation, or no model at all.
    """

    GRAMMAR = "grammar"
    PROVIDER = "provider"
    REASK = "reask"
    NONE = "none"
