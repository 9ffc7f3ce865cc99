"""The embedded judges on real human-labelled cases: the figures of docs/embedded-model.md.

Reads the data folder named by JUDGE_DATA_DIR (default ../shared/data), judges the shortest cases of each set with the
real model under grammar enforcement, and prints one row per rubric and judge: outcomes, calls, how many replies fitted
their schema, agreement with people, and for pairs the preference for the first slot. `--twice` judges everything again
in a new engine state and compares the judgments byte for byte, then once more from the cache, counting calls.
`--cached` does the last part alone.

    python -m benchmarks.embedded_model [--twice | --cached] [--only RUBRIC] [--first COUNT]
"""

import argparse
import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judge_service.backends.catalog import BackendPool
from judge_service.domain.case import Case
from judge_service.domain.judgment import Judgment
from judge_service.domain.outcome import Enforcement, JudgeErrorReason, Outcome
from judge_service.judging.cache import MemoryCache
from judge_service.judging.judging import Judging
from judge_service.judging.roster import Roster
from judge_service.settings import Settings
from rubrics.citations import find_markers, split_statements
from rubrics.registry import get_rubric

UNREADABLE = {
    JudgeErrorReason.PARSE_ERROR,
    JudgeErrorReason.SCHEMA_ERROR,
    JudgeErrorReason.MISSING_VERDICT,
    JudgeErrorReason.ID_MISMATCH,
    JudgeErrorReason.DUPLICATE_VERDICT,
}


@dataclass(frozen=True)
class Labelled:
    """A case with the label that people gave it."""

    case: Case
    label: str


def data_folder() -> Path:
    """The data folder. Raises SystemExit that names the variable when it is missing."""
    folder = Path(os.environ.get("JUDGE_DATA_DIR", "../shared/data"))
    if not folder.is_dir():
        raise SystemExit(f"{folder} is missing. Set JUDGE_DATA_DIR to the folder that holds llmbar, wice, ...")
    return folder


def rows(path: str) -> Iterator[dict[str, Any]]:
    """The objects of a JSONL file, split on line feeds only."""
    for line in (data_folder() / path).read_text(encoding="utf-8").split("\n"):
        if line:
            yield json.loads(line)


def shortest(cases: Sequence[Labelled], count: int) -> list[Labelled]:
    """The `count` shortest cases, ties by id: what a small model on one thread can read in minutes."""
    return sorted(cases, key=lambda one: (len(json.dumps(one.case.input)), one.case.id))[:count]


def pairwise() -> list[Labelled]:
    """30 pairs of LLMBar natural, in file order."""
    found = []
    for row in rows("llmbar/cases.jsonl"):
        if row["group"] == "natural":
            given = {name: row[name] for name in ("prompt", "response_a", "response_b")}
            found.append(Labelled(Case(id=row["id"], input=given), row["human_label"]))
    return found[:30]


def faithfulness() -> list[Labelled]:
    """The 50 shortest span cases of WiCE: every one has an unsupported part. The page is one context."""
    found = []
    for row in rows("wice/spans.jsonl"):
        given = {"question": row["question"], "contexts": ["\n".join(row["contexts"])], "answer": row["answer"]}
        label = "supported" if row["human_label"] == "supported" else "unsupported"
        found.append(Labelled(Case(id=row["id"], input=given), label))
    return shortest(found, 50)


SUPPORT = {"supported": "full", "partially_supported": "partial", "not_supported": "none"}


def cited(text: str, sources: int) -> str:
    """The text with its own markers taken out and one for each of its sources put before its full stop."""
    for marker in reversed(find_markers(text)):
        text = text[: marker.start] + text[marker.end :]
    body = " ".join(text.split())
    end = body[-1:] if body[-1:] in ".!?" else ""
    markers = "".join(f"[{number}]" for number in range(1, sources + 1))
    return f"{body.removesuffix(end).rstrip()} {markers}{end}"


