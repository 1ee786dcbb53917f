"""After the loss of power of test_domain.py: the host makes its units anew without a server, and the guest starts with them."""

from __future__ import annotations

import json

import pytest
from tests.kernel.guest import configuration, sysfs
from tests.kernel.guest.command import run
from tests.kernel.guest.nested.conftest import KEEP, LENT
from tests.kernel.guest.nested.libvirt import Domain
from tests.kernel.guest.nested.test_domain import CARD, GPU, PORT
from tests.kernel.guest.world import World, handles

pytestmark = [pytest.mark.boot("nested-rebooted"), pytest.mark.leaves_mdevs]


def test_after_a_reboot_the_guest_starts_with_what_it_had_before_a_server_is_there(cards: None, vm: Domain) -> None:
    lent = json.loads(LENT.read_text())
    assert (sysfs.mdevs(), sysfs.driver(CARD)) == (set(), "nvidia")
    said = run("agent", "restore", "--state-dir", str(KEEP / "state"), "--config-file", configuration.write(KEEP))
    assert said == "labguest: 0 intents, 3 lent units, 0 failures\n"
    assert sysfs.mdevs() == {*handles(lent["slice"]), *handles(lent["serial"])}
    vm.start()
    vm.until_it_sees({GPU: 2, PORT: 1})


def test_all_of_it_is_given_back_by_the_running_guest(world: World, vm: Domain) -> None:
    lent = json.loads(LENT.read_text())
    for lease in lent.values():
        world.wait_for(lease, "active")
        world.release(lease)
    for lease in lent.values():
        world.wait_for(lease, "released", 120)
    vm.until_it_sees({GPU: 0, PORT: 0}, 30)
    assert (sysfs.mdevs(), sysfs.driver(CARD)) == (set(), "nvidia")
