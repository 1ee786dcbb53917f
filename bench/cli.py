"""CPU of one command, from its start to its end: ``cantle device list`` against a running server. Goal: at most 150 ms.

The floors are what any Python command costs on this machine: the bare interpreter, and the interpreter with click and the
HTTP client loaded. CPU time, user and system, of the whole process; the median of the runs with the lowest and the highest.
"""

from __future__ import annotations

import os
import pty
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from bench.server import CANTLE, cantle, serving

RUNS = 30
GOAL_MS = 150.0


def main() -> int:
    """Measure, print, and return 1 when the goal is missed."""
    python = sys.executable
    with serving():
        while "0000:af:00.0" not in cantle("device", "list"):
            time.sleep(0.1)
        figures = {
            "floor: python -c pass": measure(in_pipe([python, "-c", "pass"])),
            "floor: python -c 'import click, http.client'": measure(
                in_pipe([python, "-c", "import click, http.client"])
            ),
            "cantle --version": measure(in_pipe([*CANTLE, "--version"])),
            "cantle device list, table in a pipe": measure(in_pipe([*CANTLE, "device", "list"])),
            "cantle device list -o json": measure(in_pipe([*CANTLE, "device", "list", "-o", "json"])),
            "cantle device list, table on a terminal": measure(on_terminal([*CANTLE, "device", "list"])),
        }
    print(f"{'CPU of one command, ' + str(RUNS) + ' runs':48} {'median':>8} {'min':>8} {'max':>8}")
    for name, times in figures.items():
        print(f"{name:48} {statistics.median(times):5.0f} ms {min(times):5.0f} ms {max(times):5.0f} ms")
    worst = max(statistics.median(times) for name, times in figures.items() if "device list" in name)
    print(f"goal: device list <= {GOAL_MS:.0f} ms: {'met' if worst <= GOAL_MS else 'MISSED'}")
    return int(worst > GOAL_MS)


def measure(run: Callable[[], None]) -> list[float]:
    """CPU milliseconds of each run, after one that fills the caches."""
    run()
    times = []
    for _ in range(RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append((after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) * 1000)
    return times


def in_pipe(command: Sequence[str]) -> Callable[[], None]:
    """Run it with its output in a pipe."""

    def run() -> None:
        subprocess.run(command, check=True, capture_output=True)

    return run


def on_terminal(command: Sequence[str]) -> Callable[[], None]:
    """Run it with its output on a pseudo-terminal."""

    def run() -> None:
        ours, theirs = pty.openpty()
        try:
            subprocess.run(
                command, check=True, stdin=theirs, stdout=theirs, env={**os.environ, "TERM": "xterm-256color"}
            )
        finally:
            os.close(theirs)
            os.close(ours)

    return run


if __name__ == "__main__":
    sys.exit(main())
