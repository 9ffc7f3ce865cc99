"""What the pages of leads and the opening of a drawn project cost on a large set that is labelled through and through.

    python -m benchmarks.lead_pages [--cases 10000] [--repeats 3] [--database URL]

Three people have labelled every case; a tenth of the cases differ and every second case has a judgment. Prints CPU
milliseconds of this process, median of `--repeats`, the first call apart. The database's own process is not counted.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from sqlalchemy import insert, update

from benchmarks.labelling_store import LEAD, PEOPLE, opened
from judge_service.annotation.adjudication import to_adjudicate, waiting
from judge_service.annotation.estimates import estimates
from judge_service.annotation.quality import quality
from judge_service.domain.annotation import Project, case_token
from judge_service.domain.calibration_set import Label
from judge_service.store import Store
from judge_service.store.places import ASSIGNMENTS
from judge_service.store.projects import MEMBERS, ORDERS, PROJECT_CASES
from judge_service.store.store import utc_now


def labelled(store: Store, cases: int) -> Project:
    """A project of which everybody has labelled every case."""
    project = opened(store, cases, labels_wanted=3, overlap=1.0)
    members = store.projects.members(project.id)
    start = utc_now()
    ids = [case.case_id for case in store.projects.cases(project.id)]

    def said(place: int, number: int) -> str:
        return "B" if number == 0 and place % 10 == 0 else "tie" if place % 7 == 0 else "A"

    labels, rows = [], []
    for number, member in enumerate(members):
        for place, case_id in enumerate(ids):
            label, at = said(place, number), start + timedelta(seconds=place)
            labels.append(
                Label(
                    set_id=project.set_id,
                    case_id=case_id,
                    rubric=project.rubric,
                    annotator=member.name,
                    label=label,
                    detail={"label": label},
                    order_shown="AB",
                    created_at=at,
                )
            )
            shown = {"A": "first", "B": "second", "tie": "tie"}[label]
            steps = {"state": "saved", "place": number + 1, "order": "AB", "version": 1, "draft_version": 0}
            times = {"offered_at": at, "leased_until": at, "changed_at": at, "seconds": 4.0}
            answer = {"answers": {"label": shown}}
            named = {"id": f"{number}-{place}", "case_id": case_id, "person": member.person}
            rows.append({"project_id": project.id, "answer": answer, **named, **steps, **times})
    store.labels.add(project.set_id, labels)
    with store._database.engine.begin() as connection:
        for first in range(0, len(rows), 1000):
            connection.execute(insert(ASSIGNMENTS), rows[first : first + 1000])
        connection.execute(update(PROJECT_CASES).where(PROJECT_CASES.c.project_id == project.id).values(saved=3))
        connection.execute(update(ORDERS).where(ORDERS.c.project_id == project.id).values(offered=True))
        connection.execute(update(MEMBERS).where(MEMBERS.c.project_id == project.id).values(done=cases))
    return project


def cpu(work: Callable[[], object], repeats: int) -> tuple[float, float]:
    """CPU milliseconds of this process: of the first call, and the median of the next ones."""
    found = []
    for _ in range(repeats + 1):
        start = time.process_time()
        work()
        found.append((time.process_time() - start) * 1000)
    return found[0], statistics.median(found[1:])


def main() -> None:
    """Measure one project."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--database")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = given.database or f"sqlite:///{Path(folder) / 'judge.db'}"
        with Store.open(url) as store:
            project = labelled(store, given.cases)
            last = waiting(store, project.id)[-1].case_id
            token = case_token(project.id, last)

            named = {
                "case of the decision page": lambda: store.projects.case_of(project.id, token),
                "labels of the decision page": lambda: to_adjudicate(store, project.id, last, LEAD),
                "place in the queue and its length": lambda: store.projects.place_waiting(project.id, last),
                "queue, 50 of it": lambda: waiting(store, project.id, limit=50),
                "count of the queue": lambda: store.projects.count_waiting(project.id),
                "figures of the project": lambda: quality(store, project.id),
                "estimates": lambda: estimates(store, project.id),
                "set of as many cases": lambda: opened(store, given.cases),
                "the same, 100 drawn": lambda: opened(store, given.cases, selection={"n": 100, "by": "random"}),
                "the same, by uncertainty": lambda: opened(store, given.cases, selection={"n": 100, "by": "uncertain"}),
            }
            print(f"{given.cases} cases, {len(PEOPLE)} labels each; CPU ms: first call, then")
            for name, work in named.items():
                first, then = cpu(work, given.repeats)
                print(f"{name}: {first:.1f}, {then:.1f}")


if __name__ == "__main__":
    main()
