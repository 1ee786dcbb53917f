"""A long list: ``cantle device list`` of 10,000 devices. Goals: at most 1.5 s, and memory that does not grow with the list.

The floor is the same bytes read page by page with ``http.client`` and thrown away: what the server and the wire cost without the command.
Time is from the start of the command to its end, with its output in a pipe; memory is the most that the command's process had, and the
most of the server's. A list of a tenth is measured in the same run, so that growth can be seen.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.api_cloud import card, report
from bench.server import CANTLE, cantle, serving

from cantle.engine.intake import accept_report
from cantle.store.database import Database
from cantle.store.migrate import upgrade

DEVICES = 10_000
PER_HOST = 50
RUNS = 7
GOAL_S = 1.5
#: MiB that ten times the rows may add to a process.
GOAL_GROWTH = 8.0

#: Runs a command and prints its time, CPU (seconds) and memory (KiB) last; a child of its own, so that the figures are of it alone.
_WATCHED = """
import resource, subprocess, sys, time
began = time.monotonic()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
spent, used = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
print(spent, used.ru_utime + used.ru_stime, used.ru_maxrss)
"""


@dataclass(frozen=True, slots=True)
class Figures:
    """Medians of some runs: seconds, CPU seconds, MiB."""

    seconds: float
    cpu: float
    memory: float


def main() -> int:
    """Measure, print, and return 1 when a goal is missed."""
    measured: dict[str, dict[int, Figures]] = {}
    growth_of_server: list[float] = []
    for devices in (DEVICES // 10, DEVICES):
        with serving(lambda url, count=devices: fill(url, count)) as server:  # type: ignore[misc]
            listed = [*CANTLE, "device", "list"]
            ways = {
                "floor: the pages by http.client": [sys.executable, str(Path(__file__).with_name("listing_floor.py"))],
                "cantle device list": listed,
                "cantle device list -o value": [*listed, "-o", "value"],
                "cantle device list -o json": [*listed, "-o", "json"],
            }
            for name, command in ways.items():
                measured.setdefault(name, {})[devices] = measure(command)
            growth_of_server.append(most_memory(server.pid))
            assert cantle("device", "list", "-c", "uuid", "-o", "value").count("\n") >= devices
    return tell(measured, growth_of_server)


def tell(measured: dict[str, dict[int, Figures]], server: Sequence[float]) -> int:
    """Print the figures against floor and goals."""
    floor = measured["floor: the pages by http.client"][DEVICES]
    print(f"{DEVICES:,} devices, medians of {RUNS} runs; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"{'':34} {'time':>8} {'ratio':>6} {'CPU':>8} {'memory':>9} {'of ' + format(DEVICES // 10, ','):>9}")
    for name, figures in measured.items():
        full, tenth = figures[DEVICES], figures[DEVICES // 10]
        print(
            f"{name:34} {full.seconds:6.2f} s {full.seconds / floor.seconds:5.1f}x {full.cpu:6.2f} s "
            f"{full.memory:5.0f} MiB {tenth.memory:5.0f} MiB"
        )
    print(f"{'the server, most at any time':34} {'':8} {'':6} {'':8} {server[1]:5.0f} MiB {server[0]:5.0f} MiB")
    commands = [figures for name, figures in measured.items() if not name.startswith("floor")]
    slow = max(figures[DEVICES].seconds for figures in commands[:2])
    grown = max(figures[DEVICES].memory - figures[DEVICES // 10].memory for figures in commands)
    print(f"goal: listed in <= {GOAL_S} s: {'met' if slow <= GOAL_S else 'MISSED'} ({slow:.2f} s)")
    print(
        f"goal: a list ten times as long takes <= {GOAL_GROWTH:g} MiB more: {'met' if grown <= GOAL_GROWTH else 'MISSED'} ({grown:.1f})"
    )
    return int(slow > GOAL_S or grown > GOAL_GROWTH)


def fill(url: str, count: int) -> None:
    """A database with so many devices."""
    upgrade(url)
    db = Database.open(url)
    try:
        for host in range(count // PER_HOST):
            accept_report(db, f"compute-{host}", report([card(host, place) for place in range(PER_HOST)]))
    finally:
        db.close()


def measure(command: Sequence[str]) -> Figures:
    """Of a command, after one run that fills the caches."""
    runs = []
    for _ in range(RUNS + 1):
        done = subprocess.run([sys.executable, "-c", _WATCHED, *command], check=True, capture_output=True, text=True)
        runs.append([float(word) for word in done.stdout.split()])
    seconds, cpu, memory = (statistics.median(column) for column in zip(*runs[1:], strict=True))
    return Figures(seconds, cpu, memory / 1024)


def most_memory(pid: int) -> float:
    """MiB that a process had at its largest."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        line = next(line for line in file if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    sys.exit(main())
