"""Leases into guests of a real libvirt and QEMU, seen from inside the guest. One story: each test goes on where the last one ended."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kernel.guest import sysfs
from tests.kernel.guest.command import cantle
from tests.kernel.guest.nested.lent import CARD, GPU, LEASES, PORT
from tests.kernel.guest.nested.libvirt import Domain, virsh
from tests.kernel.guest.world import World, handles

pytestmark = [pytest.mark.boot("nested"), pytest.mark.leaves_mdevs]


def lend(profile: str, vm: Domain, *, start: bool = False) -> None:
    """An active lease that is in its guest, made by the command."""
    and_start = ["--start"] if start else []
    LEASES[profile] = cantle(
        "lease", "create", profile, "--attach", f"libvirt:{vm.name}", *and_start, "--wait", "--timeout", "600"
    )
    assert LEASES[profile]["state"] == "active"


def test_leases_of_a_guest_that_is_off_are_on_its_bus_when_the_last_one_starts_it(world: World, vm: Domain) -> None:
    lend("slice", vm)
    lend("serial", vm)
    assert vm.state == "shut off"
    lend("second", vm, start=True)
    assert sysfs.mdevs() == {*handles(LEASES["slice"]), *handles(LEASES["serial"])}
    assert sysfs.driver(CARD) == "vfio-pci"
    assert vm.state == "running"
    vm.until_it_sees({GPU: 2, PORT: 1})


def test_what_is_given_back_leaves_the_running_guest_and_what_is_lent_enters_it(world: World, vm: Domain) -> None:
    world.give_back(LEASES["serial"])
    assert sysfs.mdevs() == set(handles(LEASES["slice"]))
    vm.until_it_sees({GPU: 2, PORT: 0})
    lend("serial", vm)
    vm.until_it_sees({GPU: 2, PORT: 1})
    world.give_back(LEASES["second"])
    assert sysfs.driver(CARD) == "nvidia"
    vm.until_it_sees({GPU: 1, PORT: 1})
    lend("second", vm)
    vm.until_it_sees({GPU: 2, PORT: 1})


def test_a_guest_that_does_not_let_go_keeps_the_unit_until_it_does_and_the_lease_says_so(
    world: World, vm: Domain
) -> None:
    """libvirt says "Device detached successfully" of a paused guest."""
    virsh("suspend", vm.name)
    (unit,) = handles(LEASES["serial"])
    world.release(LEASES["serial"])
    sysfs.until(lambda: "has not" in str(world.lease(LEASES["serial"])["reason"]), "the host says that it waits", 300)
    lease = world.lease(LEASES["serial"])
    assert lease["state"] == "releasing"
    assert f"{vm.name} was asked to let go of {unit}" in lease["reason"]
    assert unit in sysfs.mdevs()
    virsh("resume", vm.name)
    world.wait_for(lease, "released")
    assert unit not in sysfs.mdevs()
    vm.until_it_sees({GPU: 2, PORT: 0})
    lend("serial", vm)


def test_a_guest_that_is_started_again_while_no_server_runs_has_the_same_units(world: World, vm: Domain) -> None:
    world.server.kill()
    vm.pull_the_plug()
    vm.start()
    vm.until_it_sees({GPU: 2, PORT: 1})
    world.restart()
    for lease in LEASES.values():
        world.wait_for(lease, "active")


def test_a_guest_that_its_lease_stops_has_lost_the_card_and_the_next_tenant_gets_it(
    world: World, vm: Domain, other: Domain
) -> None:
    renew = {"expires_in": 1, "on_expiry": "stop-guest"}
    assert world.server.call("POST", f"/v1/leases/{LEASES['second']['uuid']}/renew", renew)[0] == 200
    world.wait_for(LEASES["second"], "released")
    assert vm.state == "shut off"
    (back,) = [row["facts"] for row in _audit(LEASES["second"]) if row["action"] == "unit.returned"]
    assert back["done"].startswith(f"libvirt:{vm.name} was asked to shut down and stopped; {CARD} was reset")
    assert sysfs.driver(CARD) == "nvidia"
    lend("second", other)
    assert CARD in other.sources()
    assert CARD not in vm.sources()
    world.give_back(LEASES["second"])
    assert CARD not in other.sources()
    lend("second", vm)


def _audit(lease: dict[str, Any]) -> list[dict[str, Any]]:
    return list(cantle("audit", "list", "--lease", lease["uuid"]))
