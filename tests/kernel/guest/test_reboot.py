"""Power is lost with units lent: after the reboot they are there again under the same uuids, and can be given back.

The two tests are one story over two starts of the guest; what passes between them is on the disk at /keep, as on a real host.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.kernel.guest import configuration, sysfs
from tests.kernel.guest.configuration import T4
from tests.kernel.guest.world import World, handles
from tests.kernel.lab.machine import address

KEEP = Path("/keep")
LEASES = KEEP / "leases.json"
CARD = address("t4-second")


def test_units_are_lent_and_the_server_dies() -> None:
    world = World(KEEP / "state", configuration.write(KEEP))
    try:
        sysfs.until(lambda: T4 in world.capacity(), "the agent's first report")
        world.profile("slice", {"resources:VGPU": "1", "trait:CUSTOM_NVIDIA_1EB8_T4_2B": "required"})
        world.profile("whole", {"resources:PGPU": "1", "trait:CUSTOM_NVIDIA_1EB8": "required"})
        sliced, whole = world.lend("slice", "--count", "2"), world.lend("whole")
        assert sysfs.mdevs() == set(handles(sliced))
        assert sysfs.driver(CARD) == "vfio-pci"
        LEASES.write_text(json.dumps([sliced, whole]))
    finally:
        world.server.kill()
        power_off_units()


def power_off_units() -> None:
    """What the loss of power does to what is in the kernel, done here for the tests that come after in this boot."""
    for one in sysfs.mdevs():
        sysfs.write(sysfs.MDEVS / one / "remove", "1")
    sysfs.write(sysfs.function(CARD) / "driver_override", "\n")
    if sysfs.driver(CARD) == "vfio-pci":
        sysfs.write(sysfs.PCI / "drivers/vfio-pci/unbind", CARD)
        sysfs.write(sysfs.PCI / "drivers/nvidia/bind", CARD)


@pytest.mark.boot("rebooted")
def test_after_the_reboot_the_units_are_there_again_and_can_be_given_back() -> None:
    assert (sysfs.mdevs(), sysfs.driver(CARD)) == (set(), "nvidia")
    sliced, whole = json.loads(LEASES.read_text())
    world = World(KEEP / "state", configuration.write(KEEP))
    try:
        sysfs.until(lambda: sysfs.mdevs() == set(handles(sliced)), "the lent mediated devices are there again")
        sysfs.until(lambda: sysfs.driver(CARD) == "vfio-pci", "the lent card is on vfio-pci again")
        assert {(sysfs.MDEVS / one / "mdev_type").resolve().name for one in sysfs.mdevs()} == {"nvidia-223"}
        sysfs.until(lambda: world.numbers(T4) == (8, 2, 6), "the agent's first report")
        assert [world.lease(one)["state"] for one in (sliced, whole)] == ["active", "active"]
        world.give_back(sliced)
        world.give_back(whole)
        assert (sysfs.mdevs(), sysfs.driver(CARD)) == (set(), "nvidia")
    finally:
        assert world.server.stop() == 0