def citation_support() -> list[Labelled]:
    """The 50 shortest rated claims of ExpertQA that cite passages only and are one statement each.

    A claim's passages are its sources, in order; its markers are rewritten to their numbers.
    """
    found = []
    for row in rows("expertqa/cases.jsonl"):
        for position, claim in enumerate(row["claims"]):
            passages = [citation["passage"] for citation in claim["citations"]]
            if claim["human_label"] not in SUPPORT or not passages or not all(passages):
                continue
            contexts = list(dict.fromkeys(passages))
            answer = cited(claim["text"], len(contexts))
            if len(split_statements(answer)) == 1:
                given = {"question": row["question"], "contexts": contexts, "answer": answer}
                case = Case(id=f"{row['id']}-{position}", group=row["id"], input=given)
                found.append(Labelled(case, SUPPORT[claim["human_label"]]))
    return shortest(found, 50)


def refusal() -> list[Labelled]:
    """50 recorded answers of NoMIRACL, the shortest cases, half of them answerable; unreadable answers are left out.

    One answer a question, each model in turn. Whether an answer was due is for the judge to say.
    """
    cases = {row["id"]: row for row in rows("nomiracl/cases.jsonl")}
    answers: dict[str, list[dict[str, Any]]] = {}
    for row in rows("nomiracl/answers.jsonl"):
        if row["refused"] is not None and row["answer"].strip():
            answers.setdefault(row["case_id"], []).append(row)
    chosen = []
    for answerable in (True, False):
        found = []
        ids = sorted(identity for identity in answers if cases[identity]["answerable"] is answerable)
        for turn, identity in enumerate(ids):
            answer = answers[identity][turn % len(answers[identity])]
            asked = cases[identity]
            given = {"question": asked["question"], "contexts": asked["contexts"], "answer": answer["answer"]}
            case = Case(id=identity, input=given, metadata={"answerable": answerable})
            found.append(Labelled(case, "refusal" if answer["refused"] else "compliance"))
        chosen.extend(shortest(found, 25))
    return chosen


SETS = {
    "pairwise@1": pairwise,
    "faithfulness@1": faithfulness,
    "citation_support@1": citation_support,
    "refusal@1": refusal,
}
JUDGES = {"pairwise@1": ("embedded", "embedded-direct")}


async def judge_all(
    rubric: str, judge: str, cases: Sequence[Labelled], cache: MemoryCache | None = None
) -> list[Judgment]:
    """Judge the cases two at a time, as a run would."""
    settings = Settings()
    pool = BackendPool(settings)
    roster = Roster()
    core = Judging(roster, pool, fence_key=b"benchmark", cache=cache)
    gate = asyncio.Semaphore(2)

    async def one(case: Case) -> Judgment:
        async with gate:
            return await core.judge(case, get_rubric(rubric), roster.get(judge))

    try:
        return list(await asyncio.gather(*(one(labelled.case) for labelled in cases)))
    finally:
        await pool.aclose()


def comparable(judgment: Judgment) -> str:
    """The judgment without what differs between any two runs: ids, times and what a cache counts."""
    dumped = judgment.model_dump(mode="json", exclude={"id", "latency_ms", "created_at"})
    for call in dumped["calls"]:
        for name in ("latency_ms", "started_at", "engine"):
            call.pop(name)
        call["usage"].pop("cached_tokens")
    dumped["usage"].pop("cached_tokens")
    return json.dumps(dumped, sort_keys=True, ensure_ascii=False)


def share(part: float, whole: float) -> str:
    """A percentage with its counts, or why there is none."""
    return f"{100 * part / whole:.1f}% ({part:g} of {whole:g})" if whole else "none to count"


