"""Judges by name: the built-in ones, then those of the judges file, then those added at run time.

Owns reading the judges file. Knows no backend: whether a judge can be opened is the backend catalog's matter.
"""

import difflib
import tomllib
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from judge_service.domain.canonical import content_hash
from judge_service.domain.judge import ConfidenceSource, Judge, Limits, OrderPolicy
from judge_service.errors import ConfigurationError, FieldProblem, NotFound
from judge_service.judging.cases import field_problems
from judge_service.settings import Settings

_PATIENT = Limits(timeout_s=300.0, attempts=1)
"""One thread reads about 170 tokens a second, and a busy machine much less; asking again would give the same."""

BUILT_IN: tuple[Judge, ...] = (
    Judge(
        name="embedded",
        backend="embedded",
        description=(
            "Small open model in the process, no key and no network. Reasons before its verdict, both orders. "
            "Near chance as a judge: it proves the pipeline, not a system."
        ),
        confidence=ConfidenceSource.TOKEN_PROBABILITY,
        limits=_PATIENT,
    ),
    Judge(
        name="embedded-direct",
        backend="embedded",
        description=(
            "The same model asked for the bare label; both orders' token probabilities are averaged. Pairs only."
        ),
        elicitation="direct",
        order_policy=OrderPolicy.AVERAGE_PROBABILITY,
        confidence=ConfidenceSource.TOKEN_PROBABILITY,
        limits=_PATIENT,
    ),
    Judge(
        name="constant",
        backend="baseline",
        model="constant",
        description="Baseline without a model: always the same answer. A judge must beat it.",
    ),
    Judge(
        name="longer",
        backend="baseline",
        model="longer",
        description="Baseline without a model: prefers the longer answer of a pair.",
    ),
    Judge(
        name="overlap",
        backend="baseline",
        model="overlap",
        description="Baseline without a model: word and number overlap with the contexts, with a negation check.",
    ),
)


def _problem(path: Path, where: str, error: ValidationError) -> ConfigurationError:
    problems = field_problems(error, where)
    listed = "; ".join(f"{problem.path}: {problem.message}" for problem in problems[:5])
    return ConfigurationError(f"{path.name} is not usable: {listed}", fields=problems)


def read_judges(path: Path) -> tuple[Judge, ...]:
    """The judges of a TOML file with one `[judges.NAME]` table each.

    Raises ConfigurationError that names the file and the field.
    """
    try:
        content: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigurationError(f"The judges file {path} does not exist.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"The judges file {path} could not be read: {error}") from None
    tables = content.get("judges", {})
    unknown = sorted(set(content) - {"judges"})
    if unknown or not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        found = ", ".join(unknown) or "a plain value under `judges`"
        raise ConfigurationError(f"{path.name} may hold [judges.NAME] tables only; found {found}.")
    judges = []
    for name, table in tables.items():
        try:
            judges.append(Judge.model_validate({"name": name, **table}))
        except ValidationError as error:
            raise _problem(path, f"judges.{name}", error) from None
    return tuple(judges)


class Origin(Enum):
    """Where a judge comes from: the program, the operator's file, or the API."""

    BUILT_IN = "built_in"
    FILE = "file"
    STORED = "stored"


class Roster:
    """All judges of this installation by name. A later definition of a name replaces an earlier one."""

    def __init__(self, judges: Iterable[Judge] = BUILT_IN) -> None:
        self._judges = {judge.name: judge for judge in judges}
        self._origins = dict.fromkeys(self._judges, Origin.BUILT_IN)

    @classmethod
    def load(cls, settings: Settings) -> "Roster":
        """The built-in judges and those of the judges file in force. Raises ConfigurationError."""
        roster = cls()
        if (path := settings.judges_path) is not None:
            added = read_judges(path)
            for judge in added:
                roster.add(judge)
            problems = [
                FieldProblem(f"judges.{judge.name}.{problem.path}", problem.message)
                for judge in added
                for problem in panel_problems(judge, roster, members_may_follow=True)
            ]
            if problems:
                listed = "; ".join(f"{problem.path}: {problem.message}" for problem in problems[:5])
                raise ConfigurationError(f"{path.name} is not usable: {listed}", fields=problems)
        return roster

    def get(self, name: str) -> Judge:
        """The judge of that name. Raises NotFound with the closest names."""
        judge = self._judges.get(name)
        if judge is None:
            near = difflib.get_close_matches(name, self._judges, n=3, cutoff=0.5)
            hint = f"Did you mean {', '.join(near)}?" if near else f"Known judges: {', '.join(self._judges)}."
            raise NotFound(f"There is no judge named {name[:80]!r}. {hint}")
        return judge

    def hash_of(self, judge: Judge) -> str:
        """The judge's hash; a panel's covers its members too. Raises NotFound for a member that is not there."""
        if not judge.panel:
            return judge.content_hash
        return content_hash([judge.content_hash, [self.get(name).content_hash for name in judge.panel]])

    def all(self) -> tuple[Judge, ...]:
        """Every judge, built-in ones first."""
        return tuple(self._judges.values())

    def add(self, judge: Judge, origin: Origin = Origin.FILE) -> None:
        """Add a judge or replace the one of that name."""
        self._judges[judge.name] = judge
        self._origins[judge.name] = origin

    def origin(self, name: str) -> Origin | None:
        """Where the judge of that name comes from; None when there is none."""
        return self._origins.get(name)

    def remove(self, name: str) -> Judge:
        """Take a judge out. Raises NotFound."""
        judge = self.get(name)
        del self._judges[name], self._origins[name]
        return judge


def panel_problems(judge: Judge, roster: Roster, *, members_may_follow: bool = False) -> list[FieldProblem]:
    """What is wrong with a judge's panel, by field; nothing for a judge without one.

    With `members_may_follow` a member that is not there is no problem: the database may hold it.
    """
    if not judge.panel:
        return []
    problems = []
    for index, name in enumerate(judge.panel):
        try:
            member = roster.get(name)
        except NotFound as error:
            if not members_may_follow:
                problems.append(FieldProblem(f"panel[{index}]", error.message))
            continue
        if member.panel or name == judge.name:
            problems.append(FieldProblem(f"panel[{index}]", "a panel may not contain a panel"))
    if judge.quorum is not None and judge.quorum > len(judge.panel):
        problems.append(FieldProblem("quorum", "the quorum is larger than the panel"))
    return problems
