"""The cases of a set version as the input of a run.

Owns which of them a run may judge: without a split the tests of release splits stay closed, and a release split is
judged once by each configuration.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from judge_service.domain.calibration_set import SetVersion, Split
from judge_service.domain.case import Case
from judge_service.errors import FieldProblem, InvalidInput
from judge_service.reports.labelled_set import source_of
from judge_service.reports.measuring import once_on_release
from judge_service.store import Store


@dataclass(frozen=True, slots=True)
class SetCases:
    """What a run over a set judges. `n_closed` cases of release splits are left out; calling it reads the cases."""

    store: Store
    version: SetVersion
    split: Split | None
    n: int
    n_closed: int

    @property
    def source(self) -> str:
        """The source of the run, by which the set's statistics find it."""
        return source_of(self.version.id)

    @property
    def notices(self) -> list[str]:
        """A sentence about what is left out; empty when nothing is."""
        if not self.n_closed:
            return []
        return [f"Left out: {self.n_closed} cases of the release split, which is judged only where it is named."]

    def __call__(self) -> Iterator[Case]:
        """The cases, in the set's order."""
        closed = False if self.split is None else None
        return (entry.case for entry in self.store.sets.cases(self.version.id, self.split, closed=closed))


def cases_to_judge(store: Store, reference: str, split: Split | None, judge: str, judge_hash: str) -> SetCases:
    """The cases of a set version that the judge may judge.

    Raises NotFound, InvalidInput where there is none, and Conflict where this configuration was scored on the release
    split before.
    """
    version = store.sets.get(reference)
    if split is not None:
        once_on_release(store, version, judge, judge_hash, split)
    found = SetCases(store, version, split, 0, 0)
    n = sum(1 for _ in found())
    n_closed = sum(1 for _ in store.sets.cases(version.id, closed=True)) if split is None else 0
    if not n:
        where = f"in its split {split.value}" if split is not None else "outside its release split"
        message = f"{version.id} has no case {where}"
        raise InvalidInput(f"{message}.", fields=[FieldProblem("set" if split is None else "split", message)])
    return SetCases(store, version, split, n, n_closed)
