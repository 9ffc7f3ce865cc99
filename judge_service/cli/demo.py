"""`judge-service demo`: the whole product on packaged sample cases, with the embedded model and no key.

Owns the order of the tour and its words. Judging, storing and reporting are the rooms' own.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from judge_service.cli.console import err, note, out, program
from judge_service.cli.loop import run_loop
from judge_service.cli.options import settings_for

if TYPE_CHECKING:
    from rich.table import Table

    from judge_service.app import Service
    from judge_service.domain.case import Case
    from judge_service.domain.judge import Judge
    from judge_service.domain.judgment import Judgment
    from judge_service.reports.dataset import Dataset, JudgeColumn, LabelledItem
    from judge_service.settings import Settings
    from rubrics.model import Rubric

JUDGES = {
    "faithfulness": ("embedded", "constant", "overlap"),
    "pairwise": ("embedded", "constant", "longer", "overlap"),
}
"""Judges of the demo by rubric: the embedded model, then baselines without a model."""

SOURCE = "Cases and labels were written by the author of the samples, one person, before any judge ran."

NEXT = """\
To use another model, add a judge to {judges_file}
(more in docs/judges.md), one of:

  [judges.mine]                       # a GGUF file of your own, in this process
  backend = "embedded"
  options = {{ model_path = "/models/your-model.gguf" }}

  [judges.server]                     # any OpenAI-compatible server: vLLM, llama.cpp, Ollama, SGLang
  backend = "litellm"
  model = "openai/your-model"
  options = {{ base_url = "http://127.0.0.1:8080/v1" }}

  [judges.hosted]                     # a hosted model; the key stays in the environment
  backend = "litellm"
  model = "openai/gpt-4o-mini"
  options = {{ api_key_env = "OPENAI_API_KEY" }}

then:  {program} judges probe mine
       {program} judge pairwise {folder}/pairwise.jsonl --judge mine -o judgments.jsonl
or start the HTTP service:  {program} serve"""


@dataclass(frozen=True, slots=True)
class Samples:
    """The sample cases of one rubric with their author's labels, and the lines a person may judge again."""

    rubric: "Rubric[Any]"
    items: "tuple[LabelledItem, ...]"

    @property
    def cases(self) -> "list[Case]":
        """The cases alone."""
        return [item.case for item in self.items]


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", file_okay=False, help="Folder for the database and the report.")
    ] = Path("demo-output"),
    from_file: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="FILE", exists=True, dir_okay=False, help="Install the model from this file, no network."
        ),
    ] = None,
) -> None:
    """Judge packaged sample cases with the small embedded model and write a report. Run again, it asks nothing anew."""
    from judge_service.backends.weights import GGUF_SHA256, installed, pull
    from judge_service.telemetry import configure_logging

    configure_logging("WARNING")
    output.mkdir(parents=True, exist_ok=True)
    settings = settings_for()
    if settings.model_path is None:
        pull(settings, from_file, progress=note)
    weights = installed(settings)
    digest = weights.sha256 if weights is not None else "none"
    # Judgments of another model must not be taken for this one's: each model file has a database of its own.
    database = f"sqlite:///{(output / f'demo-{digest[:8]}.sqlite3').absolute()}"
    run_loop(_tour(settings_for(database), output, digest == GGUF_SHA256))


async def _tour(settings: "Settings", output: Path, bundled: bool) -> None:
    from rich.padding import Padding
    from rich.text import Text

    from judge_service.app import Service
    from judge_service.domain.outcome import Enforcement
    from judge_service.reports.render import to_html, to_json
    from judge_service.reports.selection import bundle_reports

    console = out()
    datasets: list[Dataset] = []
    made = 0
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    async with Service.open(settings) as service:
        for name, judges in JUDGES.items():
            samples = read_samples(name, output)
            columns = []
            for judge_name in judges:
                column, calls = await _judge(service, samples, service.roster.get(judge_name))
                columns.append(column)
                made += calls
            datasets.append(_dataset(samples, columns))
            console.print(f"{samples.rubric.id} by {columns[0].judge.name}: {samples.rubric.question}", style="bold")
            console.print(_table(samples, columns[0]))
            console.print()
    report = bundle_reports(datasets, "Which judge for the sample cases?")
    page, data = output / "report.html", output / "report.json"
    page.write_text(to_html(report), encoding="utf-8")
    data.write_text(to_json(report), encoding="utf-8")
    for part in report["parts"]:
        decision = part["decision"]
        console.print(
            f"{decision['mark']} {part['facts']['rubric']}: {decision['sentence']}", markup=False, style="bold"
        )
        for reason in decision["reasons"][1:]:
            console.print(Padding(Text(reason), (0, 0, 0, 2)))
        console.print()
    made_by_model = [
        one for dataset in datasets for one in dataset.columns[0].judgments if one is not None and one.calls
    ]
    if bundled and all(one.enforcement is Enforcement.GRAMMAR for one in made_by_model):
        console.print(
            "This small model (135 million parameters) is near chance as a judge: it proves the pipeline, and its "
            "verdicts say nothing about the answers. What holds for any model: every reply above was decoded under a "
            "grammar, nothing that failed is counted, and no verdict claims a trust that was not measured.",
            markup=False,
        )
    asked = "No call was made: every judgment was recorded before." if made == 0 else f"{made} calls were made."
    console.print(f"{asked} Judgments are stored in {output}.", markup=False, soft_wrap=True)
    console.print(f"Report: {page.absolute()}", markup=False, style="bold", soft_wrap=True)
    console.print()
    judges_file = settings.judges_file or settings.data_dir / "judges.toml"
    console.print(NEXT.format(judges_file=judges_file, folder=output, program=program()), markup=False, soft_wrap=True)


