"""Does a run pass? Decides over run reports, each requirement on the end of an interval that is against it.

Owns what may be required, what counts as enough evidence, and the exit codes. Reads report objects, wherever they are
from, and computes no statistic of its own.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from judge_service.errors import Conflict, FieldProblem, InvalidInput
from judge_service.reports.outline import in_words, number
from judge_service.reports.run_forms import escape

DEFAULT_MIN_N = 30
"""Scored cases, or pairs, below which nothing is decided."""
DEFAULT_MAX_ERROR_RATE = 0.1
"""Share of cases that may end in a judge error or unjudged, unless said otherwise."""
DEFAULT_MAX_DROP = 0.02
SCORE = "score"
"""Names the mean score, whatever the rubric."""
_WANTED = re.compile(r"\s*([^=\s][^=]*?)\s*=\s*([-+0-9.eE]+)\s*")
_SHARES = {"label": None, "rogan_gladen": "rogan_gladen", "ppi": "ppi_plus_plus"}


class Verdict(StrEnum):
    """How a requirement, or the gate, ended."""

    PASS = "pass"  # noqa: S105
    FAIL = "fail"
    NOT_ENOUGH = "not enough evidence"
    COULD_NOT_RUN = "could not run"


EXIT_CODES: Mapping[Verdict, int] = {
    Verdict.PASS: 0,
    Verdict.FAIL: 1,
    Verdict.NOT_ENOUGH: 2,
    Verdict.COULD_NOT_RUN: 3,
}
MARKS: Mapping[Verdict, str] = {
    Verdict.PASS: "✓",
    Verdict.FAIL: "✕",
    Verdict.NOT_ENOUGH: "◌",
    Verdict.COULD_NOT_RUN: "!",
}
_HEADLINES: Mapping[Verdict, str] = {
    Verdict.PASS: "Passed",
    Verdict.FAIL: "Failed",
    Verdict.NOT_ENOUGH: "Not enough evidence",
    Verdict.COULD_NOT_RUN: "Could not run",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """A figure and its limit, as `faithfulness=0.85`."""

    metric: str
    limit: float

    @classmethod
    def parse(cls, text: str, option: str) -> "Wanted":
        """Raises InvalidInput naming the option."""
        match = _WANTED.fullmatch(text)
        try:
            limit = float(match[2]) if match is not None else math.nan
        except ValueError:
            limit = math.nan
        if match is None or not math.isfinite(limit):
            raise InvalidInput(fields=[FieldProblem(option, f"{text!r} is not METRIC=NUMBER, as faithfulness=0.85")])
        return cls(match[1], limit)


@dataclass(frozen=True, slots=True)
class Requirements:
    """What a run must reach. `point`: decide on values instead of the ends of intervals; `min_n` holds all the same."""

    minimums: tuple[Wanted, ...] = ()
    maximums: tuple[Wanted, ...] = ()
    min_coverage: float | None = None
    max_error_rate: float = DEFAULT_MAX_ERROR_RATE
    max_drop: float | None = None
    point: bool = False
    min_n: int = DEFAULT_MIN_N
    calibrated: bool = False
    """The judge must be calibrated for the rubric, with every model that answered."""


@dataclass(frozen=True)
class Check:
    """One requirement and how it ended. `needed`: about how many cases would decide it, where that can be said."""

    run: str
    what: str
    rule: str
    verdict: Verdict
    found: str
    estimate: Mapping[str, Any] = field(default_factory=dict)
    limit: float | None = None
    needed: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready object."""
        return {
            "run": self.run,
            "what": self.what,
            "rule": self.rule,
            "limit": self.limit,
            "verdict": self.verdict.value,
            "found": self.found,
            "estimate": dict(self.estimate) or None,
            "needed": self.needed,
        }


def decide(reports: Sequence[Mapping[str, Any]], required: Requirements) -> dict[str, Any]:
    """The gate over one or more run reports: a verdict, its exit code, and every check.

    A run without a scored case never decides anything but `not enough evidence`. Otherwise one failed check fails the
    gate, else one without enough evidence leaves it open. Raises InvalidInput for a figure that no run has; Conflict
    for a run that has not ended or runs that must not be compared.
    """
    if not reports:
        raise InvalidInput("There is no run to decide about.")
    for report in reports:
        if report["run"]["status"] in ("queued", "running", "cancelling"):
            raise Conflict(f"Run {report['run']['id']} has not ended: it is {report['run']['status']}.")
    checks: list[Check] = []
    for option, wanted_all, upwards in (("--min", required.minimums, True), ("--max", required.maximums, False)):
        for wanted in wanted_all:
            report, estimate, worst = _figure(reports, wanted.metric, option, upwards)
            checks.append(_against(report, wanted, estimate, worst, upwards, required))
    for report in reports:
        checks += _counted(report, required)
    if required.max_drop is not None:
        checks.append(_drop(reports, required.max_drop, required))
    verdict = _overall(reports, checks)
    return {
        "kind": "gate",
        "verdict": verdict.value,
        "exit_code": EXIT_CODES[verdict],
        "decided_on": "values" if required.point else "ends of intervals",
        "min_n": required.min_n,
        "runs": [
            {
                **{name: report["run"][name] for name in ("id", "rubric", "judge", "status", "source")},
                "n_total": report["numbers"]["n_total"],
                "n_scored": report["numbers"]["n_scored"],
                "outcomes": report["numbers"]["outcomes"],
                "reasons": report["numbers"]["reasons"],
                "trust": report["trust"],
            }
            for report in reports
        ],
        "checks": [check.to_dict() for check in checks],
    }


