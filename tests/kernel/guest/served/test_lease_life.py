"""A lease's life on a real kernel: held by a process after its release, cleaned, ended by time, forced."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kernel.guest import sysfs
from tests.kernel.guest.command import cantle
from tests.kernel.guest.holder import holding
from tests.kernel.guest.world import World, handles
from tests.kernel.lab.machine import address

CARD = address("t4-second")


def history(lease: dict[str, Any]) -> dict[str, dict[str, str]]:
    """What the audit log says of a lease, by action."""
    return {row["action"]: row["facts"] for row in cantle("audit", "list", "--lease", lease["uuid"])}


@pytest.mark.parametrize("profile", ["slice", "second"])
def test_a_process_that_keeps_a_released_unit_open_is_named_and_nobody_else_gets_it(world: World, profile: str) -> None:
    lease = world.lend(profile, workload="vm1")
    (unit,) = handles(lease)
    name = CARD if profile == "second" else unit
    with holding(name) as pid:
        world.release(lease)
        sysfs.until(lambda: f"pid {pid}" in str(world.lease(lease)["reason"]), "the host says who holds the unit")
        held = world.lease(lease)
        assert held["state"] == "releasing"
        (now,) = cantle("who", "vm1")
        assert (now["state"], now["unit_uuid"]) == ("releasing", unit)
        assert f"pid {pid}" in now["reason"]
        if profile == "second":
            assert world.server.call("POST", "/v1/leases", {"profile": "second"})[0] == 409
        status, refused = world.server.call("POST", f"/v1/leases/{lease['uuid']}/force-release", {})
        assert (status, refused["code"]) == (409, "units-may-be-held")
    world.wait_for(lease, "released")
    said = history(lease)
    assert list(said) == ["lease.create", "unit.lent", "lease.release", "unit.not-back", *list(said)[4:]]
    assert f"pid {pid}" in said["unit.not-back"]["reason"]
    if profile == "slice":
        assert said["unit.returned"]["cleaning"] == "removed"
        assert sysfs.mdevs() == set()
    else:
        assert list(said)[4:] == ["unit.cleaning", "unit.returned"]
        assert said["unit.returned"] == {"cleaning": "bus", "done": f"{CARD} was reset (bus) and read back"}
        assert sysfs.driver(CARD) == "nvidia"
    world.give_back(world.lend(profile))


def test_a_lease_ends_by_itself_as_it_says(world: World) -> None:
    kept = world.lend("slice", expires_in=3, on_expiry="notify")
    ended = world.lend("slice", expires_in=3)
    world.wait_for(ended, "released")
    sysfs.until(lambda: world.lease(kept)["expired_at"] is not None, "the owner of the other is told")
    assert world.lease(kept)["state"] == "active"
    assert set(handles(kept)) == sysfs.mdevs()
    for lease in (kept, ended):
        assert [one for one in history(lease) if one.startswith("lease.exp")] == ["lease.expiring", "lease.expired"]
    assert world.server.call("POST", f"/v1/leases/{kept['uuid']}/renew", {"expires_in": 3})[0] == 200
    world.wait_for(kept, "active")
    world.give_back(kept)


def test_a_forced_card_that_somebody_still_holds_is_nobody_s_until_he_lets_go(world: World) -> None:
    lease = world.lend("second")
    with holding(CARD) as pid:
        world.release(lease)
        sysfs.until(lambda: f"pid {pid}" in str(world.lease(lease)["reason"]), "the host says who holds the card")
        reason = {"reason": "a person says so, and is wrong"}
        status, forced = world.server.call("POST", f"/v1/leases/{lease['uuid']}/force-release", reason)
        assert (status, forced["state"]) == (200, "released")
        status, refused = world.server.call("POST", "/v1/leases", {"profile": "second"})
        assert (status, refused["code"]) == (409, "no-capacity")
    sysfs.until(lambda: world.numbers(CARD) == (1, 0, 1), "the card is offered again", 180)
    assert history(lease)["unit.forced"]["reason"] == "a person says so, and is wrong"
    world.give_back(world.lend("second"))
