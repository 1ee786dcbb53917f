"""The keeper publishes hosts from the database into the real Placement: what changed, once, whoever else is at it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from sqlalchemy import event, select, update
from tests.databases import KINDS, database
from tests.placement_service import Placement
from tests.unit.engine.cloud import ADMIN, NOVA_FOR_ALICE, Host, bound, make_profile, t4, whole

from cantle.engine.arq import delete_arqs_of_instance
from cantle.engine.capacity import list_capacity
from cantle.engine.device import list_devices, set_status
from cantle.engine.host import drain, forget, list_hosts, rename, undrain
from cantle.engine.lease import create_lease, release_lease
from cantle.keeper.placement import Publisher
from cantle.keeper.placement_host import Settings
from cantle.model.device import DeviceStatus, Health
from cantle.placement.client import PlacementClient
from cantle.store.database import Database
from cantle.store.provider_tables import placement_hosts, placement_providers
from cantle.store.tables import hosts
from cantle.store.types import database_now


@dataclass
class Cloud:
    """Cantle's database, a compute node in Placement, and a keeper between them."""

    db: Database
    placement: Placement
    settings: Settings = field(default_factory=Settings)
    nodes: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.host = Host(self.db)
        self.compute_node("compute-1")

    def compute_node(self, name: str) -> str:
        """What nova-compute makes."""
        self.nodes[name] = str(uuid4())
        self.placement.call("POST", "/resource_providers", {"name": name, "uuid": self.nodes[name]})
        return self.nodes[name]

    def keeper(self, *, patient: bool = False) -> Publisher:
        """A keeper that has just started."""
        client = PlacementClient(self.placement.adapter())
        return Publisher(self.db, client, self.settings, stop=threading.Event(), patient=patient)

    def round(self) -> list[str]:
        """What one round of a keeper sends."""
        self.placement.faults.sent.clear()
        self.keeper().round()
        return [f"{one.method} {one.path}" for one in self.placement.faults.sent]

    def shown(self, node: str = "compute-1") -> dict[str, Any]:
        """By name and class, (total, reserved) of what is below a compute node."""
        found = {}
        for one in self.placement.call("GET", f"/resource_providers?in_tree={self.nodes[node]}")["resource_providers"]:
            if one["uuid"] != self.nodes[node]:
                path = f"/resource_providers/{one['uuid']}/inventories"
                for name, inventory in self.placement.call("GET", path)["inventories"].items():
                    found[f"{one['name']} {name}"] = (inventory["total"], inventory["reserved"])
        return found

    def states(self) -> list[Any]:
        """What is remembered of hosts."""
        with self.db.read() as connection:
            return list(connection.execute(select(placement_hosts).order_by(placement_hosts.c.hostname)))

    def time_passes(self, seconds: float = 3600) -> None:
        """Everything that waits for a time is due; devices are missing for longer. Hosts stay as heard from as they are."""
        with self.db.write() as connection:
            connection.execute(
                update(placement_hosts).values(
                    due_at=database_now(-1), looked_at=database_now(-seconds), claimed_until=database_now(-1)
                )
            )
            connection.execute(
                update(placement_providers)
                .where(placement_providers.c.missing_since.is_not(None))
                .values(missing_since=database_now(-seconds))
            )

    def silent(self, seconds: float) -> None:
        """The host was last heard from so long ago."""
        with self.db.write() as connection:
            connection.execute(update(hosts).values(last_seen=database_now(-seconds)))


@pytest.fixture(params=KINDS)
def cloud(request: pytest.FixtureRequest, tmp_path: Path, service: Placement) -> Iterator[Cloud]:
    """One host, without cards yet."""
    with database(request.param, tmp_path) as db:
        yield Cloud(db, service)


AF = "compute-1_0000:af:00.0 VGPU"


def test_a_report_is_published_and_what_did_not_change_costs_no_request(cloud: Cloud) -> None:
    cloud.host.report(t4(4), whole())
    cloud.keeper().round()
    assert cloud.shown() == {AF: (4, 0), "compute-1_0000:3b:00.0 PGPU": (1, 0)}
    assert cloud.round() == []
    cloud.host.restart()
    cloud.host.report()
    assert cloud.round() == []
    cloud.time_passes()
    assert cloud.round() == [f"GET /resource_providers?in_tree={cloud.nodes['compute-1']}"]