def read_samples(name: str, folder: Path) -> Samples:
    """The packaged samples of a rubric; its cases are also written to `folder`, as `judge-service judge` reads them."""
    from judge_service.demo import sample_lines
    from judge_service.reports.dataset import LabelledItem
    from judge_service.runs.casefile import read_cases
    from rubrics.registry import get_rubric

    rubric = get_rubric(name)
    lines = sample_lines(name)
    (folder / f"{name}.jsonl").write_bytes(b"".join(lines))
    labels = [json.loads(line) for line in lines]
    unlabelled = [
        json.dumps({key: value for key, value in row.items() if not key.startswith("human_")}) for row in labels
    ]
    cases = list(read_cases(unlabelled, rubric, strict=False))
    items = (LabelledItem(case, row["human_label"], row["human_note"]) for case, row in zip(cases, labels, strict=True))
    return Samples(rubric, tuple(items))


async def _judge(service: "Service", samples: Samples, judge: "Judge") -> "tuple[JudgeColumn, int]":
    from judge_service.cli.progress import progress_bar
    from judge_service.cli.running import identify, judge_all, recorded
    from judge_service.reports.dataset import line_up

    cases, rubric = samples.cases, samples.rubric
    service.judging.check(rubric, judge)
    work = identify(service, lambda: cases, rubric, judge)
    before = {one.id for one in recorded(service, lambda: cases, rubric, judge) if one is not None}
    with progress_bar(f"{rubric.id} by {judge.name}", work.n, err()) as show:
        await judge_all(
            service,
            lambda: cases,
            rubric,
            judge,
            work,
            source="packaged samples",
            # As many as the engine works on at once, so that the time of a case holds no waiting.
            concurrency=service.settings.parallel,
            on_progress=show,
        )
    found: list[Judgment] = [one for one in recorded(service, lambda: cases, rubric, judge) if one is not None]
    return line_up(cases, found, judge), sum(len(one.calls) for one in found if one.id not in before)


def _dataset(samples: Samples, columns: "list[JudgeColumn]") -> "Dataset":
    from judge_service.reports.dataset import Dataset

    return Dataset(
        rubric=samples.rubric,
        name=f"packaged {samples.rubric.name} samples, English and German",
        source=SOURCE,
        items=samples.items,
        columns=tuple(columns),
    )


def _table(samples: Samples, column: "JudgeColumn") -> "Table":
    """One line per case of one judge: how it ended, the verdict beside the person's, trust, tokens and time."""
    from rich.table import Table

    from judge_service.cli.progress import MARKS

    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("Case")
    table.add_column("Outcome", overflow="fold")
    table.add_column("Score", justify="right")
    table.add_column("Verdict")
    table.add_column("Person")
    table.add_column("Trust")
    table.add_column("Tokens", justify="right")
    table.add_column("Sec", justify="right")
    for item, judgment in zip(samples.items, column.judgments, strict=True):
        if judgment is None:
            table.add_row(item.case.id, "not judged", "", "", item.label or "no label", "", "", "")
            continue
        outcome = f"{MARKS[judgment.outcome.value]} {judgment.outcome.value.replace('_', ' ')}"
        if judgment.reason is not None:
            outcome += f": {judgment.reason.value.replace('_', ' ')}"
        tokens = (judgment.usage.prompt_tokens or 0) + (judgment.usage.completion_tokens or 0)
        table.add_row(
            item.case.id,
            outcome,
            "none" if judgment.score is None else f"{judgment.score:.2f}",
            judgment.label or "none",
            item.label or "no label",
            judgment.trust.level.value,
            f"{tokens:,}",
            f"{judgment.latency_ms / 1000:.1f}",
        )
    return table
