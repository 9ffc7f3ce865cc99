"""What one label costs on a large set: CPU of the next case and of saving it, as more and more of the set is done.

    python -m benchmarks.labelling_store [--cases 10000] [--saves 100] [--done 5000] [--database URL]

Three people label a set of short pairs, 30% of the cases twice. Prints CPU milliseconds of this process per step,
median of `--saves` steps: at the start and, with `--done`, after so many labels; and of the queue of disagreements, the
progress of a project's page, a draw by uncertainty and the estimates. The database's own process is not counted.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from judge_service.annotation.adjudication import waiting
from judge_service.annotation.estimates import estimates
from judge_service.annotation.labelling import Labelling
from judge_service.annotation.projects import ProjectRequest, open_project
from judge_service.domain.annotation import Project
from judge_service.domain.calibration_set import SetCase
from judge_service.domain.case import Case
from judge_service.domain.principal import Principal, Role
from judge_service.domain.user import User
from judge_service.security.sessions import new_id
from judge_service.store import Store
from judge_service.store.store import utc_now

PEOPLE = ("Ann", "Bob", "Cy")
LEAD = Principal(user_id="l" * 12, name="Lea", role=Role.LEAD)


def opened(store: Store, cases: int, **more: object) -> Project:
    """A set of pairs, and a project of it."""
    version = store.sets.create(f"pairs-{new_id()}", "pairwise@1")
    store.sets.add_cases(
        version.id,
        (
            SetCase(case=Case(id=f"case-{n:06d}", input={"prompt": f"P {n}", "response_a": "So.", "response_b": "No."}))
            for n in range(cases)
        ),
    )
    for name in PEOPLE:
        if store.users.named(name) is None:
            store.users.add(User(id=new_id(), name=name, role=Role.ANNOTATE, created_at=utc_now()))
    fields = {"name": "P", "set": version.id, "annotators": PEOPLE, "labels_wanted": 2, "overlap": 0.3} | more
    return open_project(store, ProjectRequest.model_validate(fields), LEAD, seed=7)


def cpu(work: Callable[[], object]) -> float:
    """CPU milliseconds of this process for one call."""
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1000


def steps(store: Store, project: Project, n: int) -> tuple[list[float], list[float]]:
    """CPU of `n` times the next case and its save, one person after the other."""
    labelling = Labelling(store)
    people = {name: f"user:{found.id}" for name in PEOPLE if (found := store.users.named(name)) is not None}
    nexts, saves = [], []
    for number in range(n):
        name = PEOPLE[number % len(PEOPLE)]
        start = time.process_time()
        shown = labelling.next(project.id, people[name])
        nexts.append((time.process_time() - start) * 1000)
        if shown is None:
            break
        answer = {"answers": {"label": "first" if (number * 7 + len(name)) % 3 else "second"}}
        case, version = shown.case, shown.version
        saves.append(cpu(lambda: labelling.save(case, people[name], name, answer, version)))  # noqa: B023
    return nexts, saves


def main() -> None:
    """Measure one project."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--saves", type=int, default=100)
    parser.add_argument("--done", type=int, default=0)
    parser.add_argument("--database")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = given.database or f"sqlite:///{Path(folder) / 'judge.db'}"
        with Store.open(url) as store:
            project = opened(store, given.cases)
            for done in (0, given.done) if given.done else (0,):
                if done:
                    steps(store, project, done)
                nexts, saves = (statistics.median(found) for found in steps(store, project, given.saves))
                print(f"{given.cases} cases, {done} labels: next {nexts:.1f} ms, save {saves:.1f} ms")
            people = [store.projects.members(project.id)[0].person]
            named = {
                "progress": lambda: store.assignments.progress(project.id, people[0]),
                "disagreements": lambda: waiting(store, project.id),
                "estimates": lambda: estimates(store, project.id),
                "uncertain draw": lambda: opened(store, given.cases, selection={"n": 100, "by": "uncertain"}),
                "random draw": lambda: opened(store, given.cases, selection={"n": 100, "by": "random"}),
            }
            for name, work in named.items():
                print(f"{name}: {cpu(work):.0f} ms")


if __name__ == "__main__":
    main()
