"""Power is lost with units in a guest: the host makes them anew without a server, and the guest starts with them."""

from __future__ import annotations

import json
import subprocess

import pytest
from tests.kernel.guest import configuration, sysfs
from tests.kernel.guest.command import run
from tests.kernel.guest.nested.conftest import KEEP, LENT
from tests.kernel.guest.nested.lent import CARD, GPU, LEASES, PORT
from tests.kernel.guest.nested.libvirt import Domain
from tests.kernel.guest.world import World, handles

pytestmark = pytest.mark.leaves_mdevs


@pytest.mark.boot("nested")
def test_power_is_lost_while_three_units_are_in_the_guest(world: World, vm: Domain) -> None:
    assert set(LEASES) == {"slice", "serial", "second"}
    vm.start("--paused")
    LENT.write_text(json.dumps(LEASES))
    world.server.kill()
    subprocess.run(["sync"], check=True)


@pytest.mark.boot("nested-rebooted")
def test_after_a_reboot_the_guest_starts_with_what_it_had_before_a_server_is_there(cards: None, vm: Domain) -> None:
    lent = json.loads(LENT.read_text())
    assert (sysfs.mdevs(), sysfs.driver(CARD)) == (set(), "nvidia")
    said = run("agent", "restore", "--state-dir", str(KEEP / "state"), "--config-file", configuration.write(KEEP))
    assert said == "labguest: 0 intents, 3 lent units, 0 failures\n"
    assert sysfs.mdevs() == {*handles(lent["slice"]), *handles(lent["serial"])}
    vm.start()
    vm.until_it_sees({GPU: 2, PORT: 1})


@pytest.mark.boot("nested-rebooted")
def test_all_of_it_is_given_back_by_the_running_guest(world: World, vm: Domain) -> None:
    lent = json.loads(LENT.read_text())
    for lease in lent.values():
        world.wait_for(lease, "active")
        world.release(lease)
    for lease in lent.values():
        world.wait_for(lease, "released")
    vm.until_it_sees({GPU: 0, PORT: 0})
    assert (sysfs.mdevs(), sysfs.driver(CARD)) == (set(), "nvidia")
