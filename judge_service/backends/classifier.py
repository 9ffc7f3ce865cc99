"""Backend `classifier`: any callable that gives a probability that a text is supported by a passage.

Owns how its numbers become verdicts. Knows no model: an entailment model is the callable's own business.
"""

import asyncio
import importlib
import inspect
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import cast

from pydantic import BaseModel, ConfigDict, Field

from judge_service.backends.base import (
    BackendFailure,
    Capabilities,
    CompileReport,
    Completion,
    ProbeResult,
    Request,
)
from judge_service.backends.filling import Decision, fill_reply
from judge_service.backends.transport import raise_unusable, read_options
from judge_service.domain.call import Usage
from judge_service.domain.judge import Judge
from judge_service.domain.outcome import Enforcement, JudgeErrorReason
from judge_service.settings import Settings
from rubrics.model import Constraint

Classifier = Callable[[str, str], float | Awaitable[float]]
"""`(passage, claim)` to the probability, 0 to 1, that the passage supports the claim. May be a coroutine function."""

_POSITIVE = ("supported", "full", "supports", "yes", "relevant")
_NEGATIVE = ("fabrication", "unsupported", "not_supported", "none", "no", "irrelevant")


class ClassifierOptions(BaseModel):
    """Options of a judge with backend `classifier`.

    `function` is `package.module:name` of a callable (see `Classifier`). A claim counts as supported when the
    largest probability over its passages reaches `threshold`. `positive` and `negative` name the two labels to give
    where the rubric's own names are not obvious.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    function: str = Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")
    threshold: float = Field(default=0.5, gt=0, le=1, allow_inf_nan=False)
    positive: str | None = None
    negative: str | None = None


class ClassifierBackend:
    """Verdicts from a classifier. A plain function runs in a thread, so that the event loop goes on."""

    def __init__(
        self,
        classify: Classifier,
        *,
        model: str = "classifier",
        threshold: float = 0.5,
        positive: str | None = None,
        negative: str | None = None,
    ) -> None:
        self._classify = classify
        self._model = model
        self._threshold = threshold
        self._positive = positive
        self._negative = negative
        self.capabilities = Capabilities(enforcement=Enforcement.NONE, logprobs=True, is_model=True)

    def compile(self, constraint: Constraint) -> CompileReport:
        """Every constraint is filled from its own schema."""
        return CompileReport(Enforcement.NONE)

    async def complete(self, request: Request) -> Completion:
        """One verdict for each item, with its probability. Raises BackendFailure."""
        ask = request.ask
        if request.subject.order is not None:
            raise BackendFailure(
                JudgeErrorReason.PROVIDER_ERROR, "A classifier says whether a claim is supported; it compares no pairs."
            )
        try:
            async with asyncio.timeout(request.timeout_s):
                decisions = {
                    key: await self._decide(
                        ask.items.get(key) or next((ask.items[part] for part in field.path if part in ask.items), ""),
                        ask.passages,
                        field.values,
                    )
                    for key, field in ask.verdicts.items()
                }
        except TimeoutError:
            raise BackendFailure(
                JudgeErrorReason.TIMEOUT,
                f"The classifier gave no answer within {request.timeout_s:g} s.",
                retryable=True,
            ) from None
        text, tokens = fill_reply(ask, decisions)
        return Completion(text, "stop", self._model, Enforcement.NONE, usage=Usage(cost_usd=0.0), tokens=tokens)

    async def _decide(self, claim: str, passages: Mapping[str, str], values: Sequence[str]) -> Decision:
        positive, negative = self._labels(values)
        best: str | None = None
        probability = 0.0
        for name, text in passages.items():
            found = await self._probability(text, claim)
            if best is None or found > probability:
                best, probability = name, found
        supported = best is not None and probability >= self._threshold
        return Decision(
            label=positive if supported else negative,
            why=f"Probability of support {probability:.3f}.",
            share=probability if supported else 1 - probability,
            passage=best,
            probabilities={positive: probability, negative: 1 - probability},
        )

    def _labels(self, values: Sequence[str]) -> tuple[str, str]:
        wanted = (self._positive, *_POSITIVE), (self._negative, *_NEGATIVE)
        found = [next((label for label in names if label in values), None) for names in wanted]
        if found[0] is None or found[1] is None or found[0] == found[1]:
            raise BackendFailure(
                JudgeErrorReason.PROVIDER_ERROR,
                f"The classifier does not know which of {', '.join(values)} mean support and no support: "
                "set the options `positive` and `negative`.",
            )
        return found[0], found[1]

    async def _probability(self, passage: str, claim: str) -> float:
        try:
            if inspect.iscoroutinefunction(self._classify):
                value = await self._classify(passage, claim)
            else:
                value = await asyncio.to_thread(self._classify, passage, claim)
        except Exception as error:
            # The callable is the user's: whatever it raises is a failed call, not a failed service.
            raise BackendFailure(
                JudgeErrorReason.PROVIDER_ERROR, f"The classifier raised {type(error).__name__}."
            ) from error
        number = float(value) if isinstance(value, int | float) or hasattr(value, "__float__") else math.nan
        if not 0 <= number <= 1:
            raise BackendFailure(
                JudgeErrorReason.SCHEMA_ERROR, "The classifier gave something that is not a probability from 0 to 1."
            )
        return number

    async def count_tokens(self, request: Request) -> int | None:
        """Not known."""
        return None

    async def probe(self) -> ProbeResult:
        """Call it once with a sentence and itself."""
        try:
            value = await self._probability("The bridge opened in 1931.", "The bridge opened in 1931.")
        except BackendFailure as failure:
            return ProbeResult(False, None, True, self._model, failure.message)
        return ProbeResult(True, None, True, self._model, f"A sentence supports itself with probability {value:.2f}.")

    async def aclose(self) -> None:
        """Nothing to release."""


def load_function(path: str) -> Classifier:
    """The callable at `package.module:name`. Raises ValueError that says what is missing."""
    module_name, _, name = path.partition(":")
    try:
        found: object = importlib.import_module(module_name)
        for step in name.split("."):
            found = getattr(found, step)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{path} cannot be imported: {type(error).__name__}") from error
    if not callable(found):
        raise ValueError(f"{path} is not callable")
    return cast("Classifier", found)


def open_backend(judge: Judge, settings: Settings) -> ClassifierBackend:
    """A backend for a configured judge. Raises ConfigurationError naming the wrong option."""
    options = read_options(judge, ClassifierOptions)
    try:
        function = load_function(options.function)
    except ValueError as error:
        raise_unusable(judge, "options.function", str(error))
    return ClassifierBackend(
        function,
        model=judge.model or options.function,
        threshold=options.threshold,
        positive=options.positive,
        negative=options.negative,
    )
