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
    PLACEMENT = "cut-placement"
    """Placement hangs up: once after it did what was asked, then before, for a moment."""
    SILENCE = "placement-silent"
    """Placement does what is asked, and its answer never comes."""
    ANSWER_409 = "placement-409"
    """Placement does nothing, and answers that somebody else was quicker."""
    ANSWER_500 = "placement-500"
    """Placement does nothing, and answers that it is broken."""
    ANSWER_503 = "placement-503"
    """Placement does nothing, and answers that it is away."""


#: What happens to one request to Placement, or to it and those after it.
OF_PLACEMENT = (Action.PLACEMENT, Action.SILENCE, Action.ANSWER_409, Action.ANSWER_500, Action.ANSWER_503)


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
    PLACEMENT_AWAY = 5
    """Placement hangs up. It counts up from 1 with each request."""
    PLACEMENT_ANSWER = 6
    """What Placement does with its next request, as a number in `Action`; 0 for what it is asked."""


class Board:
    """A page of memory shared by all processes forked after it was made."""

    def __init__(self) -> None:
        self._map = mmap.mmap(-1, mmap.PAGESIZE)

    def __getitem__(self, flag: Flag) -> int:
        return self._map[flag]

    def __setitem__(self, flag: Flag, value: int) -> None:
        self._map[flag] = value
