"""One life of what an agent does on its host, without a server: what is wanted is said by the test."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.unit.drivers.hosts import M40, SEED, T4

from cantle import simulate
from cantle.agent.upkeep import Upkeep
from cantle.model.attach_handle import AttachType
from cantle.model.enabled_types import EnabledTypes
from cantle.wire.intent import DeviceIntent
from cantle.wire.inventory import InventoryReport
from cantle.wire.work import HandleResult, Outcome, WantedHandle, Work

FIRST = "11111111-2222-4333-8444-555555555555"
SECOND = "11111111-2222-4333-8444-666666666666"
THIRD = "11111111-2222-4333-8444-777777777777"


def slice_(uuid: str = FIRST, type_id: str = "nvidia-223", mark: int = 0) -> WantedHandle:
    info = {"asked_type": type_id, "vgpu_mark": f"{type_id}_{mark}"}
    return WantedHandle(uuid, T4, AttachType.MDEV, info)


def card(uuid: str = SECOND) -> WantedHandle:
    return WantedHandle(uuid, M40, AttachType.PCI, {})


class Life:
    """Begins on creation: with what the disk says if there was one before. ``time`` goes on when it is told to."""

    def __init__(self, root: simulate.SimulatedRoot, directory: Path, *, enabled: EnabledTypes = SEED) -> None:
        self.root = root
        self.directory = directory
        self.time = 1000.0
        self.wall = 1_700_000_000.0
        self.upkeep = Upkeep(
            hostname="node1",
            root=root,
            state_dir=directory,
            enabled_types=enabled,
            clock=lambda: self.time,
            wall=lambda: self.wall,
            rescan=60.0,
            pause=lambda _seconds: None,
        )
        with self.upkeep.held():
            self.upkeep.begin()

    def next(self) -> Life:
        """The next life of the same agent."""
        return Life(simulate.SimulatedRoot(self.root.path), self.directory)

    def follow(
        self,
        generation: int,
        *wanted: WantedHandle,
        back: Sequence[WantedHandle] = (),
        intents: Sequence[DeviceIntent] = (),
        confirmed: int = 0,
    ) -> dict[str, HandleResult]:
        """What became of each unit, after the server was told. Nothing of a host that is frozen."""
        work = Work(generation, wanted, tuple(back), tuple(intents), confirmed)
        if self.upkeep.follow(work) is not None:
            return {}
        return self.settle()

    def settle(self) -> dict[str, HandleResult]:
        """One more pass."""
        results = self.upkeep.settle().results
        self.upkeep.hand_over(results)
        self.upkeep.let_go({one.uuid for one in results if one.outcome is Outcome.ABSENT})
        return {one.uuid: one for one in results}

    def report(self) -> InventoryReport:
        return self.upkeep.look()

    def conditions(self) -> dict[str, str]:
        """What a person is told of the host."""
        return {one.code: one.message for one in self.report().conditions}

    def units(self, address: str) -> int:
        """How many units a device offers."""
        [device] = [one for one in self.report().devices if one.address == address]
        return sum(len(one.handles) for one in device.deployables)


READY, ABSENT = Outcome.READY, Outcome.ABSENT
