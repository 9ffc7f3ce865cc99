"""Recorded verdicts of judges that were run elsewhere, as judgments on a set's cases.

Owns how lines become judgments: both orders folded to one with both raw verdicts kept, an unreadable verdict a judge
error, a score a confidence. What a line of a verdict file is, is `backends.recorded`'s. Asks nothing.
"""

import hashlib
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from judge_service.backends.recorded import RecordedVerdict, decisive, group_verdicts
from judge_service.domain.calibration_set import SetCase, SetVersion
from judge_service.domain.call import Call, CallError
from judge_service.domain.canonical import canonical_json, content_hash
from judge_service.domain.case import Case
from judge_service.domain.judge import ConfidenceSource, Judge, OrderPolicy
from judge_service.domain.judgment import Confidence, Judgment
from judge_service.domain.outcome import Enforcement, JudgeErrorReason, Outcome
from judge_service.domain.run import SET_SOURCE, PlannedCase, Run, RunStatus
from judge_service.errors import Conflict, FieldProblem, InvalidInput
from judge_service.files.checks import MAX_PROBLEMS, on_row
from judge_service.files.source import Source
from judge_service.judging.cases import field_problems
from judge_service.judging.policies import fold_pair
from judge_service.reports.labelled_set import results
from judge_service.sets.importing import read_rubric
from judge_service.sets.shapes import CITED, SUPPORT
from judge_service.store import Store
from rubrics.library.refusal_v1.records import SCORES, cell_of
from rubrics.model import PairFold, Rubric, SlotVerdict
from rubrics.records import Order, Slot

SEPARATOR = "--"
"""Between judge and strategy in the name of a recorded judge: `GPT-4--Swap`."""
MOST_UNJOINED = 1000
LONGEST_NAME = 64
_SAME_FINDING = "the same judgments from other lines"
BATCH = 500

_SLOTS: Mapping[str, Slot] = {"first": "first", "second": "second", "tie": "tie"}
_ANSWERS: Mapping[str, Slot] = {"A": "first", "B": "second", "tie": "tie"}
_CREDIT: Mapping[str, float] = {"A": 1.0, "tie": 0.5, "B": 0.0}
_SYNONYMS: Mapping[str, Mapping[str, str]] = {"faithfulness": SUPPORT, "citation_support": CITED}
_CYRILLIC = {
    letters[0]: letters[1:]
    for letters in [
        "аa",
        "бb",
        "вv",
        "гg",
        "дd",
        "еe",
        "жzh",
        "зz",
        "иi",
        "йy",
        "кk",
        "лl",
        "мm",
        "нn",
        "оo",
        "пp",
        "рr",
        "сs",
        "тt",
        "уu",
        "фf",
        "хkh",
        "цts",
        "чch",
        "шsh",
        "щshch",
        "ъ",
        "ыy",
        "ь",
        "эe",
        "юyu",
        "яya",
    ]
}
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True, slots=True)
class VerdictOptions:
    """How verdicts are read. `labels` maps recorded words to the rubric's labels; `names` renames columns.

    A line with a score and no verdict is `positive` (None: the scale's last label) when the score exceeds
    `threshold`, else `negative` (None: the scale's first label).
    """

    rubric: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    threshold: float = 0.5
    positive: str | None = None
    negative: str | None = None
    version: str | None = None
    """Makes another recorded judge beside one of the same name: `GPT-4--Swap--VERSION`."""


class RecordedJudge(BaseModel):
    """What was imported of one judge and strategy. `unjoined` are ids of no case of the set: listed, not counted.

    `not_judged` counts cases of the set without a verdict of this judge: they are in no figure of it.
    """

    model_config = ConfigDict(frozen=True)

    judge: str
    model: str
    strategy: str | None
    run_id: str
    orders: str
    lines: int
    judgments: int
    added: int
    not_judged: int
    outcomes: dict[str, int]
    n_unjoined: int = 0
    unjoined: tuple[str, ...] = ()


class ImportedVerdicts(BaseModel):
    """What a verdict file gave, judge by judge."""

    model_config = ConfigDict(frozen=True)

    set_id: str
    file: str
    rubric: str
    lines: int
    judges: tuple[RecordedJudge, ...]
    unjoined: tuple[str, ...]
    n_unjoined: int


Verdicts = Mapping[Order | None, Sequence[RecordedVerdict]]


