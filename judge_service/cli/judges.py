"""`judge-service judges`: who can judge, and whether each can do what the rubrics ask."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from judge_service.cli import planted
from judge_service.cli.console import FAILED, Commands, note, out, say_json
from judge_service.cli.options import JsonOption, JudgeNameArgument, settings_for

if TYPE_CHECKING:
    from rich.table import Table

    from judge_service.backends.catalog import BackendPool
    from judge_service.domain.judge import Judge
    from judge_service.errors import JudgeServiceError
    from judge_service.judging.roster import Roster

app = typer.Typer(cls=Commands, help="List the judges, read one, check and probe them.", no_args_is_help=True)

_SECRET_WORDS = ("key", "token", "secret", "password", "authorization")

NamesArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[NAME]...", help="Judges to look at. Default: all of them.")
]


def public_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options without anything that could be a secret; the name of an environment variable is none."""

    def shown(name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shown(key, part) for key, part in value.items()}
        hidden = any(word in name.lower() for word in _SECRET_WORDS) and not name.lower().endswith("env")
        return "***" if hidden and isinstance(value, str) else value

    return {name: shown(name, value) for name, value in options.items()}


def public_judge(judge: "Judge", roster: "Roster") -> dict[str, Any]:
    """A judge as JSON, without secrets and with its hash: null for a panel whose members are not all there."""
    from judge_service.errors import NotFound

    shown = judge.model_dump(mode="json", exclude={"options"})
    try:
        own: str | None = roster.hash_of(judge)
    except NotFound:
        own = None
    return {**shown, "options": public_options(judge.options), "content_hash": own}


def _chosen(names: list[str] | None, roster: "Roster | None" = None) -> "tuple[Judge, ...]":
    roster = roster or _roster()
    return tuple(roster.get(name) for name in names) if names else roster.all()


def _roster() -> "Roster":
    """The judges of the program, of the judges file and of the database, where there is one already."""
    from judge_service.app import Service
    from judge_service.judging.roster import Roster

    settings = settings_for()
    if settings.database_url is None and not (settings.data_dir / "judge-service.sqlite3").exists():
        return Roster.load(settings)
    service = Service.open(settings)
    asyncio.run(service.aclose())
    return service.roster


@app.command("list")
def list_judges(as_json: JsonOption = False) -> None:
    """List the judges: the built-in ones and those of the judges file."""
    roster = _roster()
    judges = _chosen(None, roster)
    if as_json:
        say_json([public_judge(judge, roster) for judge in judges])
        return
    from rich.markup import escape
    from rich.table import Table

    table = Table("Judge", "Backend", "Model", "Orders", "Description", box=None, padding=(0, 2, 0, 0))
    for judge in judges:
        table.add_row(
            judge.name,
            judge.backend,
            escape(judge.model) or "its default",
            judge.order_policy.value,
            escape(judge.description),
        )
    out().print(table)


@app.command("show")
def show_judge(name: JudgeNameArgument, as_json: JsonOption = False) -> None:
    """Show everything about one judge, without secrets."""
    roster = _roster()
    shown = public_judge(roster.get(name), roster)
    if as_json:
        say_json(shown)
        return
    console = out()
    for key, value in shown.items():
        if value not in (None, "", {}, ()) and value != []:
            console.print(f"{key:14} {value}", markup=False)


def _members(chosen: "tuple[Judge, ...]") -> "tuple[list[Judge], list[tuple[str, str]]]":
    """The judges that can be opened: a panel stands for its members. Beside them, panels that cannot work, and why."""
    from judge_service.judging.roster import panel_problems

    roster = _roster()
    judges: dict[str, Judge] = {}
    wrong = []
    for judge in chosen:
        if problems := panel_problems(judge, roster):
            wrong.append((judge.name, " ".join(f"{problem.path}: {problem.message}" for problem in problems)))
            continue
        for name in judge.panel or (judge.name,):
            judges.setdefault(name, roster.get(name))
    return list(judges.values()), wrong


def _why(error: "JudgeServiceError") -> str:
    from judge_service.telemetry import redact

    return redact(" ".join([error.message, *(f"{problem.path}: {problem.message}." for problem in error.fields)]))


def _unusable(name: str, message: str) -> dict[str, Any]:
    return {
        "judge": name,
        "rubric": None,
        "step": None,
        "enforcement": None,
        "logprobs": None,
        "ignored": [],
        "error": message,
    }


def _unreachable(name: str, model: str | None, message: str) -> dict[str, Any]:
    return {
        "judge": name,
        "ready": False,
        "constraint_honoured": None,
        "logprobs": None,
        "model": model,
        "message": message,
    }