def test_boots_of_instances_change_nothing_and_cost_no_request(cloud: Cloud) -> None:
    make_profile(cloud.db)
    cloud.host.report(t4(4))
    cloud.keeper().round()
    (arq,) = bound(cloud.db, cloud.host)
    assert cloud.round() == []
    assert arq.instance_uuid is not None
    delete_arqs_of_instance(cloud.db, NOVA_FOR_ALICE, arq.instance_uuid)
    cloud.host.obey()
    assert cloud.round() == []


def test_maintenance_reserves_everything_and_its_end_frees_it_again(cloud: Cloud) -> None:
    cloud.host.report(t4(4))
    cloud.keeper().round()
    (device,) = list_devices(cloud.db)
    set_status(cloud.db, ADMIN, device.uuid, DeviceStatus.MAINTAINING)
    cloud.keeper().round()
    assert cloud.shown() == {AF: (4, 4)}
    set_status(cloud.db, ADMIN, device.uuid, DeviceStatus.ENABLED)
    cloud.keeper().round()
    assert cloud.shown() == {AF: (4, 0)}


def test_a_failed_card_is_reserved_and_the_others_are_not(cloud: Cloud) -> None:
    cloud.host.report(t4(4), whole())
    cloud.keeper().round()
    cloud.host.report(t4(4, health=Health.FAILED), whole())
    cloud.keeper().round()
    assert cloud.shown() == {AF: (4, 4), "compute-1_0000:3b:00.0 PGPU": (1, 0)}


def test_a_silent_host_is_reserved_only_when_a_restart_of_ours_cannot_explain_it(cloud: Cloud) -> None:
    cloud.host.report(t4(4))
    cloud.keeper().round()
    cloud.silent(200)
    assert cloud.round() == [], "down for binds, and not yet for Placement"
    cloud.silent(400)
    cloud.keeper(patient=True).round()
    assert cloud.shown() == {AF: (4, 0)}, "a keeper that has just started does not know who was away"
    cloud.keeper().round()
    assert cloud.shown() == {AF: (4, 4)}
    cloud.silent(0)
    cloud.keeper().round()
    assert cloud.shown() == {AF: (4, 0)}


def test_units_of_a_lease_of_our_own_are_reserved_until_it_is_given_back(cloud: Cloud) -> None:
    make_profile(cloud.db)
    cloud.host.report(t4(4))
    cloud.keeper().round()
    lease = create_lease(cloud.db, ADMIN, profile_name="vgpu", workload="vm1", count=3)
    cloud.host.obey()
    cloud.keeper().round()
    assert cloud.shown() == {AF: (4, 3)}
    release_lease(cloud.db, ADMIN, lease.uuid)
    cloud.host.obey()
    cloud.keeper().round()
    assert cloud.shown() == {AF: (4, 0)}


def test_a_unit_that_its_host_cannot_take_back_is_reserved(cloud: Cloud) -> None:
    make_profile(cloud.db)
    cloud.host.report(t4(4))
    cloud.keeper().round()
    (arq,) = bound(cloud.db, cloud.host)
    assert arq.instance_uuid is not None
    delete_arqs_of_instance(cloud.db, NOVA_FOR_ALICE, arq.instance_uuid)
    cloud.host.refusing["*"] = "mdev-busy"
    cloud.host.obey()
    cloud.keeper().round()
    assert cloud.shown() == {AF: (4, 1)}
    cloud.host.refusing.clear()
    cloud.host.obey()
    cloud.keeper().round()
    assert cloud.shown() == {AF: (4, 0)}


def test_seven_unleased_devices_that_vanish_at_once_are_all_gone_after_the_grace_and_none_before(cloud: Cloud) -> None:
    cards = [t4(2, address=f"0000:a{number}:00.0") for number in range(7)]
    cloud.host.report(*cards, whole())
    cloud.keeper().round()
    cloud.host.report(whole())
    cloud.keeper().round()
    cloud.time_passes(86000)
    cloud.keeper().round()
    before = cloud.shown()
    assert len(before) == 8
    assert all(reserved == total for name, (total, reserved) in before.items() if name.endswith("VGPU"))
    cloud.time_passes(87000)
    cloud.keeper().round()
    assert cloud.shown() == {"compute-1_0000:3b:00.0 PGPU": (1, 0)}
    cloud.time_passes()
    cloud.keeper().round()
    assert cloud.shown() == {"compute-1_0000:3b:00.0 PGPU": (1, 0)}, "a later look does not bring back what is still away"
    cloud.host.report(*cards, whole())
    cloud.keeper().round()
    assert len(cloud.shown()) == 8


