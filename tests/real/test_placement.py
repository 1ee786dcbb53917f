"""Cantle's devices in a real Placement over HTTP on MariaDB, with Keystone's tokens, as the ``openstack`` command shows them."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from keystoneauth1.adapter import Adapter
from tests.real.accelerator import Accelerator
from tests.real.cloud import PASSWORD, Cloud, Endpoint
from tests.real.mariadb import MariaDb
from tests.real.openstack_cli import OpenStackCli, command_line
from tests.real.placement import PlacementService
from tests.real.places import HERE
from tests.real.processes import running, wait_until

from cantle.errors import Forbidden
from cantle.model.provider import Inventory
from cantle.placement.client import PlacementClient

_MORE = """\
[placement]
auth_type = password
auth_url = {auth_url}
username = cantle
password = {password}
project_name = service
user_domain_name = Default
project_domain_name = Default
[devices]
enabled_mdev_types = nvidia-223, nvidia-35, mlx5_core-local
[mdev_nvidia-223]
device_addresses = 0000:af:00.0
[mdev_nvidia-35]
device_addresses = 0000:84:00.0
[mdev_mlx5_core-local]
device_addresses = 0000:3b:00.0
mdev_class = mlx5
"""

#: Compute nodes as nova-compute would make them, by the name of the simulated host.
HOSTS = ("t4", "generic-mdev")


@pytest.fixture(scope="module")
def placement(directory: Path, cloud: Cloud) -> Iterator[PlacementService]:
    """A Placement in the catalog, with two compute nodes in it."""
    database = MariaDb(directory)
    try:
        database.create()
        with running(database.service, database.answers):
            made = PlacementService(directory, cloud.auth_url, database.new_database("placement"))
            with running(made.service, made.answers):
                cloud.publish(Endpoint("placement", "placement", made.url))
                for name in HOSTS:
                    answer = ask(cloud).post("/resource_providers", json={"name": name, "uuid": str(uuid.uuid4())})
                    assert answer.status_code == 200, answer.text
                yield made
    finally:
        database.remove()


def ask(cloud: Cloud) -> Adapter:
    """Placement as an administrator finds it in the catalog."""
    return Adapter(
        cloud.session("admin"),
        service_type="placement",
        interface="public",
        default_microversion="1.39",
        raise_exc=False,
    )


@pytest.fixture(scope="module")
def publisher(directory: Path, cloud: Cloud, placement: PlacementService) -> Iterator[Accelerator]:
    """A Cantle with both hosts, which logs in as a service user with nothing but its role."""
    more = _MORE.format(auth_url=cloud.auth_url, password=PASSWORD)
    simulated = ("t4", str(HERE / "hosts_mdev.yaml"))
    made = Accelerator(directory, "cantle-placement", cloud.auth_url, simulated=simulated, more=more)
    with running(made.service, made.answers):
        wait_until("all three cards are published", lambda: len(children(cloud)) == 4, seconds=60)
        yield made


@pytest.fixture(scope="module")
def openstack(directory: Path, cloud: Cloud, placement: PlacementService) -> Iterator[OpenStackCli]:
    """The ``openstack`` command with osc-placement's commands."""
    log = directory / "log" / "osc-placement.log"
    with command_line("python-openstackclient", directory / "clouds.yaml", log) as made:
        yield made


def children(cloud: Cloud) -> dict[str, dict[str, Any]]:
    """Providers of ours that have an inventory, by name."""
    found = {}
    for one in ask(cloud).get("/resource_providers").json()["resource_providers"]:
        if one["parent_provider_uuid"] is not None:
            inventories = ask(cloud).get(f"/resource_providers/{one['uuid']}/inventories").json()["inventories"]
            if inventories:
                found[one["name"]] = {**one, "inventories": inventories}
    return found


def placement_command(openstack: OpenStackCli, *words: str) -> Any:
    """The parsed output of one of osc-placement's commands."""
    return openstack.json("admin", "--os-placement-api-version", "1.39", *words)


def test_osc_placement_shows_the_tree_of_the_seeds_example_exactly(
    publisher: Accelerator, openstack: OpenStackCli
) -> None:
    """Spec S0.9: a T4 at 0000:af:00.0 with nvidia-223, below its compute node; the M40 beside it is lent whole."""
    (root,) = placement_command(openstack, "resource", "provider", "list", "--name", "t4")
    tree = placement_command(openstack, "resource", "provider", "list", "--in-tree", root["uuid"])
    by_name = {one["name"]: one for one in tree}
    assert sorted(by_name) == ["t4", "t4_0000:86:00.0", "t4_0000:af:00.0"]
    card = by_name["t4_0000:af:00.0"]
    assert card["parent_provider_uuid"] == root["uuid"]
    (inventory,) = placement_command(openstack, "resource", "provider", "inventory", "list", card["uuid"])
    assert inventory == {
        "resource_class": "VGPU",
        "allocation_ratio": 1.0,
        "min_unit": 1,
        "max_unit": 1,
        "reserved": 0,
        "step_size": 1,
        "total": 8,
        "used": 0,
    }
    traits = placement_command(openstack, "resource", "provider", "trait", "list", card["uuid"])
    assert sorted(one["name"] for one in traits) == ["CUSTOM_NVIDIA_1EB8_T4_2B", "OWNER_CYBORG"]


