"""One import into a set at a time, so that a file which is refused leaves nothing behind.

An import looks through a file and then stores it a thousand rows at a time; another one in between could make the rest
of it differ. Owns the turns within this process. Processes that import into one set at one moment are kept apart by the
store for each thousand only.
"""

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

_LOCKS: "defaultdict[str, threading.Lock]" = defaultdict(threading.Lock)
_GUARD = threading.Lock()


@contextmanager
def turn(set_id: str) -> Iterator[None]:
    """Wait until no other import into the set is under way, and be the one."""
    with _GUARD:
        lock = _LOCKS[set_id]
    with lock:
        yield
