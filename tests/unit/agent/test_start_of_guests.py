"""A lease that starts its guest: when it has all of the lease, once, and never again after it was said to be ready."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.unit.agent.service import T4

from cantle import simulate
from cantle.agent import converge
from cantle.agent.desired import Desired, DesiredFile
from cantle.agent.hands import Hands
from cantle.attach.domains import DEFINED, RUNNING
from cantle.kernel import mdev
from cantle.kernel.tools import Ran
from cantle.model.attach_handle import AttachType
from cantle.wire.work import Guest, HandleResult, Outcome, WantedHandle, Work

FIRST = "11111111-2222-4333-8444-555555555555"
SECOND = "11111111-2222-4333-8444-666666666666"
LEASE = "2f1c7e0a-5a7e-4a52-8a53-4cf1a2f0c7d1"
VM = Guest("libvirt", "vm1", LEASE, start=True)
UNITS = tuple(WantedHandle(uuid, T4, AttachType.MDEV, {"asked_type": "nvidia-223"}, VM) for uuid in (FIRST, SECOND))


class Libvirt:
    """One domain. What is attached is kept as text; ``fails`` names the commands that do."""

    def __init__(self, host: simulate.SimulatedRoot) -> None:
        self._host = host
        self.devices: dict[str, str] = {}
        self.asked: list[str] = []
        self.fails: set[str] = set()
        self.write(DEFINED)

    def write(self, directory: str) -> None:
        place = Path(self._host.path) / directory / "vm1.xml"
        place.parent.mkdir(parents=True, exist_ok=True)
        inside = "".join(self.devices.values())
        place.write_text(f"<domain><name>vm1</name><uuid>{LEASE}</uuid><devices>{inside}</devices></domain>")

    @property
    def runs(self) -> bool:
        return (Path(self._host.path) / RUNNING / "vm1.xml").exists()

    def stop(self) -> None:
        (Path(self._host.path) / RUNNING / "vm1.xml").unlink()

    def run(self, argv: Sequence[str], seconds: float) -> Ran:  # noqa: ARG002 - as the real one's
        """``virsh -q -c URI start|attach-device|detach-device NAME [FILE FLAG...]``."""
        command = argv[4]
        self.asked.append(command)
        if command in self.fails:
            return Ran(1, "error: no luck today")
        if command == "start":
            self.write(RUNNING)
            return Ran(0, "")
        unit = argv[6].rpartition("/")[2].removesuffix(".xml")
        if command == "attach-device":
            self.devices[unit] = self._host.read(argv[6].lstrip("/"))
        else:
            del self.devices[unit]
        self.write(DEFINED)
        return Ran(0, "")


@pytest.fixture
def libvirt(t4: simulate.SimulatedRoot, monkeypatch: pytest.MonkeyPatch) -> Libvirt:
    made = Libvirt(t4)
    monkeypatch.setattr(t4, "run", made.run)
    return made


@pytest.fixture
def hands(t4: simulate.SimulatedRoot, tmp_path: Path) -> Hands:
    return Hands(t4, DesiredFile(tmp_path), Desired())


def do(
    host: simulate.SimulatedRoot, hands: Hands, wanted: tuple[WantedHandle, ...], handed: frozenset[str] = frozenset()
) -> list[HandleResult]:
    work = Work(1, wanted)
    return hands.perform(converge.plan(work, converge.observe(host, work, hands.memory.taken, handed=handed)))


def test_a_guest_is_started_when_it_has_all_of_its_lease(
    t4: simulate.SimulatedRoot, hands: Hands, libvirt: Libvirt
) -> None:
    assert {one.outcome for one in do(t4, hands, UNITS)} == {Outcome.READY}
    assert libvirt.asked == ["attach-device", "attach-device", "start"]
    assert libvirt.runs


def test_a_guest_that_is_shut_down_later_stays_so(t4: simulate.SimulatedRoot, hands: Hands, libvirt: Libvirt) -> None:
    do(t4, hands, UNITS)
    libvirt.stop()
    do(t4, hands, UNITS, handed=frozenset({FIRST, SECOND}))
    assert not libvirt.runs


def test_an_agent_that_was_killed_before_it_started_the_guest_does_so_in_its_next_life(
    t4: simulate.SimulatedRoot, hands: Hands, libvirt: Libvirt
) -> None:
    do(t4, hands, UNITS)
    libvirt.stop()
    do(t4, hands, UNITS)
    assert libvirt.runs
    assert libvirt.asked.count("attach-device") == 2


def test_a_guest_is_not_started_without_a_unit_that_could_not_be_made(
    t4: simulate.SimulatedRoot, hands: Hands, libvirt: Libvirt
) -> None:
    bad = WantedHandle(SECOND, T4, AttachType.MDEV, {"asked_type": "nvidia-999"}, VM)
    assert {one.outcome for one in do(t4, hands, (UNITS[0], bad))} == {Outcome.READY, Outcome.FAILED}
    assert not libvirt.runs


def test_a_guest_that_does_not_start_fails_the_lease_and_is_as_it_was(
    t4: simulate.SimulatedRoot, hands: Hands, libvirt: Libvirt
) -> None:
    libvirt.fails = {"start"}
    [failed] = do(t4, hands, UNITS[:1])
    assert (failed.outcome, failed.code) == (Outcome.FAILED, "libvirt-refused")
    assert "no luck today" in str(failed.message)
    assert (libvirt.devices, mdev.devices(t4)) == ({}, [])
