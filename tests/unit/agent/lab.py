"""A simulated host with one of each kind of card, and what brings its cards to what is wanted, without a server."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.unit.agent.service import SEED

from cantle import simulate
from cantle.agent.converge import observe, plan
from cantle.agent.desired import Desired, DesiredFile
from cantle.agent.hands import Hands
from cantle.agent.intent import Intents
from cantle.model.device import Mode
from cantle.model.enabled_types import EnabledTypes
from cantle.simulate.description import Description
from cantle.wire.intent import DeviceIntent
from cantle.wire.work import HandleResult, WantedHandle, Work

T4 = "0000:af:00.0"
GEFORCE = "0000:17:00.0"
INSTINCT = "0000:c1:00.0"
FLEX = "0001:d6:00.0"
INTEGRATED = "0000:00:02.0"
SHARED = "0000:65:00.0"


def whole(device: str, version: int = 1) -> DeviceIntent:
    return DeviceIntent(device, version, Mode.PASSTHROUGH)


def cut(device: str, type_id: str, version: int = 1) -> DeviceIntent:
    return DeviceIntent(device, version, Mode.MDEV, {device: type_id})


class Lab:
    """The host and one life of its agent. Time goes on when it is told to."""

    def __init__(self, place: Path, enabled: EnabledTypes = SEED, described: Description | None = None) -> None:
        self.root = simulate.build(described or simulate.load("mixed-lab"), place / "lab")
        self.time = 1000.0
        self.waited: list[float] = []
        self.file = DesiredFile(place)
        self._enabled = enabled
        self._live(Desired())

    def _live(self, memory: Desired) -> None:
        self.hands = Hands(self.root, self.file, memory, self.waited.append)
        self.intents = Intents(self.root, self.hands, self._enabled, lambda: self.time)

    def live_again(self) -> None:
        """The next life of the agent: it knows what is on the disk."""
        self.root = simulate.SimulatedRoot(self.root.path)
        self._live(self.file.load())

    def apply(self, *wishes: DeviceIntent, lent: Sequence[WantedHandle] = ()) -> None:
        """One look."""
        self.intents.apply(Work(1, tuple(lent), intents=wishes))

    def do(self, *wanted: WantedHandle, back: Sequence[WantedHandle] = ()) -> list[HandleResult]:
        """Makes units ready and takes others back."""
        work = Work(1, wanted, tuple(back))
        return self.hands.perform(plan(work, observe(self.root, work, self.hands.memory.taken, kept=self.intents.kept)))

    def later(self) -> None:
        """Let every pause between two tries be over."""
        self.time += 1000.0

    def killed(self, nth: int, change: Callable[[], object], *, after: bool) -> bool:
        """Do something in another process that is killed at its nth write to the kernel, before or after that; whether it got that far.
        What there is then is the next life's."""
        child = os.fork()
        if child == 0:
            self.root.fail(lambda: os.kill(os.getpid(), signal.SIGKILL), nth=nth, after=after)
            change()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        self.live_again()
        return os.WIFSIGNALED(status)
