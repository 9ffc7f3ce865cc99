"""Backend `recorded`: verdicts from a file, of a judge that was run elsewhere.

Owns how a verdict file is read and joined by case and order. Asks nothing and guesses nothing: what was not recorded
is a missing verdict, what could not be parsed then is a parse error now.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from judge_service.backends.base import (
    BackendFailure,
    Capabilities,
    CompileReport,
    Completion,
    ProbeResult,
    Request,
)
from judge_service.backends.filling import Decision, fill_reply, pair_labels
from judge_service.backends.transport import raise_unusable, read_options
from judge_service.domain.judge import Judge
from judge_service.domain.outcome import Enforcement, JudgeErrorReason
from judge_service.settings import Settings
from rubrics.model import Constraint
from rubrics.records import Order

_UNSUPPORTED = ("unsupported", "not_supported", "partially_supported", "contradicted")


class RecordedVerdict(BaseModel):
    """One line of a verdict file; further fields are ignored.

    `verdict` of a pair is by the position shown (`first`, `second`, `tie`) or, without an `order`, by the caller's
    answers (`A`, `B`, `tie`); otherwise a label. Null: the judge's output could not be read then (`raw` shows it).
    `score` is its number from 0 to 1; several lines of one case (one an excerpt) count with their largest.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    case_id: str = Field(min_length=1)
    judge: str | None = None
    strategy: str | None = None
    order: Order | None = None
    verdict: str | None = None
    score: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    raw: str | None = None


