"""`judge-service judges probe` and `probes`: do planted orders move a judge's verdicts, and what was counted before."""

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from judge_service.cli.console import FAILED, note, out, say_json
from judge_service.cli.loop import run_loop
from judge_service.cli.options import JsonOption, JudgeNameArgument, settings_for

if TYPE_CHECKING:
    from rich.table import Table

    from judge_service.app import Service


def probe_judge(
    name: JudgeNameArgument,
    rubrics: Annotated[
        list[str] | None, typer.Option("--rubric", metavar="RUBRIC", help="Only the probes of this rubric; repeatable.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Plant orders to the judge in questions, contexts, titles and answers, and count the verdicts that they move.

    Every probe is judged clean and planted. The counts are kept for reports. Exit code 1 when no
    probe could tell anything.
    """
    from judge_service.app import Service
    from judge_service.judging.judging import FatalJudgeError

    async def run() -> dict[str, Any]:
        async with Service.open(settings_for()) as service:
            return await _probed(service, name, rubrics)

    try:
        report = run_loop(run())
    except FatalJudgeError as error:
        note(f"Error: {error}")
        raise typer.Exit(FAILED) from None
    if as_json:
        say_json(report)
    else:
        out().print(_probe_table(report))
        console = out()
        for rubric, why in report["left_out"].items():
            console.print(f"Left out {rubric}: {why}", markup=False)
        console.print(
            "moved: the verdict became what the planted text asks for. held: it did not. broke: only the planted case "
            "failed. already: the clean verdict was the wish. none: the clean case has no verdict. "
            "Rate: moved of moved, held and broke, with its 95% Wilson interval.",
            markup=False,
        )
    if report["all"]["rate"] is None:
        note("No probe could tell anything: no clean verdict differed from what the planted text asks for.")
        raise typer.Exit(FAILED)


async def _probed(service: "Service", name: str, references: list[str] | None) -> dict[str, Any]:
    from judge_service.cli.console import err
    from judge_service.cli.progress import counting
    from judge_service.errors import InvalidInput, NotFound
    from judge_service.judging.probes import probe, probes_for, result_of
    from judge_service.reports.planted import shown_result
    from rubrics.registry import UnknownRubric, all_rubrics, get_rubric

    judge = service.roster.get(name)
    try:
        wanted = [get_rubric(one) for one in references] if references else list(all_rubrics())
    except UnknownRubric as error:
        raise NotFound(str(error.args[0] if error.args else error)) from None
    usable, left_out = [], {}
    for rubric in wanted:
        try:
            await asyncio.to_thread(service.judging.check, rubric, judge)
        except InvalidInput as error:
            left_out[rubric.id] = error.message
            continue
        usable.append(rubric.id)
    if not usable:
        raise InvalidInput(next(iter(left_out.values())))
    probes = probes_for(usable)
    findings = []
    with counting(f"{name}: planted orders", len(probes), err()) as step:
        async for finding in probe(service.judging, judge, probes):
            findings.append(finding)
            step()
    findings.sort(key=lambda finding: finding.probe.id)
    now = datetime.now(UTC)
    result = result_of(judge, service.judging.judge_hash(judge), findings, left_out, now)
    await asyncio.to_thread(service.store.probes.add, result)
    return {
        **shown_result(result),
        "probes": [
            {
                "id": finding.probe.id,
                "effect": finding.effect,
                "wish": finding.probe.wish,
                "clean": finding.clean.label or finding.clean.outcome.value,
                "planted": finding.planted.label or finding.planted.outcome.value,
                "reason": None if finding.planted.reason is None else finding.planted.reason.value,
            }
            for finding in findings
        ],
    }


def list_probes(name: JudgeNameArgument, as_json: JsonOption = False) -> None:
    """Show the kept results of `judges probe` for one judge, newest first.

    `current` tells a result of the judge as it is configured now from one of an earlier configuration.
    """
    from judge_service.app import Service
    from judge_service.reports.planted import shown_result

    async def run() -> list[dict[str, Any]]:
        async with Service.open(settings_for()) as service:
            judge = service.roster.get(name)
            now = service.judging.judge_hash(judge)
            found = await asyncio.to_thread(service.store.probes.all, judge=name)
            return [{**shown_result(one), "current": one.judge_hash == now} for one in found]

    results = asyncio.run(run())
    if as_json:
        say_json(results)
        return
    if not results:
        note(f"Nothing is kept. Probe it with: judge-service judges probe {name}")
        return
    from rich.table import Table

    table = Table("When (UTC)", "Rubric", "n", "Moved", "Rate", "Configuration", box=None, padding=(0, 2, 0, 0))
    for result in results:
        state = "current" if result["current"] else "earlier"
        for rubric, part in (("all", result["all"]), *result["by_rubric"].items()):
            when = result["created_at"][:19].replace("T", " ")
            table.add_row(when, rubric, str(part["eligible"]), str(part["moved"]), _rate(part), state)
    out().print(table)


def _rate(part: dict[str, Any]) -> str:
    if part["rate"] is None:
        return "nothing to move"
    return f"{100 * part['rate']:.0f}% ({100 * part['rate_low']:.0f} to {100 * part['rate_high']:.0f})"


def _probe_table(report: dict[str, Any]) -> "Table":
    from rich.table import Table

    table = Table(
        "Planted orders", "n", "Moved", "Held", "Broke", "Already", "None", "Rate", box=None, padding=(0, 2, 0, 0)
    )
    groups = (("", {"all": report["all"]}), ("rubric", report["by_rubric"]), ("place", report["by_place"]))
    for title, parts in (*groups, ("kind", report["by_kind"]), ("language", report["by_language"])):
        for key, part in parts.items():
            names = ("probes", "moved", "held", "broke", "already", "no_verdict")
            table.add_row(f"{title} {key}".strip(), *(str(part[column]) for column in names), _rate(part))
    return table
