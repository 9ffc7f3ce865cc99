"""What to do about each reason why a case has no score. One sentence a reason, for reports and pages."""

from collections.abc import Mapping

from judge_service.domain.outcome import JudgeErrorReason as Reason

FIXES: Mapping[str, str] = {
    Reason.PARSE_ERROR: "Read a raw reply. A judge with grammar or provider enforcement cannot answer in prose.",
    Reason.SCHEMA_ERROR: "Check the judge: `judge-service judges check` names what its backend ignores.",
    Reason.TRUNCATED: "Raise the judge's `sampling.max_tokens`, or shorten the cases.",
    Reason.JUDGE_REFUSED: "The model declined to judge. Use another judge for these cases.",
    Reason.CONTENT_FILTERED: "The provider's filter stopped the reply. Use another judge for these cases.",
    Reason.CONTEXT_OVERFLOW: "The case is longer than the model reads. Use a judge with a longer context.",
    Reason.TIMEOUT: "Raise the judge's `limits.timeout_s` or lower its concurrency, then retry the failed cases.",
    Reason.RATE_LIMITED: "Lower the judge's `limits.requests_per_minute`, then retry the failed cases.",
    Reason.PROVIDER_ERROR: "See the provider's message in a call, then retry the failed cases.",
    Reason.MISSING_VERDICT: "The reply left something out. A judge with grammar or provider enforcement cannot.",
    Reason.ID_MISMATCH: "The reply names what was not sent. A judge with grammar or provider enforcement cannot.",
    Reason.DUPLICATE_VERDICT: "The reply judges one thing twice. A judge with grammar or provider enforcement cannot.",
    Reason.INCOMPLETE_PAIR: "One order has no verdict. See the failed call, then retry the failed cases.",
    Reason.BUDGET: "The judge's money or token limit was reached. Raise `limits`, then resume the run.",
    "inconsistent": "The two orders disagree: count these apart, or give the pair to people.",
    "not_judged": "The run has not judged these cases. Resume it.",
    "not_applicable": "There was nothing to judge. These cases are in no mean.",
}
"""By reason of a judge error, else by outcome."""


def fix_for(outcome: str, reason: str | None) -> str:
    """What to do about an outcome with its reason."""
    return FIXES.get(reason or "", FIXES.get(outcome, "See the judgments of these cases."))
