"""What an agent does on its host, on real drivers: what is lent is kept ready, what strangers hold is lent to nobody, what is left behind
goes when it is free, and a host that is ahead of its server holds still."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kernel.guest import sysfs
from tests.kernel.guest.holder import holding
from tests.kernel.lab import machine

from cantle.agent.upkeep import Upkeep
from cantle.kernel.root import Root
from cantle.model.attach_handle import AttachType
from cantle.model.device import Mode
from cantle.model.enabled_types import EnabledType, EnabledTypes
from cantle.wire.intent import DeviceIntent
from cantle.wire.work import HandleResult, Outcome, WantedHandle, Work

T4, GEFORCE, FLEX = machine.address("t4"), machine.address("geforce"), machine.address("flex")
AUDIO = machine.address("geforce", 1)
ONE, OTHER = "c3b6c7a0-8f53-4a4e-9d39-0d1f1b9f6a01", "c3b6c7a0-8f53-4a4e-9d39-0d1f1b9f6a02"
SLICE = WantedHandle(ONE, T4, AttachType.MDEV, {"asked_type": "nvidia-223", "vgpu_mark": "nvidia-223_0"})
CARD = WantedHandle(OTHER, GEFORCE, AttachType.PCI, {})
WHOLE = DeviceIntent(FLEX, 1, Mode.PASSTHROUGH)


class Host:
    """One life of the agent's part on this host."""

    def __init__(self, directory: Path) -> None:
        self._upkeep = Upkeep(
            hostname="labguest",
            root=Root("/"),
            state_dir=directory,
            enabled_types=EnabledTypes((EnabledType("nvidia-223", addresses=(T4,)),)),
            clock=lambda: 0.0,
            wall=lambda: 0.0,
            rescan=60.0,
            pause=lambda _seconds: None,
        )
        with self._upkeep.held():
            self._upkeep.begin()

    def follow(self, work: Work) -> dict[str, HandleResult]:
        """What became of each unit; nothing of a host that is frozen."""
        return {} if self._upkeep.follow(work) is not None else self.settle()

    def settle(self) -> dict[str, HandleResult]:
        """One more pass."""
        results = self._upkeep.settle().results
        self._upkeep.hand_over(results)
        self._upkeep.let_go({one.uuid for one in results if one.outcome is Outcome.ABSENT})
        return {one.uuid: one for one in results}

    def conditions(self) -> dict[str, str]:
        """What a person is told."""
        self._upkeep.look_at_everything()
        return {one.code: one.message for one in self._upkeep.look().conditions}

    def offers(self, address: str) -> int:
        """How many units a device offers."""
        self._upkeep.look_at_everything()
        [device] = [one for one in self._upkeep.look().devices if one.address == address]
        return sum(len(one.handles) for one in device.deployables)


def drivers() -> list[str | None]:
    """What the cards of these tests are bound to."""
    return [sysfs.driver(one) for one in (T4, GEFORCE, AUDIO, FLEX)]


def fill(file: Path) -> None:
    """Makes a file of all the room there is."""
    with file.open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while filler.write(bytes(4096)) == 4096:
            pass


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """The drivers are afterwards as they were before."""
    before = drivers()
    yield Host(tmp_path)
    assert drivers() == before


def test_what_is_lent_comes_back_when_somebody_takes_it_away(host: Host) -> None:
    host.follow(Work(1, (SLICE, CARD)))
    lent = drivers()
    assert (lent[1:3], sysfs.mdevs()) == (["vfio-pci", "vfio-pci"], {ONE})
    sysfs.write(sysfs.MDEVS / ONE / "remove", "1")
    sysfs.write(sysfs.function(GEFORCE) / "driver_override", "\n")
    sysfs.write(sysfs.PCI / "drivers/vfio-pci/unbind", GEFORCE)
    host.settle()
    assert (drivers(), sysfs.mdevs()) == (lent, {ONE})
    host.follow(Work(2, (), (SLICE, CARD)))
    assert sysfs.mdevs() == set()


