"""End to end: ``cantle serve`` on a real root lends units of real cards, over its commands and over its APIs."""

from __future__ import annotations

import errno
import uuid
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.kernel.guest import sysfs
from tests.kernel.guest.command import cantle, run
from tests.kernel.guest.configuration import T4
from tests.kernel.guest.holder import holding
from tests.kernel.guest.hotplug import HOT, pulled
from tests.kernel.guest.served.conftest import TRAIT
from tests.kernel.guest.world import World, handles
from tests.kernel.lab.inside import Host
from tests.kernel.lab.machine import address

FAIL_CREATE = Path("/sys/module/labgpu/parameters/fail_create")
CARD, AUDIO = address("geforce"), address("geforce", 1)


def drivers() -> list[str | None]:
    """What the card that is lent whole and its audio function are bound to."""
    return [sysfs.driver(CARD), sysfs.driver(AUDIO)]


def test_the_host_s_cards_are_offered_as_the_configuration_says(world: World) -> None:
    offered = {row["device_address"]: (row["resource_class"], row["total"], row["free"]) for row in cantle("capacity")}
    whole = {address(name): ("PGPU", 1, 1) for name in ("t4-second", "a40", "geforce", "hot")}
    cut = {
        T4: ("VGPU", 8, 8),
        "mtty": ("VGPU", 12, 12),
        "mbochs": ("CUSTOM_SCREEN", 4, 4),
        "mdpy": ("CUSTOM_PICTURE", 2, 2),
    }
    assert {at: offered[at] for at in {**whole, **cut}} == {**whole, **cut}


def test_the_commands_lend_a_real_device_show_how_to_attach_it_and_take_it_back(world: World) -> None:
    cantle("profile", "create", "gold", "--group", f"resources:VGPU=1,trait:{TRAIT}=required")
    lease = cantle("lease", "create", "gold", "--workload", "vm1", "--wait")
    (handle,) = handles(lease)
    assert (lease["state"], sysfs.mdevs()) == ("active", {handle})
    hostdev = ElementTree.fromstring(run("lease", "xml", lease["uuid"]))  # noqa: S314 - our own command's words
    assert (hostdev.get("type"), [one.get("uuid") for one in hostdev.iter("address")]) == ("mdev", [handle])
    run("lease", "release", lease["uuid"], "--wait", "--timeout", "60")
    assert sysfs.mdevs() == set()
    run("profile", "delete", "gold")


@pytest.mark.parametrize(
    ("profile", "parent", "type_id"),
    [
        ("slice", T4, "nvidia-223"),
        ("serial", "mtty", "mtty-2"),
        ("screen", "mbochs", "mbochs-large"),
        ("picture", "mdpy", "mdpy-hd"),
    ],
)
def test_a_lease_is_one_real_mediated_device_with_the_handle_s_uuid_and_its_release_takes_it_away(
    world: World, profile: str, parent: str, type_id: str
) -> None:
    before = world.numbers(parent)
    lease = world.lend(profile)
    (handle,) = handles(lease)
    assert sysfs.mdevs() == {handle}
    assert (sysfs.MDEVS / handle / "mdev_type").resolve().name == type_id
    assert (sysfs.MDEVS / handle).resolve().parent.name == parent
    assert world.numbers(parent) == (before[0], before[1] + 1, before[2] - 1)

    world.give_back(lease)
    assert sysfs.mdevs() == set()
    assert world.numbers(parent) == before


def test_a_whole_card_goes_to_vfio_pci_with_its_audio_and_comes_back_to_both_drivers(world: World) -> None:
    lease = world.lend("whole")
    assert drivers() == ["vfio-pci", "vfio-pci"]
    assert world.numbers(CARD) == (1, 1, 0)
    (arq,) = lease["arqs"]
    assert arq["attach_handle_info"] == {"domain": "0000", "bus": CARD[5:7], "device": "00", "function": "0"}

    world.give_back(lease)
    assert drivers() == ["nvidia", "snd_hda_intel"]
    assert world.numbers(CARD) == (1, 0, 1)