def test_osc_placement_shows_the_tree_of_generic_mediated_devices_exactly(
    publisher: Accelerator, openstack: OpenStackCli
) -> None:
    """Spec S1.1 and S1.2: nvidia-35 is VGPU, mlx5_core-local of class mlx5 is CUSTOM_MLX5."""
    (root,) = placement_command(openstack, "resource", "provider", "list", "--name", "generic-mdev")
    tree = placement_command(openstack, "resource", "provider", "list", "--in-tree", root["uuid"])
    shown = {}
    for one in tree:
        if one["uuid"] != root["uuid"]:
            inventories = placement_command(openstack, "resource", "provider", "inventory", "list", one["uuid"])
            shown[one["name"]] = [(each["resource_class"], each["total"]) for each in inventories]
    assert shown == {"generic-mdev_0000:84:00.0": [("VGPU", 8)], "generic-mdev_0000:3b:00.0": [("CUSTOM_MLX5", 4)]}


@pytest.mark.parametrize(
    ("words", "provider"),
    [
        (("--resource", "VGPU=1", "--required", "CUSTOM_NVIDIA_1EB8_T4_2B"), "t4_0000:af:00.0"),
        (("--resource", "CUSTOM_MLX5=1"), "generic-mdev_0000:3b:00.0"),
    ],
)
def test_candidates_are_found_by_class_and_trait(
    cloud: Cloud, publisher: Accelerator, openstack: OpenStackCli, words: tuple[str, ...], provider: str
) -> None:
    found = placement_command(openstack, "allocation", "candidate", "list", *words)
    assert {one["resource provider"] for one in found} == {children(cloud)[provider]["uuid"]}


def test_whoever_has_the_role_service_moves_cards_at_once_and_an_administrator_is_told_what_he_lacks(
    cloud: Cloud, placement: PlacementService
) -> None:
    """What a change of ``pool_identical`` needs."""
    ours = PlacementClient(as_service(cloud, "cantle"))
    root, card, pool = (str(uuid.uuid4()) for _ in range(3))
    ask(cloud).post("/resource_providers", json={"name": "elsewhere", "uuid": root})
    before = ours.set_inventories(card, ours.create(card, "elsewhere_card", root).generation, {"PGPU": Inventory(1)})
    empty = ours.create(pool, "elsewhere_pool", root).generation
    ours.may_reshape()
    ours.reshape({card: (before, {}), pool: (empty, {"PGPU": Inventory(1)})})
    assert (ours.inventories(card), ours.inventories(pool)) == ({}, {"PGPU": Inventory(1)})
    with pytest.raises(Forbidden) as refused:
        PlacementClient(as_service(cloud, "admin")).may_reshape()
    assert refused.value.code == "reshaper-forbidden"
    for one in (card, pool, root):
        ours.delete(one)


def as_service(cloud: Cloud, person: str) -> Adapter:
    """Placement as this person finds it."""
    return Adapter(cloud.session(person), service_type="placement", interface="public")


def test_a_server_that_was_killed_changes_nothing_in_placement_when_it_is_back(
    cloud: Cloud, publisher: Accelerator
) -> None:
    before = ask(cloud).get("/resource_providers").json()
    publisher.crash()
    wait_until(
        "the host is heard from", lambda: cloud.api("admin").get(f"{publisher.url}/v1/hosts").json()["hosts"][0]["up"]
    )
    rows = json.loads(cantle(publisher, "diff", "-o", "json"))
    assert all(not row["writes"] for row in rows)
    assert ask(cloud).get("/resource_providers").json() == before


def test_a_placement_that_was_away_is_caught_up_with(
    cloud: Cloud, placement: PlacementService, publisher: Accelerator
) -> None:
    api = cloud.api("admin")
    devices = api.get(f"{publisher.url}/v2/devices").json()["devices"]
    (card,) = [one for one in devices if one["hostname"] == "t4" and "T4" in one["model"]]
    placement.service.stop()
    assert api.post(f"{publisher.url}/v2/devices/{card['uuid']}/disable", microversion="2.3").status_code == 204
    wait_until("the trouble is told", lambda: published(cloud, publisher, "t4")["code"] == "placement-away")
    placement.service.start(placement.answers)
    wait_until("the card is reserved", lambda: reserved(cloud) == 8, seconds=60)
    assert published(cloud, publisher, "t4")["code"] is None
    assert api.post(f"{publisher.url}/v2/devices/{card['uuid']}/enable", microversion="2.3").status_code == 204
    wait_until("the card is free again", lambda: reserved(cloud) == 0, seconds=60)


def published(cloud: Cloud, publisher: Accelerator, host: str) -> dict[str, Any]:
    """What the list of hosts says of a host's publication."""
    rows = cloud.api("admin").get(f"{publisher.url}/v1/hosts").json()["hosts"]
    found: dict[str, Any] = next(row["placement"] for row in rows if row["hostname"] == host)
    return found


def reserved(cloud: Cloud) -> int:
    """How many vGPUs of the T4 may not be taken."""
    found: int = children(cloud)["t4_0000:af:00.0"]["inventories"]["VGPU"]["reserved"]
    return found


def cantle(publisher: Accelerator, *words: str) -> str:
    """The output of ``cantle placement``, which has the server's own configuration."""
    program = Path(sys.executable).parent / "cantle"
    argv = [program, "placement", "--config-file", publisher.conf_for_services(), *words]
    done = subprocess.run([str(word) for word in argv], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
