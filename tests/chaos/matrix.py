"""All points of one kind of database, a few runs at a time: recorded first, then made to happen, each on a copy of its own."""

from __future__ import annotations

import gc
import importlib
import os
import shlex
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.chaos import case, databases, placement, roles
from tests.chaos.case import Outcome, Saved
from tests.chaos.cloud import end_with_parent
from tests.chaos.points import OF_PLACEMENT, Action, Point, Step
from tests.chaos.scenario import Scenario
from tests.chaos.scenarios import PREPARE_ONLY, SCENARIOS

#: A step that was not come to this time is tried so often: threads do not always take the same way.
TRIES = 3
_COMMITS = ("commit", "committed")


class Matrix:
    """See the module. Use it in a process with one thread.

    :param jobs: runs at a time.
    """

    def __init__(self, kind: str, *, jobs: int, directory: Path | None = None) -> None:
        self.kind = kind
        self._jobs = jobs
        self.directory = directory or Path(tempfile.mkdtemp(prefix="cantle-chaos-"))
        self._saved = Saved(self.directory, databases.of_kind(kind, self.directory))
        self._number = 0
        roles.preload(self.directory)
        gc.freeze()  # what children share with us stays shared

    def record(self, wanted: Iterable[str]) -> dict[str, list[Step]]:
        """Run scenarios, and those they begin with, undisturbed; their steps.

        :raises SystemExit: one of them does not come to its end even so.
        """
        self._saved.databases.make("empty")
        needed = set(wanted)
        for scenario in reversed(SCENARIOS.values()):
            if scenario.name in needed and scenario.base is not None:
                needed.add(scenario.base)
        if any(SCENARIOS[name].publishing for name in needed):
            placement.make(self.directory / "placement.db")
            importlib.import_module("placement.deploy")  # what children share with us they need not load
        steps = {}
        for scenario in SCENARIOS.values():
            if scenario.name in needed:
                name = f"record-{scenario.name}"
                (outcome,) = self._run([(scenario, None)])
                if outcome.problems:
                    sys.exit(f"{scenario.name} on {self.kind}, undisturbed: {outcome.problems}\nkept: {self.directory}")
                steps[scenario.name] = case.steps_of(outcome)
                self._saved.keep(scenario, name)
        return steps

    def points(self, steps: dict[str, list[Step]]) -> list[Point]:
        """Every action at every step where it can make a difference."""
        return [
            Point(scenario, step, action)
            for scenario, found in steps.items()
            if scenario not in PREPARE_ONLY
            for step in found
            for action in Action
            if _matters(SCENARIOS[scenario], step, action)
        ]

    def run(self, points: Sequence[Point]) -> Iterator[Outcome]:
        """Make them happen, in any order."""
        return self._run([(SCENARIOS[point.scenario], point) for point in points])

    def close(self, *, keep: bool) -> None:
        """Delete everything, or only what nobody would look at."""
        if not keep:
            shutil.rmtree(self.directory)

    def _run(self, todo: Sequence[tuple[Scenario, Point | None]]) -> Iterator[Outcome]:
        waiting = list(todo)
        running: dict[int, tuple[int, Point | None]] = {}
        while waiting or running:
            while waiting and len(running) < self._jobs:
                scenario, point = waiting.pop(0)
                running |= self._fork(scenario, point)
            pid, _ = os.wait()
            if pid in running:
                fd, point = running.pop(pid)
                with os.fdopen(fd) as file:
                    text = file.read()
                yield Outcome.loads(text) if text else Outcome(str(point), False, ("the run itself crashed",), 0.0)

    def _fork(self, scenario: Scenario, point: Point | None) -> dict[int, tuple[int, Point | None]]:
        self._number += 1
        name = f"record-{scenario.name}" if point is None else f"run-{self._number}"
        out, into = os.pipe()
        pid = os.fork()
        if pid:
            os.close(into)
            return {pid: (out, point)}
        try:
            end_with_parent()
            os.close(out)
            outcome = case.run(self._saved, scenario, name, point)
            for again in range(1, TRIES):
                if point is None or outcome.fired or outcome.problems:
                    break
                outcome = case.run(self._saved, scenario, f"{name}-{again}", point)
            with os.fdopen(into, "w") as file:
                file.write(outcome.dumps())
        except BaseException:  # noqa: BLE001 - shown; that nothing was written says it to whoever waits
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(0)


def _matters(scenario: Scenario, step: Step, action: Action) -> bool:
    """Where nobody is told of anything, nobody can be deaf. Of a publication only the publisher's own steps count: what others do was
    looked at without it."""
    if not scenario.publishing:
        return action not in OF_PLACEMENT and (action is not Action.RECEIVER or bool(scenario.end.told))
    if step.role != "publisher":
        return False
    if action in OF_PLACEMENT:
        return step.name.endswith("-to-send")
    if action is Action.KILL:
        return step.name in _COMMITS or step.name.endswith(("-to-send", "-sent", "-answered"))
    return action is Action.DATABASE and (step.name in _COMMITS or step.name.endswith("-answered"))


def replay(kind: str, point: str) -> str:
    """The command that makes one point happen."""
    return f".venv/bin/python -m tests.chaos --database {kind} --point {shlex.quote(point)}"


class Progress:
    """A bar on a terminal, a line now and then elsewhere."""

    def __init__(self, kind: str, total: int) -> None:
        self._kind = kind
        self._total = total
        self._done = 0
        self._began = self._shown = time.monotonic()

    def step(self, failed: int) -> None:
        """One more is done."""
        self._done += 1
        now = time.monotonic()
        terminal = sys.stdout.isatty()
        if self._done == self._total or now - self._shown >= (0.2 if terminal else 30):
            self._shown = now
            left = (now - self._began) / self._done * (self._total - self._done)
            bar = "#" * (30 * self._done // self._total)
            line = f"{self._kind:<10} [{bar:<30}] {self._done}/{self._total}, {failed} failed, {left / 60:.0f} min left"
            print(line, end="\r" if terminal and self._done < self._total else "\n", flush=True)


def table(kind: str, outcomes: Sequence[Outcome]) -> str:
    """Points by scenario and action, and how many of them failed."""
    done: Counter[tuple[str, str]] = Counter()
    bad: Counter[tuple[str, str]] = Counter()
    for outcome in outcomes:
        point = Point.parse(outcome.point or "")
        if outcome.fired:
            done[point.scenario, point.action] += 1
            bad[point.scenario, point.action] += bool(outcome.problems)
    lines = [f"{kind:<12}" + "".join(f"{action:>17}" for action in Action)]
    for scenario in [name for name in SCENARIOS if any(name == key[0] for key in done)]:
        cells = [_cell(done[scenario, action], bad[scenario, action]) for action in Action]
        lines.append(f"{scenario:<12}" + "".join(f"{cell:>17}" for cell in cells))
    return "\n".join(lines)


def _cell(done: int, bad: int) -> str:
    return "-" if not done else f"{done} ok" if not bad else f"{done}, {bad} FAILED"
