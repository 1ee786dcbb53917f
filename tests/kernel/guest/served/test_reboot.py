"""Power is lost with units lent and a card turned into something else; after the reboot all is as it was, the server being down.

One story over two starts of the guest; what passes between them is on the disk at /keep, as on a real host.
"""

from __future__ import annotations

import json

import pytest
from tests.kernel.guest import configuration, sysfs
from tests.kernel.guest.command import run
from tests.kernel.guest.configuration import T4
from tests.kernel.guest.served.conftest import KEEP, LENT
from tests.kernel.guest.world import World, handles
from tests.kernel.lab.machine import address

CARD, AUDIO, HOT = address("geforce"), address("geforce", 1), address("hot")
AT_BOOT = {CARD: "nvidia", AUDIO: "snd_hda_intel", HOT: "nvidia"}


def drivers() -> dict[str, str | None]:
    """What the functions of the story are bound to."""
    return {at: sysfs.driver(at) for at in AT_BOOT}


def test_power_is_lost_with_a_card_and_two_slices_lent_and_an_intent_on_another(world: World) -> None:
    run("device", "set-mode", HOT, "passthrough", "--timeout", "60")
    sliced, whole = world.lend("slice", count=2), world.lend("whole")
    assert sysfs.mdevs() == set(handles(sliced))
    assert drivers() == dict.fromkeys(AT_BOOT, "vfio-pci")
    LENT.write_text(json.dumps([sliced, whole]))
    world.server.kill()
    # What the loss of power does to all that is only in the kernel, done here for the tests that come after in this boot.
    for one in sysfs.mdevs():
        sysfs.write(sysfs.MDEVS / one / "remove", "1")
    for at, driver in AT_BOOT.items():
        sysfs.write(sysfs.function(at) / "driver_override", "\n")
        sysfs.write(sysfs.PCI / "drivers/vfio-pci/unbind", at)
        sysfs.write(sysfs.PCI / "drivers" / driver / "bind", at)


@pytest.mark.boot("rebooted")
@pytest.mark.leaves_mdevs
def test_after_the_reboot_the_host_restores_everything_without_the_server(cards: None) -> None:
    assert (sysfs.mdevs(), drivers()) == (set(), AT_BOOT)
    sliced, _ = json.loads(LENT.read_text())
    said = run("agent", "restore", "--state-dir", str(KEEP / "state"), "--config-file", configuration.write(KEEP))
    assert said == "labguest: 1 intents, 3 lent units, 0 failures\n"
    assert sysfs.mdevs() == set(handles(sliced))
    assert {(sysfs.MDEVS / one / "mdev_type").resolve().name for one in sysfs.mdevs()} == {"nvidia-223"}
    assert drivers() == dict.fromkeys(AT_BOOT, "vfio-pci")


@pytest.mark.boot("rebooted")
def test_the_server_that_comes_back_finds_its_leases_and_they_can_be_given_back(world: World) -> None:
    sliced, whole = json.loads(LENT.read_text())
    LENT.unlink()
    sysfs.until(lambda: world.numbers(T4) == (8, 2, 6), "the agent's first report")
    assert [world.lease(one)["state"] for one in (sliced, whole)] == ["active", "active"]
    world.give_back(sliced)
    world.give_back(whole)
    assert sysfs.mdevs() == set()
    assert drivers() == {**AT_BOOT, HOT: "vfio-pci"}
    run("device", "intent", "clear", HOT)
    assert drivers() == AT_BOOT
