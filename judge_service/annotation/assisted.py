"""What judges said about a case, for assisted labelling only: such labels are marked and enter no headline number."""

from pydantic import BaseModel, ConfigDict

from judge_service.domain.annotation import Project
from judge_service.domain.outcome import Outcome
from judge_service.store import Store
from rubrics.records import Order


class Suggestion(BaseModel):
    """One judge's verdict. `value` is in the frame of the form: `first` and `second` for a pair."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    judge: str
    value: str
    confidence: float | None = None


def suggestions(store: Store, project: Project, case_id: str, order: Order | None) -> tuple[Suggestion, ...]:
    """The newest scored verdict of each judge on the case's present content, by the name of the judge."""
    entry = store.sets.case(project.set_id, case_id)
    if entry is None:
        return ()
    found: dict[str, Suggestion] = {}
    for judgment in store.judgments.of_case(project.rubric_hash, entry.case.content_hash):
        if judgment.outcome is Outcome.SCORED and judgment.label is not None:
            confidence = None if judgment.confidence is None else judgment.confidence.value
            value = in_frame(judgment.label, order)
            found[judgment.judge] = Suggestion(judge=judgment.judge, value=value, confidence=confidence)
    return tuple(found[name] for name in sorted(found))


def in_frame(label: str, order: Order | None) -> str:
    """A label in the caller's frame as the form shows it."""
    if order is None or label not in ("A", "B"):
        return label
    return "first" if (label == "A") == (order == "AB") else "second"