def _overall(reports: Sequence[Mapping[str, Any]], checks: Sequence[Check]) -> Verdict:
    verdicts = {check.verdict for check in checks}
    if any(not report["numbers"]["n_scored"] for report in reports):
        return Verdict.NOT_ENOUGH
    for verdict in (Verdict.FAIL, Verdict.NOT_ENOUGH):
        if verdict in verdicts:
            return verdict
    return Verdict.PASS


def _figure(
    reports: Sequence[Mapping[str, Any]], metric: str, option: str, upwards: bool
) -> tuple[Mapping[str, Any], Mapping[str, Any], float]:
    """The report that has this figure, the figure, and the worst value it could have had."""
    kind, _, label = metric.partition(":")
    if label:
        found = [
            (report, estimate, 0.0 if upwards else 1.0)
            for report in reports
            if kind in _SHARES and (estimate := _share(report, _SHARES[kind], label)) is not None
        ]
    else:
        found = [
            (report, report["numbers"]["mean_score"], report["scale"]["minimum" if upwards else "maximum"])
            for report in reports
            if metric in (SCORE, report["run"]["rubric"], report["run"]["rubric"].partition("@")[0])
        ]
    if len(found) == 1:
        return found[0]
    known = sorted({name for report in reports for name in _names(report)})
    why = "is a figure of several runs" if found else "is no figure of these runs"
    message = f"{metric!r} {why}; they have: {', '.join(known)}"
    raise InvalidInput(message, fields=[FieldProblem(option, message)])


def _share(report: Mapping[str, Any], way: str | None, label: str) -> Mapping[str, Any] | None:
    numbers = report["numbers"]
    if way is None:
        share: Mapping[str, Any] | None = numbers["labels"].get(label)
        return share
    corrected = numbers["corrected"]
    return None if corrected is None else corrected["labels"].get(label, {}).get(way)


def _names(report: Mapping[str, Any]) -> list[str]:
    labels = list(report["numbers"]["labels"])
    corrected = report["numbers"]["corrected"] is not None
    ways = ("label", "rogan_gladen", "ppi") if corrected else ("label",)
    return [report["run"]["rubric"].partition("@")[0], *(f"{way}:{label}" for way in ways for label in labels)]


def _against(
    report: Mapping[str, Any],
    wanted: Wanted,
    estimate: Mapping[str, Any],
    worst: float,
    upwards: bool,
    required: Requirements,
) -> Check:
    """A minimum (`upwards`) or a maximum against the end of the interval that is against it."""
    verdict, needed, why = _weigh(estimate, wanted.limit, worst, upwards, required)
    end = "" if required.point else " at the lower end" if upwards else " at the upper end"
    rule = f"{'at least' if upwards else 'at most'} {number(wanted.limit)}{end}"
    found = in_words(estimate) + (f"; {why}" if why else "")
    return Check(report["run"]["id"], wanted.metric, rule, verdict, found, estimate, wanted.limit, needed)


def _weigh(
    estimate: Mapping[str, Any], limit: float, worst: float, upwards: bool, required: Requirements
) -> tuple[Verdict, int | None, str]:
    value, n = estimate["value"], estimate["n"]
    if value is None:
        return Verdict.NOT_ENOUGH, None, ""
    if n < required.min_n:
        return Verdict.NOT_ENOUGH, required.min_n, f"below {required.min_n} nothing is decided"
    sign = 1 if upwards else -1
    ahead = sign * (value - limit)
    if required.point:
        return (Verdict.PASS if ahead >= 0 else Verdict.FAIL), None, ""
    end, why = _end(estimate, worst, upwards)
    if end is None:
        return Verdict.NOT_ENOUGH, None, why
    if sign * (end - limit) >= 0:
        return Verdict.PASS, None, why
    if ahead < 0:
        return Verdict.FAIL, None, why
    # The interval narrows with the root of n, so this many cases would bring its end to the limit.
    needed = None if ahead == 0 else math.ceil(n * ((value - end) / (value - limit)) ** 2)
    return Verdict.NOT_ENOUGH, needed, "about " + f"{needed:,} cases would decide it" if needed else why