def test_a_card_that_leaves_while_lent_goes_by_itself_after_its_release(cloud: Cloud) -> None:
    make_profile(cloud.db)
    cloud.host.report(t4(4), whole())
    cloud.keeper().round()
    provider = next(one.rp_uuid for one in _capacities(cloud) if one.resource_class == "VGPU")
    instance = _allocate(cloud, provider)
    cloud.host.report(replace_offer(t4(4)), whole())
    cloud.keeper().round()
    assert cloud.shown()[AF] == (1, 1)
    assert cloud.states()[0].waiting == "retiring: compute-1_0000:af:00.0"
    cloud.placement.call("DELETE", f"/allocations/{instance}")
    cloud.time_passes(1)
    cloud.keeper().round()
    assert AF not in cloud.shown()
    assert cloud.states()[0].waiting is None


def test_placement_away_is_told_and_tried_again_with_growing_pauses(cloud: Cloud) -> None:
    cloud.host.report(t4(4))
    cloud.placement.faults.always = 503
    cloud.keeper().round()
    (state,) = cloud.states()
    assert (state.code, state.attempts, state.synced_at) == ("placement-away", 1, None)
    assert cloud.round() == [], "not before its pause is over"
    cloud.time_passes()
    cloud.keeper().round()
    assert cloud.states()[0].attempts == 2
    cloud.placement.faults.clear()
    cloud.time_passes()
    cloud.keeper().round()
    (state,) = cloud.states()
    assert (state.code, state.problem, state.attempts) == (None, None, 0)
    assert state.synced_at is not None
    assert cloud.shown() == {AF: (4, 0)}


def test_a_compute_node_that_comes_later_is_found(cloud: Cloud) -> None:
    late = Host(cloud.db, "compute-2")
    late.report(t4(4, host="compute-2"))
    cloud.host.report(t4(4))
    cloud.keeper().round()
    assert cloud.shown() == {AF: (4, 0)}, "everything else keeps working"
    assert cloud.states()[1].code == "host-not-in-placement"
    cloud.compute_node("compute-2")
    cloud.time_passes()
    cloud.keeper().round()
    assert cloud.shown("compute-2") == {"compute-2_0000:af:00.0 VGPU": (4, 0)}


@pytest.mark.parametrize(
    ("reported", "provider", "settings"),
    [
        ("c7.example.org", "c7.example.org", Settings()),
        ("c7.example.org", "c7", Settings()),
        ("c7", "c7.example.org", Settings(domain="example.org")),
        ("c7", "c7", Settings(domain="example.org")),
        ("c7", "rack-3", Settings(names={"c7": "rack-3"})),
    ],
)
def test_the_compute_node_is_found_by_what_was_said_then_qualified_then_short(
    cloud: Cloud, reported: str, provider: str, settings: Settings
) -> None:
    cloud.settings = settings
    cloud.compute_node(provider)
    Host(cloud.db, reported).report(t4(4, host=reported))
    cloud.keeper().round()
    assert cloud.shown(provider) == {f"{reported}_0000:af:00.0 VGPU": (4, 0)}


def test_two_hosts_with_one_short_name_never_share_a_compute_node(cloud: Cloud) -> None:
    cloud.compute_node("c7")
    for name in ("c7.a.example", "c7.b.example"):
        Host(cloud.db, name).report(t4(4, host=name))
    cloud.keeper().round()
    assert len(cloud.shown("c7")) == 1
    assert [state.code for state in cloud.states()] == [None, "provider-of-other-host"]


def test_a_parent_that_is_no_pci_function_is_not_published(cloud: Cloud) -> None:
    mtty = replace_offer(t4(4), address="mtty_mtty", keep=True)
    cloud.host.report(mtty)
    assert cloud.round() == []
    assert cloud.shown() == {}


