"""Finds rubric versions by `name@version`: the library's own, those of installed packages, then declared ones.

Owns discovery and its errors. Packages announce rubrics under the entry point group `judge_service.rubrics`; an
entry point names a `Rubric` instance or class. Declared rubrics are known while their source has announced them.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from typing import Any

from rubrics import library
from rubrics.model import Rubric

ENTRY_POINT_GROUP = "judge_service.rubrics"
_announced: dict[str, tuple[Rubric[Any], ...]] = {}


class UnknownRubric(KeyError):
    """No rubric has that name and version. `suggestions` are near misses, best first."""

    def __init__(self, reference: str, suggestions: tuple[str, ...], known: tuple[str, ...]) -> None:
        self.reference = reference
        self.suggestions = suggestions
        hint = f" Did you mean {' or '.join(suggestions)}?" if suggestions else ""
        super().__init__(f"There is no rubric {reference!r}.{hint} Known: {', '.join(known)}.")

    def __str__(self) -> str:
        return str(self.args[0])


class UnusableRubric(ValueError):
    """An installed package announces a rubric that cannot be used: the message names its entry point and why."""


@lru_cache(maxsize=1)
def built_in_rubrics() -> tuple[Rubric[Any], ...]:
    """The versions in `rubrics.library`, sorted by name and version."""
    found = [
        import_module(f"{library.__name__}.{entry.name}.rubric").RUBRIC
        for entry in iter_modules(library.__path__)
        if entry.ispkg
    ]
    return tuple(sorted(found, key=lambda rubric: (rubric.name, rubric.version)))


@lru_cache(maxsize=1)
def all_rubrics() -> tuple[Rubric[Any], ...]:
    """Every known version, sorted by name and version.

    Raises UnusableRubric when an installed package's rubric cannot be loaded, is none, or takes an id in use.
    """
    known = {rubric.id: rubric for rubric in installed_rubrics()}
    for rubrics in tuple(_announced.values()):
        for rubric in rubrics:
            known.setdefault(rubric.id, rubric)
    return tuple(sorted(known.values(), key=lambda rubric: (rubric.name, rubric.version)))


def announce(source: str, rubrics: Iterable[Rubric[Any]]) -> None:
    """Make the rubrics that `source` holds known in this process, in place of those it announced before.

    A version that is installed, or that another source announced first, stays what it is.
    """
    given = tuple(rubrics)
    if _announced.get(source) == given:
        # Said every moment by who keeps in step with a database; looking through all packages takes milliseconds.
        return
    _announced[source] = given
    all_rubrics.cache_clear()


def withdraw(source: str) -> None:
    """Forget what `source` announced, if anything."""
    if _announced.pop(source, None) is not None:
        all_rubrics.cache_clear()


def installed_rubrics() -> tuple[Rubric[Any], ...]:
    """The versions of the library and of installed packages. Raises UnusableRubric as `all_rubrics` does."""
    known = {rubric.id: rubric for rubric in built_in_rubrics()}
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        try:
            loaded = entry.load()
        except Exception as error:  # a package of someone else may raise anything while it is imported
            raise UnusableRubric(f"entry point {entry.name!r} ({entry.value}) cannot be loaded: {error}") from error
        rubric = loaded() if isinstance(loaded, type) else loaded
        if not isinstance(rubric, Rubric):
            raise UnusableRubric(f"entry point {entry.name!r} ({entry.value}) is not a Rubric")
        if rubric.id in known:
            raise UnusableRubric(f"entry point {entry.name!r} ({entry.value}) redefines {rubric.id}")
        known[rubric.id] = rubric
    return tuple(sorted(known.values(), key=lambda rubric: (rubric.name, rubric.version)))


def get_rubric(ref: str) -> Rubric[Any]:
    """The version `name@version`, or the newest version of `name`. Raises UnknownRubric with near misses."""
    rubrics = all_rubrics()
    wanted = ref.strip()
    name, _, version = wanted.partition("@")
    matching = [rubric for rubric in rubrics if rubric.name == name]
    if matching and "@" not in wanted:
        return matching[-1]
    for rubric in matching:
        if str(rubric.version) == version:
            return rubric
    known = tuple(rubric.id for rubric in rubrics)
    same_name = tuple(rubric.id for rubric in reversed(matching))
    # Compared without the version: `faithfulnes` is near to `faithfulness@1` whatever its number.
    names = get_close_matches(name.lower().replace("-", "_"), {rubric.name for rubric in rubrics}, n=3, cutoff=0.6)
    near = tuple(rubric.id for close in names for rubric in reversed(rubrics) if rubric.name == close)
    raise UnknownRubric(ref, same_name or near, known)