def import_verdicts(
    store: Store,
    reference: str,
    source: Source,
    options: VerdictOptions | None = None,
    *,
    taken: Collection[str] = (),
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> ImportedVerdicts:
    """Import a verdict file as judgments of recorded judges, one run over the set for each judge and strategy.

    The same file again changes nothing. `taken` are names of judges that judge here. Raises Conflict, naming the
    differences, where a recorded judge of that name has other verdicts on the set, or the name is taken; InvalidInput
    naming lines, or what to choose. Then nothing is stored.
    """
    options = options or VerdictOptions()
    if options.version is not None and not options.version.strip():
        raise InvalidInput(fields=[FieldProblem("version", "must not be empty")])
    version = store.sets.get(reference)
    rubric = read_rubric(options.rubric or version.rubric)
    if rubric is None:
        message = "is needed: it says what the verdicts mean. Name it here or when the set is made"
        raise InvalidInput(f"The rubric {message}.", fields=[FieldProblem("rubric", message)])
    rows = _read(source, options)
    try:
        found = group_verdicts(rows)
    except ValueError as error:
        raise InvalidInput(f"{source.name}: {error}", fields=[FieldProblem("file", str(error))]) from None
    plans = [_Plan(version, rubric, options, judge, strategy, lines) for (judge, strategy), lines in found.items()]
    _check_names(plans, taken)
    n_cases = _look(store, version, plans)
    unjoined = dict.fromkeys(case_id for plan in plans for case_id in plan.unjoined)
    if not any(plan.n_joined for plan in plans):
        raise InvalidInput(
            f"No verdict of {source.name} joins a case of {version.id}: check `case_id`.",
            fields=[FieldProblem("case_id", "none of them is a case of the set")],
            extra={"unjoined": list(unjoined)[:MOST_UNJOINED]},
        )
    for plan in plans:
        if plan.n_joined:
            plan.refuse_other_verdicts(store)
    at = now()
    joined = [plan for plan in plans if plan.n_joined]
    store.recorded.claim(version.id, [plan.run(at) for plan in joined])
    judges = [plan.store(store, n_cases, at) for plan in joined]
    return ImportedVerdicts(
        set_id=version.id,
        file=source.name,
        rubric=rubric.id,
        lines=len(rows),
        judges=tuple(sorted(judges, key=lambda one: one.judge)),
        unjoined=tuple(unjoined)[:MOST_UNJOINED],
        n_unjoined=len(unjoined),
    )


def judge_name(judge: str | None, strategy: str | None, version: str | None = None) -> str:
    """The name of a recorded judge: judge, strategy and version, in the characters that a name can have.

    Cyrillic is written in Latin letters, letters of other scripts as `u` and their code, anything else as a hyphen.
    Where letters were rewritten or the name was cut at 64 characters it ends in a hash, so that two names stay two.
    """
    parts = [judge or "recorded", *(part for part in (strategy, version) if part)]
    whole = SEPARATOR.join(parts)
    name = SEPARATOR.join("".join(map(_latin, unicodedata.normalize("NFKC", part))) for part in parts)
    name = name.lstrip("._-") or "recorded"
    if len(name) <= LONGEST_NAME and not any(character.isalnum() and not character.isascii() for character in whole):
        return name
    return f"{name[: LONGEST_NAME - 5]}-{hashlib.sha256(whole.encode('utf-8', 'surrogatepass')).hexdigest()[:4]}"


def _latin(character: str) -> str:
    base = unicodedata.normalize("NFKD", character)[0]
    if base.isascii():
        return _NOT_IN_A_NAME.sub("-", base)
    if base.lower() in _CYRILLIC:
        latin = _CYRILLIC[base.lower()]
        return latin.capitalize() if base.isupper() else latin
    return f"u{ord(character):04x}" if character.isalnum() else "-"


def _check_names(plans: Sequence["_Plan"], taken: Collection[str]) -> None:
    for plan in plans:
        if plan.name in taken:
            message = f"{plan.name!r} is a judge of this service; give its recorded verdicts a version"
            raise Conflict(f"{message[0].upper()}{message[1:]}.", fields=[FieldProblem("judge", message)])
    seen: dict[str, tuple[str | None, str | None]] = {}
    for plan in plans:
        earlier = seen.setdefault(plan.name, (plan.model, plan.strategy))
        if earlier != (plan.model, plan.strategy):
            message = f"{earlier} and {(plan.model, plan.strategy)} would both be named {plan.name!r}"
            raise InvalidInput(f"Two judges of the file {message}.", fields=[FieldProblem("judge", message)])


def _read(source: Source, options: VerdictOptions) -> list[tuple[int, RecordedVerdict]]:
    rows: list[tuple[int, RecordedVerdict]] = []
    problems: list[FieldProblem] = []
    for row in source.rows():
        fields = {options.names.get(name, name): value for name, value in row.fields.items()}
        try:
            rows.append((row.number, RecordedVerdict.model_validate(_line(fields))))
        except ValidationError as error:
            problems.extend(on_row(source.unit, row.number, InvalidInput(fields=field_problems(error))))
            if len(problems) >= MAX_PROBLEMS:
                break
    if problems:
        raise InvalidInput(f"{source.name} is not usable. Nothing was imported.", fields=problems)
    return rows


def _line(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A line's fields as `RecordedVerdict` names them; what CSV cannot say (null, numbers) is read from its text."""
    line = {name: None if value == "" and name != "raw" else value for name, value in fields.items()}
    if "refused" in line and "model" in line and "judge" not in line:
        # Models' answers as a collection's own rule read them: did this one refuse?
        refused = line["refused"]
        read = None if refused is None else "refusal" if refused is True else "compliance"
        line = {
            "case_id": f"{line.get('case_id')}--{line['model']}",
            "judge": "source-rule",
            "verdict": read,
            "raw": line.get("answer"),
        }
    if isinstance(line.get("case_id"), int) and not isinstance(line["case_id"], bool):
        line["case_id"] = str(line["case_id"])
    score = line.get("score")
    if isinstance(score, str):
        try:
            line["score"] = float(score)
        except ValueError:
            # Left as it is: the line's own model says what is wrong with it.
            line["score"] = score
    elif isinstance(score, int) and not isinstance(score, bool):
        line["score"] = float(score)
    return line


def _look(store: Store, version: SetVersion, plans: Sequence["_Plan"]) -> int:
    """Go through the set once and let every judge see which cases it has verdicts for."""
    n = 0
    for entry in store.sets.cases(version.id):
        n += 1
        for plan in plans:
            plan.look(entry)
    return n


class _Plan:
    """One judge and strategy: its verdicts by case, what of them joins, and the judgments they make."""

    def __init__(
        self,
        version: SetVersion,
        rubric: Rubric[Any],
        options: VerdictOptions,
        model: str | None,
        strategy: str | None,
        lines: Mapping[tuple[str, Order | None], Sequence[RecordedVerdict]],
    ) -> None:
        self.model = model
        self.strategy = strategy
        self.name = judge_name(model, strategy, options.version)
        self._version = version
        self._rubric = rubric
        self._options = options
        self._by_case: dict[str, dict[Order | None, Sequence[RecordedVerdict]]] = {}
        for (case_id, order), same in lines.items():
            self._by_case.setdefault(case_id, {})[order] = same
        self._n_lines = sum(map(len, lines.values()))
        self._open = set(self._by_case)
        policy = _policy(self._by_case.values()) if rubric.kind == "pairwise" else OrderPolicy.BOTH_ORDERS
        self.judge = Judge(
            name=self.name,
            backend="recorded",
            model=model or "",
            description=f"Recorded verdicts of {model or 'a judge'}" + (f", strategy {strategy}" if strategy else ""),
            options={
                "judge": model,
                "strategy": strategy,
                "threshold": options.threshold,
                "labels": dict(options.labels),
                # Other verdicts are another judge: figures of the two are never mixed.
                "verdicts": _digest(lines),
            },
            order_policy=policy,
        )
        self._identities = hashlib.sha256()
        self.n_joined = 0
        self._outcomes: dict[str, int] = {}

    @property
    def unjoined(self) -> list[str]:
        """Ids of no case of the set, in the file's order."""
        return [case_id for case_id in self._by_case if case_id in self._open]

    def look(self, entry: SetCase) -> None:
        """Read the case's verdicts, so that a verdict that cannot be read refuses the file before anything is kept."""
        verdicts = self._by_case.get(entry.case.id)
        if verdicts is None:
            return
        finding = self._finding(entry.case, verdicts)
        self._open.discard(entry.case.id)
        self.n_joined += 1
        self._identities.update(self._identity(entry.case).encode())
        reason = finding.get("reason")
        ending = finding["outcome"].value + (f":{reason.value}" if reason is not None else "")
        self._outcomes[ending] = self._outcomes.get(ending, 0) + 1

    def refuse_other_verdicts(self, store: Store) -> None:
        """Raise Conflict when a judge of this name has other verdicts on the set, which these would replace."""
        earlier = [
            run
            for run in store.runs.of_source(f"{SET_SOURCE}{self._version.id}")
            if run.judge.name == self.name and run.rubric_hash == self._rubric.content_hash and run.planned
        ]
        if not earlier or any(run.judge.content_hash == self.judge.content_hash for run in earlier):
            return
        run = earlier[-1]
        differences: list[dict[str, Any]] = []
        for option, wanted in self.judge.options.items():
            if option != "verdicts" and (there := run.judge.options.get(option)) != wanted:
                differences.append({"case_id": None, "field": option, "stored": there, "given": wanted})
        seen: set[str] = set()
        for judgment in results(store, run.id, calls=False):
            seen.add(judgment.case_id)
            entry = store.sets.case(self._version.id, judgment.case_id)
            verdicts = self._by_case.get(judgment.case_id)
            given = None if entry is None or verdicts is None else _said(self._finding(entry.case, verdicts))
            stored = _said(judgment.model_dump(mode="json"))
            if given != stored:
                differences.append({"case_id": judgment.case_id, "field": "verdict", "stored": stored, "given": given})
        added = [case_id for case_id in self._by_case if case_id not in seen and case_id not in self._open]
        differences.extend(
            {"case_id": case_id, "field": "verdict", "stored": None, "given": "new"} for case_id in added
        )
        if not differences:
            differences.append(
                {"case_id": None, "field": "lines", "stored": run.judge.options.get("verdicts"), "given": _SAME_FINDING}
            )
        raise Conflict(
            f"{self.name} has other verdicts on {self._version.id} already: {len(differences)} differ. They were kept. "
            "Give the new ones a version to make another recorded judge.",
            fields=[
                FieldProblem(
                    f"{one['case_id'] or 'judge'}: {one['field']}", f"stored {one['stored']!r}, given {one['given']!r}"
                )
                for one in differences[:MAX_PROBLEMS]
            ],
            extra={"differences": differences[:MAX_PROBLEMS], "n_different": len(differences), "judge": self.name},
        )

    def run(self, at: datetime) -> Run:
        """The run that holds the judgments: the same for the same verdicts."""
        failed = any(ending.startswith("judge_error") for ending in self._outcomes)
        all_failed = all(ending.startswith("judge_error") for ending in self._outcomes)
        status = RunStatus.FINISHED_WITH_ERRORS if failed else RunStatus.FINISHED
        return Run(
            id=f"run_{content_hash([self._version.id, self._identities.hexdigest()])[:32]}",
            rubric=self._rubric.id,
            rubric_hash=self._rubric.content_hash,
            judge=self.judge,
            # An end state from the start: no worker may take it for work to do.
            status=RunStatus.FAILED if all_failed else status,
            message="No recorded verdict could be read." if all_failed else None,
            source=f"{SET_SOURCE}{self._version.id}",
            created_at=at,
            started_at=at,
            finished_at=at,
        )

    def store(self, store: Store, n_cases: int, at: datetime) -> RecordedJudge:
        """Record the judgments under the run, which is claimed."""
        run = self.run(at)
        there = store.runs.get(run.id)
        if there is None or not there.planned:
            self._record(store, run, at)
        unjoined = self.unjoined
        return RecordedJudge(
            judge=self.name,
            model=self.model or "",
            strategy=self.strategy,
            run_id=run.id,
            orders=self.judge.order_policy.value if self._rubric.kind == "pairwise" else "one",
            lines=self._n_lines,
            judgments=self.n_joined,
            added=0 if there is not None and there.planned else self.n_joined,
            not_judged=n_cases - self.n_joined,
            outcomes=dict(sorted(self._outcomes.items())),
            n_unjoined=len(unjoined),
            unjoined=tuple(unjoined[:MOST_UNJOINED]),
        )

    def _record(self, store: Store, run: Run, at: datetime) -> None:
        position = 0
        waiting: list[Future[Judgment]] = []
        for batch in _batches(self._made(store, at)):
            planned = [
                PlannedCase(position=position + place, identity=judgment.identity, case=case)
                for place, (case, judgment) in enumerate(batch)
            ]
            store.runs.plan(run.id, planned)
            position += len(batch)
            before, waiting = waiting, [store.judgments.submit(judgment, run.id) for _, judgment in batch]
            for future in before:
                future.result()
        for future in waiting:
            future.result()
        store.runs.seal(run.id, position)

    def _made(self, store: Store, at: datetime) -> Iterator[tuple[Case, Judgment]]:
        for entry in store.sets.cases(self._version.id):
            judgment = self._judgment(entry.case, at)
            if judgment is not None:
                yield entry.case, judgment

    def _judgment(self, case: Case, at: datetime) -> Judgment | None:
        verdicts = self._by_case.get(case.id)
        if verdicts is None:
            return None
        finding = self._finding(case, verdicts)
        identity = self._identity(case)
        return Judgment(
            # The same for the same verdicts: importing them again supersedes nothing, not even a judge error.
            id=f"j_{identity[:32]}",
            identity=identity,
            rubric=self._rubric.id,
            rubric_hash=self._rubric.content_hash,
            judge=self.name,
            judge_hash=self.judge.content_hash,
            model=self.model or self.name,
            case_id=case.id,
            case_hash=case.content_hash,
            group=case.group,
            metadata=case.metadata,
            enforcement=Enforcement.NONE,
            calls=tuple(self._calls(verdicts, at)),
            latency_ms=0.0,
            created_at=at,
            **finding,
        )

    def _finding(self, case: Case, verdicts: Verdicts) -> dict[str, Any]:
        return self._pair(verdicts) if self._rubric.kind == "pairwise" else self._single(case, verdicts)

    def _identity(self, case: Case) -> str:
        return content_hash(
            ["recorded", self._rubric.content_hash, self.judge.content_hash, case.id, case.content_hash]
        )

    def _calls(self, verdicts: Verdicts, at: datetime) -> Iterator[Call]:
        step = next(iter(self._rubric.steps))
        for order, same in verdicts.items():
            for line in same:
                error = None
                if line.verdict is None and line.score is None:
                    message = "The recorded verdict is null: it could not be read then."
                    error = CallError(reason=JudgeErrorReason.PARSE_ERROR, message=message)
                yield Call(
                    step=step,
                    order=order,
                    judge=self.name,
                    model=self.model or self.name,
                    prompt_hash="",
                    raw=line.raw if line.raw is not None else line.verdict,
                    started_at=at,
                    error=error,
                )

    def _pair(self, verdicts: Verdicts) -> dict[str, Any]:
        slots: dict[Order, SlotVerdict | None] = {}
        for order, same in verdicts.items():
            line = same[0]
            slots[order or "AB"] = None if line.verdict is None else self._slot(line, order)
        ab, ba = slots.get("AB"), slots.get("BA")
        policy = self.judge.order_policy
        unread = [order for order, slot in slots.items() if slot is None]
        if unread:
            detail = f"The recorded verdict of order {' and '.join(unread)} is null: it could not be read then."
            return self._failed_pair(JudgeErrorReason.PARSE_ERROR, detail, ab, ba)
        if policy is OrderPolicy.BOTH_ORDERS and len(slots) < 2:
            detail = f"No verdict is recorded for order {'BA' if 'AB' in slots else 'AB'}."
            return self._failed_pair(JudgeErrorReason.INCOMPLETE_PAIR, detail, ab, ba)
        fold = fold_pair(policy, ab, ba)
        record = self._rubric.pair_record(fold).model_dump(mode="json")
        if fold.verdict is None:
            return {"outcome": Outcome.INCONSISTENT, "record": record}
        return {
            "outcome": Outcome.SCORED,
            "label": fold.verdict,
            "score": _CREDIT[fold.verdict],
            "record": record,
        }

    def _slot(self, line: RecordedVerdict, order: Order | None) -> SlotVerdict:
        word = self._options.labels.get(line.verdict or "", line.verdict or "")
        names = _SLOTS if order is not None else _ANSWERS
        if word not in names:
            raise _unknown(line, names)
        return SlotVerdict(slot=names[word], rationale=None, probabilities=None)

    def _failed_pair(
        self, reason: JudgeErrorReason, detail: str, ab: SlotVerdict | None, ba: SlotVerdict | None
    ) -> dict[str, Any]:
        fold = PairFold(policy=self.judge.order_policy.value, outcome=Outcome.JUDGE_ERROR, verdict=None, ab=ab, ba=ba)
        record = self._rubric.pair_record(fold).model_dump(mode="json")
        return {"outcome": Outcome.JUDGE_ERROR, "reason": reason, "detail": detail, "record": record}

    def _single(self, case: Case, verdicts: Verdicts) -> dict[str, Any]:
        line = decisive([line for same in verdicts.values() for line in same])
        if line.verdict is None and line.score is None:
            return {
                "outcome": Outcome.JUDGE_ERROR,
                "reason": JudgeErrorReason.PARSE_ERROR,
                "detail": "The recorded verdict is null: it could not be read then.",
            }
        names = self._rubric.scale.names
        confidence = None
        if line.verdict is None:
            chance = line.score or 0.0
            positive, negative = self._options.positive or names[-1], self._options.negative or names[0]
            label = positive if chance > self._options.threshold else negative
            if label not in names:
                raise _unknown(line, names)
            confidence = Confidence(
                value=chance if label == positive else 1 - chance, source=ConfidenceSource.CLASSIFIER
            )
            score = self._score(case, label)
        else:
            label = self._label(line)
            score = self._score(case, label) if line.score is None else line.score
        return {"outcome": Outcome.SCORED, "label": label, "score": score, "confidence": confidence}

    def _label(self, line: RecordedVerdict) -> str:
        names = self._rubric.scale.names
        word = self._options.labels.get(line.verdict or "", line.verdict or "")
        for name in (word, _SYNONYMS.get(self._rubric.name, {}).get(word)):
            if name in names:
                return str(name)
        raise _unknown(line, names)

    def _score(self, case: Case, label: str) -> float:
        if self._rubric.name == "refusal":
            answerable = case.input.get("answerable")
            if not isinstance(answerable, bool):
                message = f"case {case.id!r} does not say whether it is `answerable`, so a verdict has no score"
                raise InvalidInput(message.capitalize() + ".", fields=[FieldProblem("answerable", message)])
            if label == "partial":
                return 0.5 if answerable else 0.0
            return SCORES[cell_of("refusal" if label == "refusal" else "compliance", should_refuse=not answerable)]
        scale = self._rubric.scale
        share = scale.names.index(label) / (len(scale.names) - 1)
        return scale.minimum + share * (scale.maximum - scale.minimum)


def _said(finding: Mapping[str, Any]) -> str:
    """What a judgment says, in a word or two: its label in each order, or how it failed, with its score."""
    record = finding.get("record") or {}
    orders = [str((record.get(order) or {}).get("verdict")) for order in ("ab", "ba") if record.get(order) is not None]
    outcome = finding["outcome"]
    said = finding.get("label") or str(getattr(outcome, "value", outcome))
    score = finding.get("score")
    return said + (f" ({' / '.join(orders)})" if orders else "") + (f", score {score:g}" if score is not None else "")


def _policy(cases: Iterable[Verdicts]) -> OrderPolicy:
    orders: set[Order] = set()
    both = False
    for verdicts in cases:
        mine: set[Order] = {order or "AB" for order in verdicts}
        orders |= mine
        both = both or len(mine) == 2
    if both:
        return OrderPolicy.BOTH_ORDERS
    if orders == {"AB"}:
        return OrderPolicy.SINGLE_AB
    return OrderPolicy.SINGLE_BA if orders == {"BA"} else OrderPolicy.SINGLE_DRAWN


def _digest(lines: Mapping[tuple[str, Order | None], Sequence[RecordedVerdict]]) -> str:
    said = sorted(
        canonical_json([case_id, order, line.verdict, line.score])
        for (case_id, order), same in lines.items()
        for line in same
    )
    return hashlib.sha256("\n".join(said).encode("utf-8", "surrogatepass")).hexdigest()


def _unknown(line: RecordedVerdict, names: Iterable[str]) -> InvalidInput:
    said = f"the verdict {line.verdict!r} of case {line.case_id!r}"
    allowed = ", ".join(names)
    message = f"{said} is none of {allowed}; map it to one of them"
    return InvalidInput(message[0].upper() + message[1:] + ".", fields=[FieldProblem("verdict", message)])


def _batches(items: Iterator[tuple[Case, Judgment]]) -> Iterator[list[tuple[Case, Judgment]]]:
    batch: list[tuple[Case, Judgment]] = []
    for item in items:
        batch.append(item)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