def test_a_keeper_that_died_half_way_is_followed_by_one_that_looks_first(cloud: Cloud) -> None:
    cloud.host.report(t4(4))

    def die(method: str, path: str) -> None:
        if path.endswith("/inventories"):
            raise Killed

    cloud.placement.faults.before = die
    with pytest.raises(Killed):
        cloud.keeper().round()
    cloud.placement.faults.clear()
    assert cloud.round() == [], "its claim holds for a while"
    with cloud.db.write() as connection:
        connection.execute(update(placement_hosts).values(claimed_until=database_now(-1)))
    assert cloud.round()[0].startswith("GET /resource_providers?in_tree=")
    assert cloud.shown() == {AF: (4, 0)}


def test_a_keeper_that_lost_its_claim_writes_nothing_more(cloud: Cloud) -> None:
    cloud.host.report(t4(4))

    def steal(method: str, path: str) -> None:
        if method == "POST":
            with cloud.db.write() as connection:
                connection.execute(update(placement_hosts).values(claimed_by=str(uuid4())))

    cloud.placement.faults.before = steal
    cloud.keeper().round()
    assert cloud.states()[0].synced_at is None


def test_a_host_that_is_no_more_leaves_nothing_behind(cloud: Cloud) -> None:
    cloud.host.report(t4(4))
    cloud.keeper().round()
    with cloud.db.write() as connection:  # as when its host is forgotten
        connection.execute(update(placement_hosts).values(host_id=4711))
        connection.execute(update(placement_providers).values(host_id=4711))
    cloud.time_passes()
    cloud.keeper().publish(4711, "compute-1", None)
    assert cloud.shown() == {}
    assert cloud.states() == []


def _capacities(cloud: Cloud) -> list[Any]:
    return list(list_capacity(cloud.db))


def _allocate(cloud: Cloud, provider: str) -> str:
    instance = str(uuid4())
    body = {
        "allocations": {provider: {"resources": {"VGPU": 1}}},
        "project_id": str(uuid4()),
        "user_id": str(uuid4()),
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }
    cloud.placement.call("PUT", f"/allocations/{instance}", body)
    return instance


def replace_offer(device: Any, *, address: str | None = None, keep: bool = False) -> Any:
    """The device with nothing to offer, or at another address with what it has."""
    changed = {} if keep else {"deployables": ()}
    return msgspec.structs.replace(device, **changed, **({"address": address} if address else {}))


def test_the_list_of_hosts_says_how_far_each_is_published(cloud: Cloud) -> None:
    cloud.host.report(t4(4))
    (host,) = list_hosts(cloud.db)
    assert host.placement is None, "nothing was ever published"
    cloud.placement.faults.always = 503
    cloud.keeper().round()
    (host,) = list_hosts(cloud.db)
    assert host.placement is not None
    assert (host.placement.synced_at, host.placement.code) == (None, "placement-away")
    cloud.placement.faults.clear()
    cloud.time_passes()
    cloud.keeper().round()
    (host,) = list_hosts(cloud.db)
    assert host.placement is not None
    assert (host.placement.pending, host.placement.code, host.placement.error) == (None, None, None)
    assert host.placement.synced_at is not None


def test_a_drained_host_is_reserved_until_it_is_drained_no_more(cloud: Cloud) -> None:
    cloud.host.report(t4(4))
    cloud.keeper().round()
    drain(cloud.db, ADMIN, "compute-1")
    cloud.keeper().round()
    assert cloud.shown() == {AF: (4, 4)}
    undrain(cloud.db, ADMIN, "compute-1")
    cloud.keeper().round()
    assert cloud.shown() == {AF: (4, 0)}


def test_a_host_that_is_forgotten_takes_its_providers_with_it_and_brings_others_when_it_is_back(cloud: Cloud) -> None:
    cloud.host.report(t4(4))
    cloud.keeper().round()
    cloud.silent(400)
    forget(cloud.db, ADMIN, "compute-1")
    cloud.keeper().round()
    assert cloud.shown() == {}
    assert cloud.round() == []
    cloud.host.restart()
    cloud.host.report(t4(4))
    cloud.keeper().round()
    assert cloud.shown() == {AF: (4, 0)}


