"""The progress bar of a run: done of total, rate, time left, outcomes, tokens, cost. On standard error only."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from judge_service.runs.progress import Progress

MARKS = {"scored": "✓", "inconsistent": "⇄", "not_applicable": "∅", "judge_error": "!"}
"""Mark of every outcome."""


def seconds(value: float | None) -> str:
    """Time left, as 1:05:09 or 0:42."""
    if value is None:
        return "-:--"
    whole = round(value)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def outcomes(counts: dict[str, int]) -> str:
    """Counts per outcome with their marks, as "✓ 12  ! 1"."""
    return "  ".join(f"{mark} {counts[name]}" for name, mark in MARKS.items() if counts.get(name))


def spent(progress: Progress) -> str:
    """Tokens and cost so far; nothing where no call reported any."""
    parts = []
    if progress.prompt_tokens is not None or progress.completion_tokens is not None:
        parts.append(f"{(progress.prompt_tokens or 0) + (progress.completion_tokens or 0):,} tokens")
    if progress.cost_usd is not None:
        parts.append(f"US$ {progress.cost_usd:.4f}")
    return "  ".join(parts)


@contextmanager
def progress_bar(title: str, total: int, console: Console) -> Iterator[Callable[[Progress], None]]:
    """A bar that is fed snapshots. Where there is no terminal, nothing moves and nothing is written."""
    bar = Bar(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[outcomes]}  {task.fields[spent]}", markup=False),
        console=console,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task(title, total=total, rate="", outcomes="", spent="")

        def show(progress: Progress) -> None:
            rate = "" if progress.rate is None else f"{progress.rate:.1f}/s, {seconds(progress.eta_s)} left"
            bar.update(
                task, completed=progress.n_done, rate=rate, outcomes=outcomes(progress.outcomes), spent=spent(progress)
            )

        yield show


@contextmanager
def stepping(unit: str, console: Console) -> Iterator[Callable[[str, int], None]]:
    """A bar a step, told how many have been through it; the first says how many there are.

    Where there is no terminal, nothing moves and nothing is written.
    """
    bar = Bar(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn(f"{{task.completed:,.0f}} {unit}", markup=False),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    tasks: dict[str, TaskID] = {}
    with bar:

        def show(step: str, done: int) -> None:
            if step not in tasks:
                total = max((task.completed for task in bar.tasks), default=None)
                for task in bar.tasks:
                    bar.update(task.id, total=task.completed)
                tasks[step] = bar.add_task(step, total=total)
            bar.update(tasks[step], completed=done)

        yield show


@contextmanager
def counting(title: str, total: int, console: Console) -> Iterator[Callable[[], None]]:
    """A bar that moves by one a call. Where there is no terminal, nothing moves and nothing is written."""
    bar = Bar(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task(title, total=total)
        yield lambda: bar.advance(task)