def _end(estimate: Mapping[str, Any], worst: float, upwards: bool) -> tuple[float | None, str]:
    """The end that counts. Where all values are equal: by the rule of three, as if 3 of n had been the worst."""
    end = estimate["low" if upwards else "high"]
    if end is not None:
        return float(end), ""
    if estimate.get("interval_reason") != "zero_variance":
        return None, ""
    units = estimate.get("details", {}).get("groups") or estimate["n"]
    value = float(estimate["value"])
    end = value + (worst - value) * min(1.0, 3 / units)
    return end, f"all alike, so {number(end)} by the rule of three"


def _counted(report: Mapping[str, Any], required: Requirements) -> list[Check]:
    """Coverage and errors: facts about this run, counted and not estimated."""
    numbers, run = report["numbers"], report["run"]["id"]
    total = numbers["n_total"]
    checks = []
    if required.min_coverage is not None:
        share = numbers["n_scored"] / total if total else 0.0
        verdict = Verdict.NOT_ENOUGH if not total else Verdict.PASS if share >= required.min_coverage else Verdict.FAIL
        found = f"{numbers['n_scored']} of {total} scored ({number(share, share=True)}%)"
        rule = f"at least {number(required.min_coverage, share=True)}%"
        checks.append(Check(run, "coverage", rule, verdict, found, numbers["coverage"], required.min_coverage))
    lost = numbers["outcomes"]["judge_error"] + numbers["outcomes"]["not_judged"]
    share = lost / total if total else 0.0
    verdict = Verdict.NOT_ENOUGH if not total else Verdict.PASS if share <= required.max_error_rate else Verdict.FAIL
    found = f"{lost} of {total} ended in a judge error or unjudged ({number(share, share=True)}%)"
    rule = f"at most {number(required.max_error_rate, share=True)}%"
    checks.append(Check(run, "error rate", rule, verdict, found, limit=required.max_error_rate))
    if required.calibrated:
        short = [trust["reason"] for trust in report["trust"] if trust["level"] != "calibrated"]
        verdict = Verdict.NOT_ENOUGH if short else Verdict.PASS
        checks.append(Check(run, "judge", "calibrated", verdict, " ".join(short) or report["trust"][0]["reason"]))
    return checks


def _drop(reports: Sequence[Mapping[str, Any]], most: float, required: Requirements) -> Check:
    report = reports[0]
    comparison = report["comparison"]
    if comparison is None:
        raise InvalidInput("A drop needs a run to compare with.", fields=[FieldProblem("--compare", "is needed")])
    if not comparison["comparable"]:
        raise Conflict(f"{comparison['headline']}. {' '.join(comparison['differences'])}")
    better_up = report["scale"]["higher_is_better"]
    span = report["scale"]["maximum"] - report["scale"]["minimum"]
    limit = -most if better_up else most
    estimate = comparison["decisive"]
    verdict, needed, why = _weigh(estimate, limit, -span if better_up else span, better_up, required)
    found = in_words(estimate, signed=True) + (f"; {why}" if why else "")
    what = f"change since {comparison['a']['run']}"
    rule = f"worse by at most {number(most)}"
    return Check(report["run"]["id"], what, rule, verdict, found, estimate, limit, needed)


def to_markdown(decision: Mapping[str, Any]) -> str:
    """The decision for a comment: the verdict, the runs, and a row a check."""
    verdict = Verdict(decision["verdict"])
    lines = [f"### {MARKS[verdict]} {_HEADLINES[verdict]}", ""]
    if "reason" in decision:
        return "\n".join([*lines, escape(decision["reason"]), ""])
    for run in decision["runs"]:
        levels = ", ".join(sorted({trust["level"] for trust in run["trust"]}))
        said = f"{run['rubric']} by {run['judge']}: {run['n_scored']} of {run['n_total']} cases scored; judge {levels}"
        lines.append(f"{escape(said)} (run {escape(run['id'])}).")
        lost = [f"{name.replace('_', ' ')} {n}" for name, n in run["reasons"].items()]
        if run["outcomes"]["inconsistent"]:
            lost.append(f"inconsistent {run['outcomes']['inconsistent']}")
        lines += ([f"Without a score: {escape(', '.join(lost))}."] if lost else []) + [""]
    lines += ["| | Figure | Required | Found |", "| --- | --- | --- | --- |"]
    for check in decision["checks"]:
        cells = (f"{MARKS[Verdict(check['verdict'])]} {check['verdict']}", check["what"], check["rule"], check["found"])
        lines.append("| " + " | ".join(escape(cell) for cell in cells) + " |")
    return "\n".join([*lines, ""])


def could_not_run(reason: str) -> dict[str, Any]:
    """The decision of a gate that could not be computed."""
    verdict = Verdict.COULD_NOT_RUN
    return {"kind": "gate", "verdict": verdict.value, "exit_code": EXIT_CODES[verdict], "reason": reason}
