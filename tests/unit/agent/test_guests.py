"""A guest that has gone, or has lost its device, is said; its lease stands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from tests.unit.agent.life import FIRST, READY, SECOND, Life, card, slice_
from tests.unit.attach.test_domains import VM, put, status, xml

from cantle import simulate
from cantle.agent import guests
from cantle.attach.libvirt import hostdev_xml
from cantle.errors import HostError
from cantle.kernel import mdev
from cantle.kernel.root import Root
from cantle.kernel.tools import Ran
from cantle.wire.work import Guest

RUNNING, DEFINED = "run/libvirt/qemu/vm1.xml", "etc/libvirt/qemu/vm1.xml"
SLICE = hostdev_xml("MDEV", {}, FIRST)
BOTH = SLICE + hostdev_xml("PCI", {"domain": "0000", "bus": "86", "device": "00", "function": "0"}, SECOND)


@pytest.fixture
def life(t4: simulate.SimulatedRoot, tmp_path: Path) -> Life:
    """A slice and a card are lent, and vm1 runs with both."""
    life = Life(t4, tmp_path / "agent")
    life.follow(1, slice_(FIRST), card())
    guest(life, running=BOTH, defined=BOTH)
    assert said(life) == {FIRST: None, SECOND: None}
    return life


def guest(life: Life, *, running: str | None, defined: str | None) -> None:
    """The devices of vm1 as it runs and as it is defined; None for not."""
    root = Path(life.root.path)
    for rel, devices in ((RUNNING, running), (DEFINED, defined)):
        (root / rel).unlink(missing_ok=True)
        if devices is not None:
            text = xml(devices=devices)
            put(root, rel, status(text) if rel == RUNNING else text)


def said(life: Life) -> dict[str, str | None]:
    """What is said of each unit, all of which are ready."""
    life.upkeep.look_at_guests()
    results = life.settle()
    assert {one.outcome for one in results.values()} == {READY}
    return {uuid: one.code for uuid, one in results.items()}


def test_a_guest_that_is_shut_down_still_has_its_units(life: Life) -> None:
    guest(life, running=None, defined=BOTH)
    assert said(life) == {FIRST: None, SECOND: None}


def test_a_guest_that_neither_runs_nor_is_defined_is_gone_and_its_units_stay(life: Life) -> None:
    guest(life, running=None, defined=None)
    assert said(life) == {FIRST: "guest-gone", SECOND: "guest-gone"}
    assert VM in str(life.settle()[FIRST].message)
    assert [one.uuid for one in mdev.devices(life.root)] == [FIRST]
    assert life.next().upkeep.memory.guests == {FIRST: VM, SECOND: VM}


def test_a_unit_that_was_detached_is_named_with_its_guest(life: Life) -> None:
    guest(life, running=SLICE, defined=BOTH)
    assert said(life) == {FIRST: None, SECOND: "unit-not-in-guest"}
    told = str(life.settle()[SECOND].message)
    assert f"0000:86:00.0 is no device of the guest vm1 ({VM}) any more" in told
    assert told.endswith(f"on this host (bash): virsh attach-device vm1 <(cantle lease xml {SECOND}) --live")


def test_a_guest_that_came_back_without_its_unit_is_told_with_the_command_that_mends_it(life: Life) -> None:
    guest(life, running=None, defined=SLICE)
    said(life)
    assert str(life.settle()[SECOND].message).endswith(f"vm1 <(cantle lease xml {SECOND}) --config")
    guest(life, running=SLICE, defined=SLICE)
    said(life)
    assert str(life.settle()[SECOND].message).endswith(f"vm1 <(cantle lease xml {SECOND}) --live --config")


def test_a_guest_of_nova_s_that_came_back_without_its_unit_is_told_with_nova_s_command(life: Life) -> None:
    text = xml(devices=SLICE).replace(
        "<devices>",
        '<metadata><nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1"/></metadata><devices>',
    )
    put(Path(life.root.path), RUNNING, status(text))
    put(Path(life.root.path), DEFINED, text)
    assert said(life) == {FIRST: None, SECOND: "unit-not-in-guest"}
    assert str(life.settle()[SECOND].message).endswith(f"openstack server reboot --hard {VM}")


def test_it_is_not_said_any_more_when_the_unit_is_back(life: Life) -> None:
    guest(life, running=None, defined=None)
    said(life)
    guest(life, running=BOTH, defined=None)
    assert said(life) == {FIRST: None, SECOND: None}


def test_of_a_unit_that_was_never_in_a_guest_nothing_is_said(t4: simulate.SimulatedRoot, tmp_path: Path) -> None:
    life = Life(t4, tmp_path / "agent")
    life.follow(1, slice_(FIRST))
    assert said(life) == {FIRST: None}


def test_where_guests_cannot_be_looked_at_what_was_said_last_stands(life: Life) -> None:
    guest(life, running=None, defined=None)
    assert said(life)[FIRST] == "guest-gone"
    directory = Path(life.root.path, "run", "libvirt", "qemu")
    directory.rmdir()
    directory.symlink_to("qemu")  # a loop: reading it is an error, not an absence
    assert said(life)[FIRST] == "guest-gone"


def test_a_unit_that_was_given_back_and_is_lent_again_is_a_new_story(life: Life) -> None:
    guest(life, running=None, defined=None)
    said(life)
    life.follow(2, back=[slice_(FIRST), card()])
    life.upkeep.look_at_guests()
    life.follow(3, slice_(FIRST), card())
    assert said(life) == {FIRST: None, SECOND: None}


class Containers(Root):
    """A host whose container c1 has a lease. ``pid``: of its init, "-1" for none; ``mute``: its monitor does not answer in time."""

    pid = "-1"
    mute = False

    @property
    def is_machine(self) -> bool:
        return True

    def run(self, argv: Sequence[str], seconds: float) -> Ran:
        """``lxc-info``."""
        if self.mute:
            raise HostError("tool-not-run", f"{argv[0]} did not end within {seconds:g} s")
        return Ran(0, self.pid)


@pytest.fixture
def containers(tmp_path: Path) -> Containers:
    """c1, which does not run."""
    root = Containers(tmp_path)
    root.replace("var/lib/lxc/c1/config", b"")
    return root


LENT = [msgspec.structs.replace(slice_(FIRST), guest=Guest("lxc", "c1", SECOND))]


def test_a_container_that_does_not_run_is_not_taken_for_running_because_its_monitor_is_slow(
    containers: Containers,
) -> None:
    """Under load lxc-info did not answer in time, and guest-stopped went away, or was not said for a minute."""
    before = guests.stopped(containers, LENT, {})
    assert (before.remarks[FIRST][0], before.unknown) == ("guest-stopped", False)
    containers.mute = True
    assert guests.stopped(containers, LENT, before.remarks) == guests.Stopped(before.remarks, unknown=True)
    assert guests.stopped(containers, LENT, {}) == guests.Stopped({}, unknown=True)
    containers.mute, containers.pid = False, "4711"
    assert guests.stopped(containers, LENT, before.remarks) == guests.Stopped({}, unknown=False)


def test_guests_that_could_not_be_looked_at_are_to_be_looked_at_again_and_that_is_told_once_each_time(
    life: Life, caplog: pytest.LogCaptureFixture
) -> None:
    """An agent that may not read libvirt's files said so four times in six seconds."""
    assert life.upkeep.look_at_guests()
    place = Path(life.root.path, RUNNING)
    for times in (1, 2):
        place.unlink()
        place.mkdir()
        assert not life.upkeep.look_at_guests()
        assert {one.code for one in life.settle().values()} == {None}
        assert not life.upkeep.look_at_guests()
        assert caplog.text.count("who has what is lent cannot be found out") == times
        place.rmdir()
        guest(life, running=BOTH, defined=BOTH)
        assert life.upkeep.look_at_guests()
