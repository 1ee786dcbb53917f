"""``cantle.kernel.udev``: the kernel's own uevents, without any daemon."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator

import pytest
from tests.kernel.guest import sysfs
from tests.kernel.guest.hotplug import pulled
from tests.kernel.lab import machine
from tests.kernel.lab.inside import Host

from cantle.kernel import mdev
from cantle.kernel.root import Root
from cantle.kernel.udev import Uevents, Watch

ROOT = Root("/")
T4 = machine.address("t4")
INSTINCT = machine.address("instinct")
UUID = "0b6f4c1e-52cf-4c52-8d0a-0e0a3d2b7a01"
#: Longer than the emulated machine needs from one write to the next.
SETTLE = 1.0


@pytest.fixture
def turns() -> Iterator[queue.Queue[str]]:
    """What a watch says while the test runs; directories are not compared meanwhile, so that all of it comes from uevents."""
    stop = threading.Event()
    heard: queue.Queue[str] = queue.Queue()
    watch = Watch(ROOT, stop, settle=SETTLE, longest=10 * SETTLE, poll=3600)

    def follow() -> None:
        for why in watch:
            heard.put(why)

    thread = threading.Thread(target=follow)
    thread.start()
    yield heard
    stop.set()
    thread.join(timeout=60)
    assert not thread.is_alive()


def make_and_remove_a_mediated_device() -> None:
    mdev.create(ROOT, T4, "nvidia-223", UUID)
    mdev.remove(ROOT, UUID)


def bind_and_unbind_a_function() -> None:
    override = sysfs.function(INSTINCT) / "driver_override"
    sysfs.write(override, "vfio-pci")
    sysfs.write(sysfs.PCI / "drivers/vfio-pci/bind", INSTINCT)
    sysfs.write(sysfs.PCI / "drivers/vfio-pci/unbind", INSTINCT)
    sysfs.write(override, "\n")


def a_parent_goes_and_comes() -> None:
    sysfs.write(sysfs.PCI / "drivers/nvidia/unbind", T4)
    sysfs.write(sysfs.PCI / "drivers/nvidia/bind", T4)


@pytest.mark.parametrize(
    "change", [make_and_remove_a_mediated_device, bind_and_unbind_a_function, a_parent_goes_and_comes]
)
def test_a_change_is_heard_of_and_its_burst_of_events_is_one_turn(
    turns: queue.Queue[str], change: Callable[[], None]
) -> None:
    change()
    assert turns.get(timeout=60) == "uevent"
    with pytest.raises(queue.Empty):
        turns.get(timeout=2.5 * SETTLE)


def test_a_card_that_is_pulled_is_heard_of_and_so_is_its_return(turns: queue.Queue[str], host: Host) -> None:
    with pulled(host):
        assert turns.get(timeout=60) == "uevent"
    assert turns.get(timeout=60) == "uevent"


def test_what_other_subsystems_do_is_no_change() -> None:
    events, running = Uevents(), threading.Event()
    sysfs.write(sysfs.PCI.parent.parent / "devices/virtual/mem/null/uevent", "change")
    assert not events.wait(0, running)
    mdev.create(ROOT, T4, "nvidia-223", UUID)
    assert events.wait(60, running)
    mdev.remove(ROOT, UUID)