def test_a_unit_that_a_stranger_has_is_lent_when_he_lets_go(host: Host) -> None:
    host.follow(Work(0))
    sysfs.write(sysfs.PARENTS / T4 / "mdev_supported_types/nvidia-223/create", ONE)
    with holding(ONE) as pid:
        result = host.follow(Work(1, (SLICE,)))[ONE]
        assert (result.outcome, result.code) == (Outcome.FAILED, "mdev-in-use")
        assert f"pid {pid} " in str(result.message)
    assert host.settle()[ONE].outcome is Outcome.READY
    host.follow(Work(2, (), (SLICE,)))


def test_a_card_that_a_stranger_has_is_not_offered_and_not_lent(host: Host) -> None:
    unit = WantedHandle(OTHER, FLEX, AttachType.PCI, {})
    host.follow(Work(1, (), (), (WHOLE,)))
    assert (sysfs.driver(FLEX), host.offers(FLEX)) == ("vfio-pci", 1)
    with holding(FLEX) as pid:
        assert host.offers(FLEX) == 0
        result = host.follow(Work(2, (unit,), (), (WHOLE,)))[OTHER]
        assert (result.outcome, result.code) == (Outcome.FAILED, "device-held")
        assert f"pid {pid} " in str(result.message)
    assert host.settle()[OTHER].outcome is Outcome.READY
    host.follow(Work(3, (), (unit,), (DeviceIntent(FLEX, 2),)))
    host.settle()


def test_what_no_lease_has_any_more_goes_when_its_guest_lets_go(host: Host, tmp_path: Path) -> None:
    host.follow(Work(1, (SLICE, CARD)))
    with holding(ONE) as pid:
        host.follow(Work(2))
        assert f"pid {pid} " in host.conditions()["units-left-behind"]
        assert (sysfs.mdevs(), drivers()[1:3]) == ({ONE}, ["nvidia", "snd_hda_intel"])
    host.settle()
    assert sysfs.mdevs() == set()


def test_a_host_that_is_ahead_of_its_server_holds_still_until_a_person_has_spoken(host: Host, tmp_path: Path) -> None:
    host.follow(Work(7, (SLICE,)))
    for life in (host, Host(tmp_path)):
        assert life.follow(Work(5, (CARD,), (SLICE,))) == {}
        assert "host-frozen" in life.conditions()
        assert (sysfs.mdevs(), drivers()[1:3]) == ({ONE}, ["nvidia", "snd_hda_intel"])
    host = Host(tmp_path)
    assert host.follow(Work(8, (), (SLICE,), confirmed=7))[ONE].outcome is Outcome.ABSENT


def test_a_unit_that_mdevctl_would_make_again_at_boot_is_undefined_with_it(host: Host) -> None:
    definition = Path("/etc/mdevctl.d") / T4 / ONE  # in the guest's own layer
    definition.parent.mkdir(parents=True, exist_ok=True)
    definition.write_text('{"mdev_type": "nvidia-223", "start": "auto", "attrs": []}')
    host.follow(Work(1, (SLICE,)))
    assert definition.exists()
    host.follow(Work(2, (), (SLICE,)))
    assert (sysfs.mdevs(), definition.exists()) == (set(), False)


def test_a_full_disk_takes_no_card_from_its_driver_and_keeps_nothing_lent(host: Host, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], check=True)
    try:
        host = Host(disk)
        host.follow(Work(1, (SLICE,)))
        fill(disk / "filler")
        done = host.follow(Work(2, (CARD,), (SLICE,)))
        assert (done[OTHER].code, done[ONE].outcome) == ("agent-state-unwritable", Outcome.ABSENT)
        assert "No space left" in host.conditions()["agent-state-unwritable"]
        assert (sysfs.mdevs(), drivers()[1:3]) == (set(), ["nvidia", "snd_hda_intel"])
        (disk / "filler").unlink()
        assert host.settle()[OTHER].outcome is Outcome.READY
        assert host.conditions() == {}
        host.follow(Work(3, (), (CARD,)))
    finally:
        subprocess.run(["umount", str(disk)], check=True)