def test_nova_s_calls_bind_and_unbind_a_real_unit(world: World) -> None:
    call = world.server.call
    status, made = call("POST", "/v2/accelerator_requests", {"device_profile_name": "slice"})
    assert status == 201
    (arq,) = made["arqs"]
    instance = str(uuid.uuid4())
    provider = world.capacity()[T4]["rp_uuid"]
    wanted = {"hostname": "labguest", "device_rp_uuid": provider, "instance_uuid": instance}
    patch = {arq["uuid"]: [{"path": f"/{key}", "op": "add", "value": value} for key, value in wanted.items()]}
    assert call("PATCH", "/v2/accelerator_requests", patch)[0] == 202

    resolved = f"/v2/accelerator_requests?instance={instance}&bind_state=resolved"
    sysfs.until(lambda: call("GET", resolved)[0] == 200, "the request is resolved")
    (bound,) = call("GET", resolved)[1]["arqs"]
    assert (bound["state"], bound["attach_handle_type"]) == ("Bound", "MDEV")
    assert bound["attach_handle_info"]["asked_type"] == "nvidia-223"
    assert sysfs.mdevs() == {bound["attach_handle_uuid"]}

    patch = {arq["uuid"]: [{"path": f"/{key}", "op": "remove"} for key in wanted]}
    assert call("PATCH", "/v2/accelerator_requests", patch)[0] == 202
    sysfs.until(lambda: not sysfs.mdevs(), "the unit is taken back")
    assert call("DELETE", f"/v2/accelerator_requests?arqs={arq['uuid']}")[0] == 204


def test_a_whole_card_s_worth_is_lent_and_the_next_is_refused_without_touching_the_host(world: World) -> None:
    lease = world.lend("slice", count=8)
    assert sysfs.mdevs() == set(handles(lease))
    assert len(sysfs.mdevs()) == 8
    assert world.numbers(T4) == (8, 8, 0)
    status, problem = world.server.call("POST", "/v1/leases", {"profile": "slice"})
    assert (status, problem["status"]) == (409, 409)
    assert len(sysfs.mdevs()) == 8
    world.give_back(lease)
    assert sysfs.mdevs() == set()


def test_what_somebody_else_makes_is_noticed_and_not_offered(world: World) -> None:
    foreign = str(uuid.uuid4())
    sysfs.write(sysfs.PARENTS / T4 / "mdev_supported_types/nvidia-223/create", foreign)
    try:
        sysfs.until(lambda: world.numbers(T4) == (7, 0, 7), "the stranger's device is counted")
    finally:
        sysfs.write(sysfs.MDEVS / foreign / "remove", "1")
    sysfs.until(lambda: world.numbers(T4) == (8, 0, 8), "it is noticed that the stranger's device is gone")


def test_a_card_whose_driver_refuses_fails_the_lease_and_the_next_works(world: World) -> None:
    sysfs.write(FAIL_CREATE, str(errno.EIO))
    try:
        status, lease = world.server.call("POST", "/v1/leases", {"profile": "slice"})
        assert status == 201
        lease = world.wait_for(lease, "failed")
    finally:
        sysfs.write(FAIL_CREATE, "0")
    assert [arq["state"] for arq in lease["arqs"]] == ["BindFailed"]
    world.give_back(lease)
    assert sysfs.mdevs() == set()
    lease = world.lend("slice")
    assert sysfs.mdevs() == set(handles(lease))
    world.give_back(lease)
    assert world.numbers(T4) == (8, 0, 8)


def test_a_unit_that_a_guest_still_holds_is_taken_back_as_soon_as_it_lets_go(world: World) -> None:
    lease = world.lend("slice")
    (handle,) = handles(lease)
    with holding(handle):
        world.release(lease)
        world.wait_for(lease, "releasing")
        assert sysfs.mdevs() == {handle}
        assert world.numbers(T4)[1] == 1
    world.wait_for(lease, "released")
    assert sysfs.mdevs() == set()


def test_a_lent_card_that_is_pulled_is_missing_its_lease_is_kept_and_it_is_ready_again_when_it_comes_back(
    world: World, host: Host
) -> None:
    lease = world.lend("hot")
    assert sysfs.driver(HOT) == "vfio-pci"
    with pulled(host):
        sysfs.until(lambda: world.device(HOT)["health"] == "missing", "it is noticed that the card is gone")
        assert world.lease(lease)["state"] == "active"
        assert world.numbers(HOT)[2] == 0
    sysfs.until(lambda: world.device(HOT)["health"] == "ok", "it is noticed that the card is back")
    sysfs.until(lambda: sysfs.driver(HOT) == "vfio-pci", "the card is ready for its guest again")
    world.give_back(lease)
    assert sysfs.driver(HOT) == "nvidia"


def test_a_server_that_is_killed_finds_its_lease_again_and_makes_the_unit_that_is_gone(world: World) -> None:
    lease = world.lend("slice", count=2)
    world.server.kill()
    assert sysfs.mdevs() == set(handles(lease))
    sysfs.write(sysfs.MDEVS / handles(lease)[0] / "remove", "1")
    world.restart()
    sysfs.until(lambda: sysfs.mdevs() == set(handles(lease)), "both units are there again")
    assert world.lease(lease)["state"] == "active"
    world.give_back(lease)
    assert sysfs.mdevs() == set()
