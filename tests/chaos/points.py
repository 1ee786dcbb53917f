"""Names of the places where something is made to happen, and the memory that all processes of one run share."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Self


class Action(StrEnum):
    """What happens at a step."""

    KILL = "kill"
    """SIGKILL to the process that is at the step; it is started again at once, as a service manager does."""
    POWER = "power"
    """The whole installation loses power: every process is killed at once and the host boots anew."""
    DATABASE = "cut-database"
    """The database ends all connections and lets nobody in for a moment."""
    RECEIVER = "cut-receiver"
    """Whoever is told of events hangs up: once after hearing, then before."""


@dataclass(frozen=True, order=True, slots=True)
class Step:
    """The ``nth`` time since the operation began that a role comes to a step of that name."""

    role: str
    name: str
    nth: int

    def __str__(self) -> str:
        return f"{self.role}/{self.name}/{self.nth}"


@dataclass(frozen=True, order=True, slots=True)
class Point:
    """An operation, a step in it, and what happens there. Its text can be given to ``python -m tests.chaos --point``."""

    scenario: str
    step: Step
    action: Action

    def __str__(self) -> str:
        return f"{self.scenario}/{self.step}/{self.action}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """What `str` made."""
        scenario, role, name, nth, action = text.split("/")
        return cls(scenario, Step(role, name, int(nth)), Action(action))


class Flag(IntEnum):
    """Bytes of the shared memory."""

    ARMED = 0
    """The operation has begun: steps count from here."""
    FIRED = 1
    """What was planned has happened. It happens once."""
    DATABASE_AWAY = 2
    """SQLite only: every statement of every process fails."""
    RECEIVER_AWAY = 3
    """The receiver hangs up. It counts up from 1 with each request."""
    AGENT_WAITS = 4
    """The agent is in a call that waits for work."""


class Board:
    """A page of memory shared by all processes forked after it was made."""

    def __init__(self) -> None:
        self._map = mmap.mmap(-1, mmap.PAGESIZE)

    def __getitem__(self, flag: Flag) -> int:
        return self._map[flag]

    def __setitem__(self, flag: Flag, value: int) -> None:
        self._map[flag] = value