@pytest.mark.parametrize("number", range(1, 12))
def test_a_keeper_killed_at_any_request_is_followed_by_one_that_completes_it(
    service: Placement, tmp_path: Path, number: int
) -> None:
    """Publishing two cards, and then a change of class of one, a new card and one that goes: killed at each request of either."""
    with database("sqlite", tmp_path) as db:
        cloud = Cloud(db, service)
        for cards in ((t4(4), whole()), (t4(2), whole(address="0000:5e:00.0"), replace_offer(whole()))):
            cloud.host.report(*cards)
            killed_at(cloud, number)
            service.faults.clear()
            cloud.time_passes()
            cloud.keeper().round()
            assert [state.code for state in cloud.states()] == [None]
            assert cloud.shown() == expected(cards)
            assert cloud.round() == []


@pytest.mark.parametrize("number", range(1, 9))
def test_a_keeper_killed_before_any_commit_is_followed_by_one_that_completes_it(
    service: Placement, tmp_path: Path, number: int
) -> None:
    """What it was about to write down is lost; what it had written in Placement is not taken for anybody else's."""
    with database("sqlite", tmp_path) as db:
        cloud = Cloud(db, service)
        for cards in ((t4(4), whole()), (t4(2), whole(address="0000:5e:00.0"), replace_offer(whole()))):
            cloud.host.report(*cards)
            with commits_up_to(db, number), contextlib.suppress(Killed):
                cloud.keeper().round()
            cloud.time_passes()
            cloud.keeper().round()
            assert [state.code for state in cloud.states()] == [None]
            assert cloud.shown() == expected(cards)
            assert cloud.round() == []


class Killed(BaseException):
    """What SIGKILL is like from inside."""


@contextlib.contextmanager
def commits_up_to(db: Database, number: int) -> Iterator[None]:
    """The transaction of that number is never committed."""
    counted = iter(range(1, 1000))

    def die(_connection: object) -> None:
        if next(counted) == number:
            raise Killed

    event.listen(db._writer, "commit", die)
    try:
        yield
    finally:
        event.remove(db._writer, "commit", die)


def killed_at(cloud: Cloud, number: int) -> None:
    """A round of a keeper that is killed before its request of that number, and after the one before that, if it comes so far."""
    counted = iter(range(1, 1000))

    def die(_method: str, _path: str) -> None:
        if next(counted) == number:
            raise Killed

    cloud.placement.faults.before = die
    with contextlib.suppress(Killed):
        cloud.keeper().round()


def expected(cards: Any) -> dict[str, tuple[int, int]]:
    """What is shown of cards that are all in service."""
    return {
        f"{one.name} {one.resource_class}": (len(one.handles), 0)
        for card in cards
        for one in card.deployables
        if one.handles
    }


def test_two_keepers_at_once_publish_each_card_once(cloud: Cloud) -> None:
    cloud.host.report(t4(4), whole())
    other = Host(cloud.db, "compute-2")
    cloud.compute_node("compute-2")
    other.report(t4(4, host="compute-2"))
    second = cloud.keeper()
    inside: list[bool] = []

    def meanwhile(_method: str, _path: str) -> None:
        if not inside:
            inside.append(True)
            second.round()

    cloud.placement.faults.before = meanwhile
    cloud.keeper().round()
    posts = [one for one in cloud.placement.faults.writes if one.startswith("POST")]
    assert len(posts) == 3
    assert cloud.shown() == {AF: (4, 0), "compute-1_0000:3b:00.0 PGPU": (1, 0)}
    assert cloud.shown("compute-2") == {"compute-2_0000:af:00.0 VGPU": (4, 0)}
    cloud.placement.faults.before = None
    assert cloud.round() == []


def test_a_renamed_host_goes_on_where_it_was(cloud: Cloud) -> None:
    """`cantle host rename`, after nova-compute's provider got the new name."""
    cloud.host.report(t4(4))
    cloud.keeper().round()
    node = cloud.nodes["compute-1"]
    cloud.placement.call("PUT", f"/resource_providers/{node}", {"name": "node-1"}, version="1.0")
    cloud.time_passes()
    cloud.keeper().round()
    assert cloud.states()[0].code == "host-renamed"
    assert cloud.shown() == {AF: (4, 0)}
    cloud.silent(400)
    rename(cloud.db, ADMIN, "compute-1", "node-1")
    cloud.silent(0)
    cloud.time_passes()
    cloud.keeper().round()
    assert cloud.states()[0].code is None
    assert cloud.shown() == {AF: (4, 0)}