def describe(rubric: str, judge: str, cases: Sequence[Labelled], judgments: Sequence[Judgment], took: float) -> str:
    """One block of figures."""
    outcomes = Counter(
        judgment.outcome.value + (f"({judgment.reason.value})" if judgment.reason else "") for judgment in judgments
    )
    calls = [call for judgment in judgments for call in judgment.calls]
    answered = [call for call in calls if call.error is None or call.error.reason in UNREADABLE]
    valid = [call for call in answered if call.error is None and call.enforcement is Enforcement.GRAMMAR]
    agree = sum(judgment.label == one.label for judgment, one in zip(judgments, cases, strict=True))
    lines = [
        f"{rubric} by {judge}: {len(cases)} cases in {took:.0f} s",
        "  outcomes: " + ", ".join(f"{name} {count}" for name, count in sorted(outcomes.items())),
        f"  replies that fit their schema under grammar: {share(len(valid), len(answered))}",
        f"  agreement with people, all cases counted: {share(agree, len(cases))}",
    ]
    if get_rubric(rubric).kind == "pairwise":
        records = [
            (judgment.record, one.label) for judgment, one in zip(judgments, cases, strict=True) if judgment.record
        ]
        slots = [record[order]["slot"] for record, _ in records for order in ("ab", "ba") if record[order]]
        lines.append(f"  first slot chosen: {share(slots.count('first'), len(slots))}")
        for order in ("ab", "ba"):
            right = sum(record[order]["verdict"] == label for record, label in records if record[order])
            lines.append(f"  agreement in order {order.upper()} alone: {share(right, len(cases))}")
        averaged = [
            (record["probability_a"], label) for record, label in records if record["probability_a"] is not None
        ]
        right = sum((p > 0.5) == (label == "A") for p, label in averaged)
        lines.append(f"  agreement of both orders' probabilities averaged: {share(right, len(averaged))}")
    if get_rubric(rubric).name == "refusal":
        due = [
            judgment.record["should_refuse"] is not one.case.metadata["answerable"]
            for judgment, one in zip(judgments, cases, strict=True)
            if judgment.record
        ]
        lines.append(f"  agreement on whether an answer was due: {share(sum(due), len(cases))}")
    tokens = sum((call.usage.prompt_tokens or 0) + (call.usage.completion_tokens or 0) for call in calls)
    lines.append(f"  {len(calls)} calls, {tokens} tokens")
    return "\n".join(lines)


def told(judgment: Judgment) -> str:
    """What may tell two judgments of one case apart: its outcome, and each call's attempt and failure."""
    calls = (f"{call.attempt} {call.error.reason.value if call.error else 'answered'}" for call in judgment.calls)
    return f"{judgment.outcome.value} ({', '.join(calls)})"


def main() -> None:
    """Print the figures."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--twice", action="store_true", help="judge again and compare byte for byte")
    options.add_argument("--cached", action="store_true", help="judge again from the cache and count the calls made")
    options.add_argument("--only", choices=sorted(SETS), help="one rubric only")
    options.add_argument("--first", type=int, metavar="COUNT", help="the first cases of each set only")
    given = options.parse_args()
    for rubric, make in SETS.items():
        if given.only not in (None, rubric):
            continue
        cases = make()[: given.first]
        for judge in JUDGES.get(rubric, ("embedded",)):
            started = time.monotonic()
            cache = MemoryCache()
            judgments = asyncio.run(judge_all(rubric, judge, cases, cache))
            print(describe(rubric, judge, cases, judgments, time.monotonic() - started), flush=True)
            errors = Counter(
                call.error.reason.value for judgment in judgments for call in judgment.calls if call.error is not None
            )
            if errors:
                print(f"  failed calls: {dict(errors)}")
            assert all(judgment.outcome in Outcome for judgment in judgments)
            if given.twice:
                again = asyncio.run(judge_all(rubric, judge, cases))
                same = sum(comparable(a) == comparable(b) for a, b in zip(judgments, again, strict=True))
                print(f"  judged again, byte-identical: {share(same, len(cases))}", flush=True)
                for first, second in zip(judgments, again, strict=True):
                    if comparable(first) != comparable(second):
                        print(f"  differs: {first.case_id}: {told(first)} / {told(second)}", flush=True)
            if given.twice or given.cached:
                kept = asyncio.run(judge_all(rubric, judge, cases, cache))
                asked = sum(not call.cached for judgment in kept for call in judgment.calls)
                failed = sum(call.error is not None for judgment in judgments for call in judgment.calls)
                print(f"  once more from the cache: {asked} calls made, {failed} calls had failed", flush=True)


if __name__ == "__main__":
    main()
