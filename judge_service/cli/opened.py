"""A command's work on the opened store, declared rubrics known."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from judge_service.cli.options import settings_for

if TYPE_CHECKING:
    from judge_service.store import Store

T = TypeVar("T")


BY = "command line"
"""Who stands in the audit log for a command."""


@contextmanager
def noting(store: "Store", what: str, object_: "str | Callable[[Any], str]") -> Iterator[None]:
    """Note in the audit log what the change inside does, in the change's own transaction."""
    with store.audit.along(BY, BY, what, object_):
        yield


def with_store(database: str | None, work: "Callable[[Store], T]") -> T:
    """What `work` gives on the store of the settings, or of this database; it is closed afterwards."""
    from judge_service.runs.stored_rubrics import StoredRubrics
    from judge_service.store import Store

    settings = settings_for(database)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    with Store.open(settings.database) as store, StoredRubrics(store):
        return work(store)
