"""Who works on a run or a check: a name for this process, and whether the process behind a name still lives.

Owns take-over: the work of a dead process may be continued, that of a living process may not.
"""

import os
import socket
import uuid
from datetime import datetime, timedelta
from pathlib import Path

from judge_service.domain.run import Run, RunStatus

LEASE = timedelta(seconds=60)
"""A worker on another machine counts as dead after this long without a sign; a living one gives one every second."""
FLEET = "fleet"
"""The worker of a run whose chunks are judged by any number of processes."""
SERVICE = "service"
"""The worker of a run that a stopping process of a service gave back: any other process of it goes on with it."""

_TOKEN = uuid.uuid4().hex[:12]


def this_worker() -> str:
    """A name for this process, unique also when process ids are used again."""
    return f"{_host()}|{os.getpid()}|{_born(os.getpid())}|{_TOKEN}"


def alive(run: Run, now: datetime) -> bool:
    """True when another living process works on `run`, or stores its cases."""
    planning = run.status is RunStatus.QUEUED and not run.planned
    if run.worker is None or not (planning or run.status in (RunStatus.RUNNING, RunStatus.CANCELLING)):
        return False
    return run.worker != this_worker() and living(run.worker, run.heartbeat_at, now)


def living(worker: str, heartbeat_at: datetime | None, now: datetime) -> bool:
    """True while the process of that name lives, this one too: on another machine, by its last sign of life."""
    parts = worker.split("|")
    if len(parts) == 4 and parts[0] == _host() and parts[1].isdigit():
        born = _born(int(parts[1]))
        return born is not None and str(born) == parts[2]
    return heartbeat_at is not None and abs(now - heartbeat_at) < LEASE


def _host() -> str:
    # Containers may share a host name; process ids mean something within one namespace only.
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        namespace = ""
    return f"{socket.gethostname()}{namespace}".replace("|", "")


def _born(pid: int) -> str | None:
    """When the process started, None when there is none. Where the system does not tell, the answer is `?`."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            return None
        # A zombie has died and was not yet waited for.
        return None if fields[0] in ("Z", "X") else fields[19]
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        return "?"
    return "?"
