"""One installation in processes: started, killed, cut off, started again."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from tests.chaos import placement, receiver, roles
from tests.chaos.databases import Databases
from tests.chaos.marks import Marks
from tests.chaos.points import OF_PLACEMENT, Action, Board, Flag, Point
from tests.chaos.roles import Place

from cantle import simulate

_PR_SET_PDEATHSIG = 1
#: How long a database stays away.
AWAY_S = 0.25
#: How long a receiver stays away at most; it is there again once it has hung up this often.
DEAF_S, HANGUPS = 1.0, 2


@dataclass
class Child:
    """A forked process."""

    name: str
    pid: int
    status: int | None = None

    def look(self) -> int | None:
        """Its wait status once it has ended."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = status if pid else None
        return self.status

    def kill(self) -> None:
        """End it and wait for that."""
        if self.look() is None:
            os.kill(self.pid, signal.SIGKILL)
            self.status = os.waitpid(self.pid, 0)[1]


class Cloud:
    """See the module. Made in a process that has one thread and no database open, for it forks.

    :param plan: what is to happen at which step.
    :param record: write every step to ``steps`` in the directory.
    """

    def __init__(
        self, place: Place, databases: Databases, name: str, *, plan: Point | None = None, record: bool = False
    ) -> None:
        self.place = place
        self.board = Board()
        self._databases = databases
        self._name = name
        self._plan = plan
        self._asked, self._ask = os.pipe()
        self._done, self._tell = os.pipe()
        os.set_blocking(self._asked, False)
        self._record = os.open(place.directory / "steps", os.O_WRONLY | os.O_CREAT | os.O_APPEND) if record else -1
        self._roles: dict[tuple[str, ...], Child] = {}
        self._others: list[Child] = []
        self._due: list[tuple[float, Callable[[], None]]] = []

    def start(self) -> None:
        """The receiver and all roles."""
        self._others.append(
            fork("receiver", self._log, receiver.serve, self.place.receiver_port, self.place.heard, self.board)
        )
        if self.place.placement_port:
            port, file = self.place.placement_port, self.place.placement_database
            self._others.append(fork("placement", self._log, placement.serve, port, file, self.board))
        for group in self._databases.layout:
            self._start(group, self._plan)

    def stop_agent(self) -> None:
        """The agent dies and is not started again."""
        self._roles.pop(("agent",)).kill()

    def start_agent(self) -> None:
        """The agent, if it does not run."""
        if ("agent",) not in self._roles:
            self._start(("agent",), self._plan)

    def client(self, work: Callable[[], None]) -> Child:
        """A client in a process of its own."""
        child = fork("client", self._log, work)
        self._others.append(child)
        return child

    def tend(self) -> None:
        """What must be done now and then: start again what was killed, cut what is to be cut, and mend it.

        :raises AssertionError: a process ended that nobody killed.
        """
        with contextlib.suppress(BlockingIOError):
            for number in os.read(self._asked, 8):
                self._happen(list(Action)[number])
        now = time.monotonic()
        for due, mend in list(self._due):
            if due <= now or self._has_hung_up_enough(mend):
                self._due.remove((due, mend))
                mend()
        for group, child in list(self._roles.items()):
            status = child.look()
            if status is not None:
                killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL and self.board[Flag.FIRED]
                assert killed, f"{child.name} ended by itself with wait status {status}; its log is {self._log}"
                self._start(group, None)

    def stop(self) -> None:
        """Kill everything that runs."""
        for child in (*self._roles.values(), *self._others):
            child.kill()
        for _, mend in self._due:
            mend()
        for fd in (self._asked, self._ask, self._done, self._tell, self._record):
            if fd >= 0:
                os.close(fd)

    def _happen(self, action: Action) -> None:
        if action is Action.POWER:
            running = list(self._roles)
            for child in self._roles.values():
                child.kill()
            simulate.SimulatedRoot(self.place.tree).reboot()
            for group in running:
                self._start(group, None)
            return
        now = time.monotonic()
        if action is Action.DATABASE:
            self._databases.cut(self._name, self.board)
            self._due.append((now + AWAY_S, self._let_in_again))
        elif action is Action.RECEIVER:
            self.board[Flag.RECEIVER_AWAY] = 1
            self._due.append((now + DEAF_S, self._hear_again))
        elif action is Action.PLACEMENT:
            self.board[Flag.PLACEMENT_AWAY] = 1
            self._due.append((now + DEAF_S, self._placement_is_back))
        elif action in OF_PLACEMENT:
            self.board[Flag.PLACEMENT_ANSWER] = list(Action).index(action)
        os.write(self._tell, b"!")

    def _has_hung_up_enough(self, mend: Callable[[], None]) -> bool:
        """Whoever hangs up is there again as soon as he has been called often enough."""
        if mend == self._hear_again:
            return self.board[Flag.RECEIVER_AWAY] > HANGUPS
        return mend == self._placement_is_back and self.board[Flag.PLACEMENT_AWAY] > HANGUPS

    def _let_in_again(self) -> None:
        self._databases.mend(self._name, self.board)

    def _hear_again(self) -> None:
        self.board[Flag.RECEIVER_AWAY] = 0

    def _placement_is_back(self) -> None:
        self.board[Flag.PLACEMENT_AWAY] = 0

    def _start(self, group: tuple[str, ...], plan: Point | None) -> None:
        if "agent" in group:
            self.board[Flag.AGENT_WAITS] = 0
        marks = Marks(self.board, record=self._record, ask=self._ask, done=self._done, plan=plan)
        self._roles[group] = fork(" and ".join(group), self._log, roles.run, group, self.place, marks)

    @property
    def _log(self) -> Path:
        return self.place.directory / "log"


def fork(name: str, log: Path, work: Callable[..., None], *arguments: object) -> Child:
    """Do the work in a forked process, whose output goes to the log. It ends with status 0, or 1 if the work raised."""
    pid = os.fork()
    if pid:
        return Child(name, pid)
    _in_child(log, work, arguments)


def _in_child(log: Path, work: Callable[..., None], arguments: Sequence[object]) -> NoReturn:
    status = 1
    try:
        end_with_parent()
        fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(fd, 1)
        os.dup2(fd, 2)
        work(*arguments)
        status = 0
    except BaseException:  # noqa: BLE001 - into the log; the status says it to whoever waits
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def end_with_parent() -> None:
    """In a child: nobody outlives the process that forked him."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def make_place(
    directory: Path, database: str, *, refusing: bool = False, publishing: bool = False, pooled: bool = False
) -> Place:
    """A place with free ports. They stay bound until all are known, so that they differ."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(4)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        public, agents, receives, placed = (probe.getsockname()[1] for probe in probes)
    return Place(directory, database, public, agents, receives, refusing, placed if publishing else 0, pooled)


def copy_host(source: Path, target: Path) -> None:
    """What outlives a loss of power of a host that was saved: its tree, its agent's directory, and Placement's database if there is one."""
    for name in ("host", "agent"):
        shutil.copytree(source / name, target / name, symlinks=True)
    if (source / "placement.db").exists():
        shutil.copy(source / "placement.db", target)
