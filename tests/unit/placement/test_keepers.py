"""Keepers that die, are slow, or are two: each card is published once, and what one began another completes."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import insert, select, update
from tests.databases import database
from tests.placement_service import Placement
from tests.unit.engine.cloud import T4_2B, Host, t4, whole
from tests.unit.placement.cloud import AF, Cloud, Killed, commits_up_to, expected, killed_at, replace_offer

from cantle.store.provider_tables import placement_hosts, placement_providers
from cantle.store.tables import deployables, hosts
from cantle.store.types import database_now


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


#: What the first version of Cantle that published anything wrote of a provider.
BEFORE = """\
{{"uuid":"{uuid}","name":"{name}","seen":{{"uuid":"{uuid}","name":"{name}","parent":"{root}","generation":2,"inventories":{{"VGPU":{{\
"total":4,"reserved":0,"max_unit":1,"min_unit":1,"step_size":1,"allocation_ratio":1.0}}}},"traits":["OWNER_CYBORG","{trait}"]}},\
"forms":[{{"resource_class":"VGPU","total":4,"reserved":0,"max_unit":1,"traits":["OWNER_CYBORG","{trait}"]}}],\
"operator":{{"reserved":0,"max_unit":null}},"unsure":false}}"""


def test_what_a_former_release_published_stays_byte_for_byte(cloud: Cloud) -> None:
    """Spec S1.6: its tree in Placement, with an allocation, and its rows here; what it thought of when to publish again counts no more."""
    uuid, name, root = str(uuid4()), "compute-1_0000:af:00.0", cloud.nodes["compute-1"]
    call = cloud.placement.call
    call("POST", "/resource_providers", {"uuid": uuid, "name": name, "parent_provider_uuid": root})
    call("PUT", f"/traits/{T4_2B}")
    path = f"/resource_providers/{uuid}"
    call("PUT", f"{path}/traits", {"resource_provider_generation": 0, "traits": ["OWNER_CYBORG", T4_2B]})
    inventory = {"total": 4, "reserved": 0, "max_unit": 1, "min_unit": 1, "step_size": 1, "allocation_ratio": 1.0}
    call("PUT", f"{path}/inventories", {"resource_provider_generation": 1, "inventories": {"VGPU": inventory}})
    allocation = {"allocations": {uuid: {"resources": {"VGPU": 1}}}, "project_id": "p", "user_id": "u"}
    more = {"consumer_generation": None, "consumer_type": "INSTANCE"}
    call("PUT", f"/allocations/{uuid4()}", {**allocation, **more})
    cloud.host.report(t4(4))
    with cloud.db.write() as connection:
        (host,) = connection.execute(select(hosts.c.id)).scalars()
        connection.execute(update(deployables).values(rp_uuid=uuid))
        rows = {"host_id": host, "hostname": "compute-1", "root_uuid": root, "root_name": "compute-1", "attempts": 0}
        moments = {"due_at": database_now(-1), "looked_at": database_now(-900), "synced_at": database_now(-900)}
        connection.execute(insert(placement_hosts).values(stamp="0" * 64, **rows, **moments))
        record = BEFORE.format(uuid=uuid, name=name, root=root, trait=T4_2B)
        connection.execute(insert(placement_providers).values(uuid=uuid, host_id=host, record=record))
    before = everything(cloud)
    sent = cloud.round()
    assert sent, "it was looked at"
    assert all(line.startswith("GET") for line in sent)
    assert everything(cloud) == before
    assert cloud.states()[0].code is None


def everything(cloud: Cloud) -> list[Any]:
    """All that Placement has of the host's tree, generations included."""
    call = cloud.placement.call
    found: list[Any] = call("GET", f"/resource_providers?in_tree={cloud.nodes['compute-1']}")["resource_providers"]
    kinds = ("inventories", "traits", "allocations", "usages")
    return found + [call("GET", f"/resource_providers/{one['uuid']}/{kind}") for one in found for kind in kinds]
