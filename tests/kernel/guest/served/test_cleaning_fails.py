"""A card that cannot be cleaned, on a real kernel: nobody's until it is mended, or taken as it is; then the next tenant's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.kernel.guest import sysfs
from tests.kernel.guest.command import cantle, run
from tests.kernel.guest.hotplug import HOT, pulled
from tests.kernel.guest.power import no_power
from tests.kernel.guest.world import World, handles
from tests.kernel.lab.inside import Host


@contextmanager
def quarantined(world: World) -> Iterator[dict[str, Any]]:
    """A lease of the card ``hot`` that is over, while the card answers nothing."""
    lease = world.lend("hot", workload="first")
    with no_power(HOT):
        world.release(lease)
        yield world.wait_for(lease, "quarantined")


def history(lease: dict[str, Any]) -> list[str]:
    """What the audit log says was done to a lease, in order."""
    return [row["action"] for row in cantle("audit", "list", "--lease", lease["uuid"])]


def second_tenant(world: World) -> dict[str, Any]:
    """Somebody else's lease of the card, as soon as it is offered again. The card is ready for him."""
    sysfs.until(lambda: world.numbers(HOT) == (1, 0, 1), "the card is offered again")
    second = world.lend("hot", workload="second")
    assert sysfs.driver(HOT) == "vfio-pci"
    return second


def test_a_card_that_falls_off_the_bus_is_quarantined_and_the_next_tenant_s_once_it_was_put_in_again(
    world: World, host: Host
) -> None:
    with quarantined(world) as lease:
        assert f"{HOT} was reset (bus) and now answers nothing but ones" in lease["reason"]
        (now,) = cantle("who", "first")
        assert (now["device"], now["state"], now["reason"]) == (HOT, "quarantined", lease["reason"])
        assert world.numbers(HOT)[2] == 0
        status, refused = world.server.call("POST", "/v1/leases", {"profile": "hot", "workload": "second"})
        assert (status, refused["code"]) == (409, "no-capacity")
        assert sysfs.driver(HOT) == "vfio-pci"
        with pulled(host):
            world.wait_for(lease, "released", 200)
    assert history(lease)[-3:] == ["unit.cleaning", "unit.quarantined", "unit.returned"]
    world.give_back(second_tenant(world))


def test_an_operator_takes_a_card_out_of_quarantine_without_a_reason_since_its_host_says_that_nobody_has_it(
    world: World, host: Host
) -> None:
    with quarantined(world) as lease:
        run("lease", "release", lease["uuid"], "--force")
        assert world.lease(lease)["state"] == "released"
        with pulled(host):
            pass
    (forced,) = (row for row in cantle("audit", "list", "--lease", lease["uuid"]) if row["action"] == "unit.forced")
    assert forced["facts"]["proof"] == "its host says that nobody holds it (quarantined)"
    second = second_tenant(world)
    assert handles(second) != [forced["unit_uuid"]]
    world.give_back(second)
