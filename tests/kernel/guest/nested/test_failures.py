"""What goes wrong with a real libvirt on the way into a guest and out of it: all is as it was, and the message says what helps."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kernel.guest import sysfs
from tests.kernel.guest.nested.libvirt import Daemon, Domain, virsh
from tests.kernel.guest.world import World, handles

pytestmark = [pytest.mark.boot("nested"), pytest.mark.leaves_mdevs]


def refused(world: World, vm: Domain) -> str:
    """Why a lease for a guest has failed; it is given back, and nothing of it is left on the host or in the guest."""
    before = (sysfs.mdevs(), vm.sources() if vm.state else "")
    status, lease = world.server.call("POST", "/v1/leases", {"profile": "slice", "attach": f"libvirt:{vm.name}"})
    assert status == 201
    failed = world.wait_for(lease, "failed")
    world.give_back(lease)
    assert (sysfs.mdevs(), vm.sources()) == before
    return str(failed["reason"])


def test_a_configuration_that_cannot_be_written(world: World, daemon: Daemon, other: Domain) -> None:
    with daemon.cannot_write():
        why = refused(world, other)
    assert "Read-only file system" in why
    assert "make the disk below /etc/libvirt writable" in why


def test_a_libvirt_that_is_away_on_the_way_in_and_on_the_way_out(world: World, daemon: Daemon, other: Domain) -> None:
    status, made = world.server.call("POST", "/v1/leases", {"profile": "slice", "attach": f"libvirt:{other.name}"})
    assert status == 201
    lease = world.wait_for(made, "active")
    (unit,) = handles(lease)
    with daemon.away():
        status, late = world.server.call("POST", "/v1/leases", {"profile": "slice", "attach": f"libvirt:{other.name}"})
        assert status == 201
        assert "start its daemon" in world.wait_for(late, "failed")["reason"]
        world.give_back(late)
        world.release(lease)
        sysfs.until(lambda: "start its daemon" in str(world.lease(lease)["reason"]), "the host says what helps", 300)
        assert world.lease(lease)["state"] == "releasing"
        assert unit in sysfs.mdevs()
    world.wait_for(lease, "released")
    assert unit not in sysfs.mdevs()
    assert unit not in other.sources()


def test_a_domain_that_is_defined_anew_without_its_unit_is_given_it_again(world: World, other: Domain) -> None:
    status, made = world.server.call("POST", "/v1/leases", {"profile": "slice", "attach": f"libvirt:{other.name}"})
    assert status == 201
    lease = world.wait_for(made, "active")
    (unit,) = handles(lease)
    other.define()
    sysfs.until(lambda: unit in other.sources(), "the unit is put in again", 300)
    virsh("undefine", other.name)
    sysfs.until(lambda: "has no domain" in _reason(world, lease), "the lease says that its guest is not there", 300)
    assert world.lease(lease)["state"] == "active"
    other.define()
    sysfs.until(lambda: unit in other.sources(), "the unit is put into the guest that is back", 300)
    sysfs.until(lambda: _reason(world, lease) == "None", "the lease says nothing any more", 300)
    world.give_back(lease)
    assert unit not in sysfs.mdevs()


def _reason(world: World, lease: dict[str, Any]) -> str:
    return str(world.lease(lease)["reason"])