class RecordedOptions(BaseModel):
    """Options of a judge with backend `recorded`.

    `file` is JSONL of `RecordedVerdict`. `judge` and `strategy` pick lines; they are needed where a file holds
    several. `labels` maps recorded verdicts to the rubric's labels. Lines with a score and no verdict are
    `positive` when the score exceeds `threshold`, else `negative`; with `probability` the score is also given as the
    probability of `positive`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: Path
    judge: str | None = None
    strategy: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    threshold: float = Field(default=0.5, ge=0, le=1, allow_inf_nan=False)
    positive: str = "supported"
    negative: str = "unsupported"
    probability: bool = False


Key = tuple[str, Order | None]


class RecordedBackend:
    """Looks verdicts up by case id and order."""

    def __init__(
        self,
        verdicts: Mapping[Key, RecordedVerdict],
        options: RecordedOptions,
        *,
        model: str,
        revision: str | None = None,
    ) -> None:
        self._verdicts = verdicts
        self._options = options
        self._model = model
        self.capabilities = Capabilities(
            enforcement=Enforcement.NONE, logprobs=options.probability, deterministic=True, revision=revision
        )

    def compile(self, constraint: Constraint) -> CompileReport:
        """Every constraint is filled from its own schema."""
        return CompileReport(Enforcement.NONE)

    async def complete(self, request: Request) -> Completion:
        """The recorded verdict as a reply. Raises BackendFailure where there is none, or an unreadable one."""
        ask = request.ask
        found = self._find(request.subject.case_id, request.subject.order) if ask.verdicts else None
        decisions = {
            key: self._decision(found, request, field.values)
            for key, field in ask.verdicts.items()
            if found is not None
        }
        text, tokens = fill_reply(ask, decisions)
        return Completion(text, "stop", self._model, Enforcement.NONE, tokens=tokens)

    def _find(self, case_id: str, order: Order | None) -> RecordedVerdict:
        found = self._verdicts.get((case_id, order)) or self._verdicts.get((case_id, None))
        if found is None:
            where = "" if order is None else f" in order {order}"
            raise BackendFailure(
                JudgeErrorReason.MISSING_VERDICT, f"No verdict is recorded for case `{case_id}`{where}."
            )
        if found.verdict is None and found.score is None:
            raise BackendFailure(
                JudgeErrorReason.PARSE_ERROR, "The recorded verdict is null: it could not be read then.", raw=found.raw
            )
        return found

    def _decision(self, found: RecordedVerdict, request: Request, values: Sequence[str]) -> Decision:
        options = self._options
        why = found.raw or "Recorded."
        if found.verdict is None:
            # One of the two is set, or it would not have been found.
            score = found.score or 0.0
            label = self._label(options.positive if score > options.threshold else options.negative, values)
            return Decision(label, why, max(score, 1 - score), probabilities=self._probabilities(score, values))
        if request.subject.order is None:
            return Decision(self._label(found.verdict, values), why)
        pair = pair_labels(request.ask, values, request.subject.order)
        names = {"first": pair.first, "second": pair.second}
        if found.order is None:
            names = {"A": pair.a, "B": pair.b}
        if pair.tie is not None:
            names["tie"] = pair.tie
        wanted = options.labels.get(found.verdict, found.verdict)
        if wanted not in names:
            raise _unknown(found.verdict, names)
        return Decision(names[wanted], why)

    def _label(self, verdict: str, values: Sequence[str]) -> str:
        wanted = self._options.labels.get(verdict, verdict)
        if wanted in values:
            return wanted
        if wanted in _UNSUPPORTED and "supported" in values:
            return next(value for value in values if value != "supported")
        raise _unknown(verdict, values)

    def _probabilities(self, score: float, values: Sequence[str]) -> dict[str, float]:
        if not self._options.probability:
            return {}
        return {
            self._label(self._options.positive, values): score,
            self._label(self._options.negative, values): 1 - score,
        }

    async def count_tokens(self, request: Request) -> int | None:
        """Nothing is sent."""
        return None

    async def probe(self) -> ProbeResult:
        """How many verdicts are loaded."""
        cases = len({case_id for case_id, _ in self._verdicts})
        return ProbeResult(True, None, self._options.probability, self._model, f"Verdicts on {cases} cases are loaded.")

    async def aclose(self) -> None:
        """Nothing to release."""


def _unknown(verdict: str, allowed: Iterable[str]) -> BackendFailure:
    return BackendFailure(
        JudgeErrorReason.SCHEMA_ERROR,
        f"The recorded verdict {verdict!r} is none of: {', '.join(allowed)}. Map it with the option `labels`.",
    )


def read_verdicts(lines: Iterable[str], *, judge: str | None, strategy: str | None) -> dict[Key, RecordedVerdict]:
    """Verdicts by case and order, of one judge and strategy.

    Lines of the same case and order are joined when all have a score (the largest counts). Raises ValueError that
    names the line, or the judges or strategies to choose from.
    """
    judges: set[str | None] = set()
    strategies: set[str | None] = set()

    def chosen() -> Iterator[tuple[int, RecordedVerdict]]:
        for number, row in _rows(lines):
            judges.add(row.judge)
            if judge is not None and row.judge != judge:
                continue
            strategies.add(row.strategy)
            if strategy is None or row.strategy == strategy:
                yield number, row

    rows = list(chosen())
    for name, given, seen in (("judge", judge, judges), ("strategy", strategy, strategies)):
        if given not in seen if given is not None else len(seen) > 1:
            listed = ", ".join(sorted(str(value) for value in seen if value is not None))
            raise ValueError(f"set the option `{name}` to one of: {listed}")
    if not rows:
        raise ValueError("there is no verdict in it")
    found = group_verdicts(rows)
    return {key: decisive(same) for of_one in found.values() for key, same in of_one.items()}


def group_verdicts(
    rows: Iterable[tuple[int, RecordedVerdict]],
) -> dict[tuple[str | None, str | None], dict[Key, list[RecordedVerdict]]]:
    """Numbered lines by judge and strategy, then by case and order.

    Several lines of one case and order are allowed when all have a score. Raises ValueError naming the second line.
    """
    found: dict[tuple[str | None, str | None], dict[Key, list[RecordedVerdict]]] = {}
    for number, row in rows:
        same = found.setdefault((row.judge, row.strategy), {}).setdefault((row.case_id, row.order), [])
        if same and (row.score is None or same[0].score is None):
            raise ValueError(f"line {number}: case {row.case_id!r} has a second verdict in the same order")
        same.append(row)
    return found


def decisive(same: Sequence[RecordedVerdict]) -> RecordedVerdict:
    """The line that counts for a case and order: the only one, else the one with the largest score."""
    return max(same, key=lambda row: row.score or 0.0)


def _rows(lines: Iterable[str]) -> Iterator[tuple[int, RecordedVerdict]]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            value: Any = json.loads(line)
            yield number, RecordedVerdict.model_validate(value)
        except ValidationError as error:
            first = error.errors(include_input=False)[0]
            raise ValueError(f"line {number}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
        except ValueError:
            raise ValueError(f"line {number}: not JSON") from None


def open_backend(judge: Judge, settings: Settings) -> RecordedBackend:
    """A backend for a configured judge. Raises ConfigurationError naming the wrong option or line."""
    options = read_options(judge, RecordedOptions)
    try:
        content = options.file.read_bytes()
        lines = content.decode("utf-8").split("\n")
        verdicts = read_verdicts(lines, judge=options.judge, strategy=options.strategy)
    except OSError as error:
        raise_unusable(judge, "options.file", f"{options.file.name} cannot be read: {type(error).__name__}")
    except ValueError as error:
        raise_unusable(judge, "options.file", f"{options.file.name}: {error}")
    revision = hashlib.sha256(content).hexdigest()
    return RecordedBackend(verdicts, options, model=judge.model or options.judge or judge.name, revision=revision)
