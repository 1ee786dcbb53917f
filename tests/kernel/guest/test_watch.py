"""``cantle.kernel.udev``: real uevents of the changes that matter, each burst of them one turn. No udev daemon runs here."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator

import pytest
from tests.kernel.guest import sysfs
from tests.kernel.guest.hotplug import pulled
from tests.kernel.lab.inside import Host
from tests.kernel.lab.machine import address

from cantle.kernel.root import Root
from cantle.kernel.udev import Watch

#: Seconds in which a turn must come, and in which none may: far more than an emulated processor needs, far less than ``poll``.
PATIENCE = 10.0
QUIET = 2.0


class Turns:
    """A watch that only uevents can wake: comparing directories is put off beyond the test's end."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._watch = Watch(Root("/"), self._stop, poll=10_000)

    def within(self, seconds: float) -> list[str]:
        """Every turn from now on until the time is over."""
        timer = threading.Timer(seconds, self._stop.set)
        timer.start()
        turns = []
        try:
            for turn in self._watch:
                turns.append(turn)
                timer.cancel()
                timer = threading.Timer(QUIET, self._stop.set)
                timer.start()
        finally:
            timer.cancel()
        return turns


def test_a_quiet_host_gives_no_turn() -> None:
    assert Turns().within(QUIET) == []


@pytest.fixture
def made() -> Iterator[list[str]]:
    uuids = [str(uuid.uuid4()) for _ in range(12)]
    yield uuids
    for one in uuids:
        if (sysfs.MDEVS / one).exists():
            sysfs.write(sysfs.MDEVS / one / "remove", "1")


def test_a_mediated_device_that_somebody_makes_is_one_turn(made: list[str]) -> None:
    turns = Turns()
    sysfs.write(sysfs.PARENTS / "mtty/mdev_supported_types/mtty-2/create", made[0])
    assert turns.within(PATIENCE) == ["uevent"]


def test_a_burst_of_changes_is_one_turn(made: list[str]) -> None:
    turns = Turns()
    for one in made:
        sysfs.write(sysfs.PARENTS / "mtty/mdev_supported_types/mtty-2/create", one)
    assert turns.within(PATIENCE) == ["uevent"]


def test_a_card_that_changes_its_driver_is_one_turn() -> None:
    driver = sysfs.PCI / "drivers/nvidia"
    turns = Turns()
    sysfs.write(driver / "unbind", address("t4"))
    sysfs.write(driver / "bind", address("t4"))
    assert turns.within(PATIENCE) == ["uevent"]


def test_a_card_that_is_pulled_is_noticed_and_so_is_its_return(host: Host) -> None:
    turns = Turns()
    with pulled(host):
        assert turns.within(PATIENCE) == ["uevent"]
        turns = Turns()
    assert turns.within(PATIENCE) == ["uevent"]
