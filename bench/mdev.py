"""Making and removing a mediated device through Cantle against a bare shell's ``echo``, on a real kernel.

Without arguments it starts the kernel lab (docs/kernel-lab.md; needs root), measures in its guest and prints what came of it. With
``--here PARENT TYPE`` it measures on this machine, which must have such a parent: mediated devices are made on it and removed.

The floor is one shell that is started once and whose builtin ``echo`` writes the same uuids into the same files: no check of names,
no look whether it is there afterwards, no look whether somebody uses it before it is removed. Goal: at most 1.5 times as long. Rounds
are interleaved; the ratio is the median of the rounds' ratios. A person's ``sh -c 'echo …'``, which starts a process for each line, is
shown beside it.
"""

from __future__ import annotations

import argparse
import os
import shlex
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from cantle.kernel import mdev
from cantle.kernel.root import Root

ROUNDS = 60
#: Of what is only shown.
SLOW_ROUNDS = 3
DEVICES = 8
GOAL = 1.5
#: Where the guest test of the same purpose leaves what this program printed there.
RESULT = Path("results/main/mdev-cost")
_TEST = "tests/kernel/guest/test_mdev_cost.py"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and return 1 when the goal is missed."""
    parser = argparse.ArgumentParser(prog="bench.mdev", description="mediated devices against a shell's echo")
    parser.add_argument("--here", nargs=2, metavar=("PARENT", "TYPE"), help="measure on this machine")
    here: list[str] | None = parser.parse_args(arguments).here
    return measure(*here) if here else in_the_lab()


def in_the_lab() -> int:
    """Measure in the lab's guest."""
    lab = Path(os.environ.get("CANTLE_LAB_DIR", ".lab"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", _TEST],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        print(done.stdout)
        return 1
    text = (lab / RESULT).read_text()
    print(text, end="")
    return int("MISSED" in text)


def measure(parent: str, type_id: str) -> int:
    """Measure on this machine."""
    root = Root()
    uuids = [str(uuid.uuid4()) for _ in range(DEVICES)]
    with Shell() as shell:
        sides: dict[str, Callable[[], object]] = {
            "Cantle": lambda: through_cantle(root, parent, type_id, uuids),
            "floor: echo in a running shell": lambda: shell.run(script(parent, type_id, uuids)),
        }
        times = interleaved(sides, ROUNDS)
    ours, floor = times.values()
    ratio = statistics.median(mine / its for mine, its in zip(ours, floor, strict=True))
    best = min(ours) / min(floor)
    times |= interleaved({"a shell started for each echo": lambda: shells(parent, type_id, uuids)}, SLOW_ROUNDS)
    print(f"{parent}, {type_id}: {DEVICES} devices made and removed, {ROUNDS} rounds, ms for each device")
    for what, found in times.items():
        print(f"{what:48} {statistics.median(found):8.2f} median, {min(found):.2f} best")
    print(f"{'ratio':48} {ratio:8.2f} median of the rounds' ratios, {best:.2f} of the best rounds")
    print(f"goal: ratio <= {GOAL}: {'met' if ratio <= GOAL else 'MISSED'}")
    return int(ratio > GOAL)


def through_cantle(root: Root, parent: str, type_id: str, uuids: Sequence[str]) -> None:
    """As the agent does it."""
    for one in uuids:
        mdev.create(root, parent, type_id, one)
        mdev.remove(root, one)


def script(parent: str, type_id: str, uuids: Sequence[str]) -> str:
    """The same for a shell."""
    create = shlex.quote(f"/{mdev.PARENTS}/{parent}/mdev_supported_types/{type_id}/create")
    return "".join(f"echo {one} > {create}\necho 1 > /{mdev.DEVICES}/{one}/remove\n" for one in uuids)


def shells(parent: str, type_id: str, uuids: Sequence[str]) -> None:
    """The same with a process for each line."""
    for line in script(parent, type_id, uuids).splitlines():
        subprocess.run(["/bin/sh", "-c", line], check=True)


class Shell:
    """A shell that runs what it is given."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            ["/bin/sh", "-e"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def run(self, text: str) -> None:
        """Returns when the last line has been carried out."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{text}echo done\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n", "the shell's echo was refused"


def interleaved(sides: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Milliseconds for each device, by side; a first round warms up and is not counted."""
    found: dict[str, list[float]] = {what: [] for what in sides}
    for number in range(rounds + 1):
        for what, call in sides.items():
            begin = time.perf_counter()
            call()
            if number:
                found[what].append((time.perf_counter() - begin) * 1e3 / DEVICES)
    return found


if __name__ == "__main__":
    sys.exit(main())
