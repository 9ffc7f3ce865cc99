"""A process that forks one child after another, so that a child starts in milliseconds and may be killed at any time.

    python -m tests.chaos.zygote URL EVENTS

A line on standard input, the name of a part of `tests.chaos.parts`, starts a child. Children and zygote write events
to the file descriptor EVENTS, a line each: `S pid case order` when a call starts, `E pid case order` when its answer
leaves the judge, `F pid status` when a run ends, `P pid` when a child begins and `D pid code` when it is dead.
"""

import os
import sys


def main() -> None:
    """Fork a child for each line of standard input."""
    url, events = sys.argv[1], int(sys.argv[2])
    from tests.chaos import parts

    parts.warm()
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            os.write(events, f"P {os.getpid()}\n".encode())
            parts.run(line.strip(), url, events)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        os.write(events, f"D {pid} {os.waitstatus_to_exitcode(status)}\n".encode())


if __name__ == "__main__":
    main()