def compile_rows(judge: "Judge", pool: "BackendPool") -> list[dict[str, Any]]:
    """What the judge's backend makes of every step of every rubric: one row a step, no call made.

    A judge that cannot be opened has one row with `error`.
    """
    from judge_service.errors import JudgeServiceError
    from rubrics.registry import all_rubrics

    try:
        backend = pool.get(judge)
        capabilities = backend.capabilities
    except JudgeServiceError as error:
        return [_unusable(judge.name, _why(error))]
    rows = []
    for rubric in all_rubrics():
        for step, constraint in rubric.sample_constraints().items():
            report = backend.compile(constraint)
            rows.append(
                {
                    "judge": judge.name,
                    "rubric": rubric.id,
                    "step": step,
                    "enforcement": report.enforcement.value,
                    "logprobs": capabilities.logprobs,
                    "ignored": [{"path": item.path, "keyword": item.keyword} for item in report.ignored],
                    "error": report.error,
                }
            )
    return rows


@app.command("check")
def check_judges(
    names: NamesArgument = None,
    no_call: Annotated[bool, typer.Option("--no-call", help="Compile only; ask no judge the tiny question.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compile every rubric's schemas on every judge, ask each one tiny question, and say what holds.

    The question's only legal answer contradicts its prompt: is the judge reachable, does it honour a schema, does it
    give token probabilities? Exit code 1 when a judge cannot be opened, a schema cannot be compiled, or the answer is
    not legal.
    """
    from judge_service.backends.catalog import BackendPool

    judges, wrong = _members(_chosen(names))

    async def gather() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        pool = BackendPool(settings_for())
        try:
            rows = [row for judge in judges for row in await asyncio.to_thread(compile_rows, judge, pool)]
            rows += [_unusable(name, message) for name, message in wrong]
            closed = {row["judge"] for row in rows if row["rubric"] is None}
            asked = [judge for judge in judges if not no_call and judge.name not in closed]
            return rows, [await _canary(judge, pool) for judge in asked]
        finally:
            await pool.aclose()

    rows, answers = asyncio.run(gather())
    found = {answer["judge"]: answer for answer in answers}
    for row in rows:
        answer = found.get(row["judge"])
        if answer is not None and row["logprobs"] is None:
            row["logprobs"] = answer["logprobs"]
        row["call"] = None if answer is None else {name: value for name, value in answer.items() if name != "judge"}
    if as_json:
        say_json(rows)
    else:
        out().print(_check_table(rows))
        if answers:
            out().print(_answer_table(answers))
    bad = [row["judge"] for row in answers if not row["ready"] or row["constraint_honoured"] is False]
    if bad:
        note(f"Not usable: {', '.join(bad)}.")
    if bad or any(row["error"] is not None for row in rows):
        raise typer.Exit(FAILED)


async def _canary(judge: "Judge", pool: "BackendPool") -> dict[str, Any]:
    from judge_service.errors import JudgeServiceError

    try:
        found = await pool.get(judge).probe()
    except JudgeServiceError as error:
        return _unreachable(judge.name, judge.model or None, _why(error))
    return {
        "judge": judge.name,
        "ready": found.ready,
        "constraint_honoured": found.constraint_honoured,
        "logprobs": found.logprobs,
        "model": found.model,
        "message": found.message,
    }


def _answer_table(rows: list[dict[str, Any]]) -> "Table":
    from rich.markup import escape
    from rich.table import Table

    words = {True: "yes", False: "no", None: "not known"}
    table = Table("Judge", "Ready", "Honours schema", "Logprobs", "Model", "Says", box=None, padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(
            row["judge"],
            words[row["ready"]],
            words[row["constraint_honoured"]],
            words[row["logprobs"]],
            escape(row["model"] or "not known"),
            escape(row["message"]),
        )
    return table


def _check_table(rows: list[dict[str, Any]]) -> "Table":
    """One line per judge and rubric for steps that are treated alike; every ignored feature with its path."""
    from rich.markup import escape
    from rich.table import Table

    alike: dict[tuple[str, str, str, str, str], list[str]] = {}
    for row in rows:
        known = {True: "yes", False: "no", None: "not known"}[row["logprobs"]]
        ignored = "\n".join(f"{item['path'] or 'whole reply'}: {item['keyword']}" for item in row["ignored"])
        says = f"! {row['error']}" if row["error"] is not None else ignored or "nothing"
        key = (row["judge"], row["rubric"] or "any", row["enforcement"] or "none", known, says)
        alike.setdefault(key, []).append(row["step"] or "any")
    table = Table("Judge", "Rubric", "Steps", "Enforcement", "Logprobs", "Not enforced", box=None, padding=(0, 2, 0, 0))
    for (name, rubric, enforcement, known, says), steps in alike.items():
        table.add_row(name, rubric, "\n".join(steps), enforcement, known, escape(says))
    return table


app.command("probe")(planted.probe_judge)
app.command("probes")(planted.list_probes)
