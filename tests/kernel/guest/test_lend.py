"""End to end: ``cantle serve`` on a real root lends units of real cards, over its commands and over the accelerator API."""

from __future__ import annotations

import errno
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kernel.guest import configuration, sysfs
from tests.kernel.guest.command import cantle, run
from tests.kernel.guest.configuration import T4
from tests.kernel.guest.holder import holding
from tests.kernel.guest.server import Server
from tests.kernel.lab.machine import address

TRAIT = "CUSTOM_NVIDIA_1EB8_T4_2B"
FAIL_CREATE = Path("/sys/module/labgpu/parameters/fail_create")


class World:
    """A server with its configuration and state, which can be started again on the same."""

    def __init__(self, folder: Path) -> None:
        self._state = folder / "state"
        self._config = configuration.write(folder)
        self.server = Server(self._state, self._config)

    def restart(self) -> None:
        """Starts a new server on the state of the one that has ended."""
        self.server = Server(self._state, self._config)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, cards: None) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("world"))
    sysfs.until(lambda: T4 in capacity(), "the agent's first report", 60)
    for name, group in {
        "slice": f"resources:VGPU=1,trait:{TRAIT}=required",
        "serial": "resources:VGPU=1,trait:CUSTOM_MDEV_MTTY_DUAL_PORT_SERIAL=required",
        "screen": "resources:CUSTOM_SCREEN=1",
        "picture": "resources:CUSTOM_PICTURE=1",
    }.items():
        cantle("profile", "create", name, "--group", group)
    yield world
    assert world.server.stop() == 0


def capacity() -> dict[str, dict[str, Any]]:
    """What can be lent, by the device's address."""
    return {row["device_address"]: row for row in cantle("capacity")}


def numbers(at: str) -> tuple[int, int, int]:
    """Total, used and free of a device."""
    row = capacity()[at]
    return row["total"], row["used"], row["free"]


def lend(profile: str, *options: str) -> dict[str, Any]:
    """An active lease, as the command prints it."""
    lease: dict[str, Any] = cantle("lease", "create", profile, "--wait", *options)
    assert lease["state"] == "active"
    return lease


def handles(lease: dict[str, Any]) -> list[str]:
    """Uuids of a lease's attach handles."""
    return [arq["attach_handle_uuid"] for arq in lease["arqs"]]


def give_back(*leases: dict[str, Any]) -> None:
    for lease in leases:
        run("lease", "release", lease["uuid"])
    for lease in leases:
        run("lease", "release", lease["uuid"], "--wait", "--timeout", "60")


def test_the_host_s_cards_are_offered_as_the_configuration_says(world: World) -> None:
    offered = {at: (row["resource_class"], row["total"], row["free"]) for at, row in capacity().items()}
    whole = {address(name): ("PGPU", 1, 1) for name in ("t4-second", "a40", "geforce", "hot")}
    cut = {
        T4: ("VGPU", 8, 8),
        "mtty": ("VGPU", 12, 12),
        "mbochs": ("CUSTOM_SCREEN", 4, 4),
        "mdpy": ("CUSTOM_PICTURE", 2, 2),
    }
    assert {at: offered[at] for at in {**whole, **cut}} == {**whole, **cut}


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
    before = numbers(parent)
    lease = lend(profile, "--workload", "vm1")
    (handle,) = handles(lease)
    assert sysfs.mdevs() == {handle}
    assert (sysfs.MDEVS / handle / "mdev_type").resolve().name == type_id
    assert (sysfs.MDEVS / handle).resolve().parent.name == parent
    assert numbers(parent) == (before[0], before[1] + 1, before[2] - 1)
    assert f"<address uuid='{handle}'/>" in run("lease", "xml", lease["uuid"]).replace('"', "'")

    give_back(lease)
    assert sysfs.mdevs() == set()
    assert numbers(parent) == before


def test_nova_s_calls_bind_and_unbind_a_real_unit(world: World) -> None:
    call = world.server.call
    status, made = call("POST", "/v2/accelerator_requests", {"device_profile_name": "slice"})
    assert status == 201
    (arq,) = made["arqs"]
    provider = capacity()[T4]["rp_uuid"]
    instance = str(uuid.uuid4())
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
    leases = [lend("slice", "--count", "8")]
    assert len(sysfs.mdevs()) == 8 == len(set(handles(leases[0])))
    assert numbers(T4) == (8, 8, 0)
    status, problem = world.server.call("POST", "/v1/leases", {"profile": "slice"})
    assert (status, problem["status"]) == (409, 409)
    assert len(sysfs.mdevs()) == 8
    give_back(*leases)


def test_what_somebody_else_makes_is_noticed_and_not_offered(world: World) -> None:
    foreign = str(uuid.uuid4())
    sysfs.write(sysfs.PARENTS / T4 / "mdev_supported_types/nvidia-223/create", foreign)
    try:
        sysfs.until(lambda: numbers(T4) == (7, 0, 7), "the stranger's device is counted")
    finally:
        sysfs.write(sysfs.MDEVS / foreign / "remove", "1")
    sysfs.until(lambda: numbers(T4) == (8, 0, 8), "it is noticed that the stranger's device is gone")


def test_a_card_whose_driver_refuses_fails_the_lease_with_the_kernel_s_answer_and_the_next_works(world: World) -> None:
    sysfs.write(FAIL_CREATE, str(errno.EIO))
    try:
        failed = world.server.call("POST", "/v1/leases", {"profile": "slice"})[1]
        sysfs.until(lambda: show(failed)["state"] == "failed", "the lease fails")
    finally:
        sysfs.write(FAIL_CREATE, "0")
    (arq,) = show(failed)["arqs"]
    assert arq["state"] == "BindFailed"
    assert sysfs.mdevs() == set()
    give_back(failed)
    lease = lend("slice")
    assert sysfs.mdevs() == set(handles(lease))
    give_back(lease)
    assert numbers(T4) == (8, 0, 8)


def show(lease: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = cantle("lease", "show", lease["uuid"])
    return found


def test_a_unit_that_a_guest_still_holds_is_taken_back_as_soon_as_it_lets_go(world: World) -> None:
    lease = lend("slice")
    (handle,) = handles(lease)
    with holding(handle):
        run("lease", "release", lease["uuid"])
        sysfs.until(lambda: show(lease)["state"] == "releasing", "the release has begun")
        assert sysfs.mdevs() == {handle}
        assert numbers(T4)[1] == 1
    sysfs.until(lambda: show(lease)["state"] == "released", "the release is done")
    assert sysfs.mdevs() == set()


def test_a_server_that_is_killed_finds_its_lease_again(world: World) -> None:
    lease = lend("slice")
    world.server.kill()
    assert sysfs.mdevs() == set(handles(lease))
    world.restart()
    assert show(lease)["state"] == "active"
    assert sysfs.mdevs() == set(handles(lease))
    give_back(lease)
    assert sysfs.mdevs() == set()


def test_a_unit_that_vanishes_while_the_server_is_away_is_made_again_under_its_uuid(world: World) -> None:
    lease = lend("slice")
    (handle,) = handles(lease)
    assert world.server.stop() == 0
    sysfs.write(sysfs.MDEVS / handle / "remove", "1")
    world.restart()
    sysfs.until(lambda: sysfs.mdevs() == {handle}, "the unit is back")
    give_back(lease)
