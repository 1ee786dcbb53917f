"""Interchangeable whole cards of a host as one provider: what Placement sees, and which card a bind gets."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from tests.databases import KINDS, database
from tests.placement_service import Placement
from tests.unit.engine.cloud import ADMIN, NOVA_FOR_ALICE, make_profile, t4, whole
from tests.unit.placement.cloud import Cloud

from cantle.engine.arq import create_arqs, delete_arqs_of_instance, list_arqs
from cantle.engine.bind import Bind, bind
from cantle.engine.capacity import list_capacity
from cantle.engine.device import list_devices, set_status
from cantle.errors import Conflict, NoCapacity
from cantle.keeper.placement import Publisher
from cantle.keeper.placement_host import Settings
from cantle.model.device import DeviceStatus
from cantle.placement.client import PlacementClient
from cantle.wire.inventory import DeviceReport

POOLED = Settings(pool_identical=True)
TRAITS = ("OWNER_CYBORG", "CUSTOM_NVIDIA_20B0")


def a100(number: int, numa_node: int = 0) -> DeviceReport:
    """One of several identical cards."""
    card = whole(address=f"0000:{number:02x}:00.0", traits=TRAITS)
    return msgspec.structs.replace(card, numa_node=numa_node)


@pytest.fixture(params=KINDS)
def cloud(request: pytest.FixtureRequest, tmp_path: Path, service: Placement) -> Iterator[Cloud]:
    """A host with eight identical cards on one NUMA node, pooled."""
    with database(request.param, tmp_path) as db:
        made = Cloud(db, service, POOLED)
        make_profile(db, "eight", [{"resources:PGPU": "8"}])
        make_profile(db, "one", [{"resources:PGPU": "1"}])
        made.host.report(*(a100(number) for number in range(1, 9)))
        made.keeper().round()
        yield made


def pool_of(cloud: Cloud) -> str:
    """The uuid of the only provider below the compute node."""
    found = cloud.placement.call("GET", f"/resource_providers?in_tree={cloud.nodes['compute-1']}")["resource_providers"]
    (pool,) = [one["uuid"] for one in found if one["uuid"] != cloud.nodes["compute-1"]]
    return str(pool)


def boot(cloud: Cloud, profile: str, provider: str) -> tuple[str, list[Any]]:
    """What Nova does for an instance: allocation, requests, bind. The instance and its requests."""
    instance = str(uuid4())
    arqs = create_arqs(cloud.db, NOVA_FOR_ALICE, profile)
    body = {
        "allocations": {provider: {"resources": {"PGPU": len(arqs)}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }
    cloud.placement.call("PUT", f"/allocations/{instance}", body)
    bind(cloud.db, NOVA_FOR_ALICE, [Bind(arq.uuid, "compute-1", provider, instance) for arq in arqs])
    cloud.host.obey()
    return instance, list_arqs(cloud.db, NOVA_FOR_ALICE, instance=instance)


def end(cloud: Cloud, instance: str) -> None:
    """What Nova does when an instance ends."""
    delete_arqs_of_instance(cloud.db, NOVA_FOR_ALICE, instance)
    cloud.host.obey()
    cloud.placement.call("DELETE", f"/allocations/{instance}")


def test_eight_cards_are_one_provider_and_eight_devices(cloud: Cloud) -> None:
    assert list(cloud.shown().values()) == [(8, 0)]
    assert len(list_devices(cloud.db)) == 8
    found = cloud.placement.call("GET", "/allocation_candidates?resources=PGPU:8&required=OWNER_CYBORG")
    assert [list(one["allocations"]) for one in found["allocation_requests"]] == [[pool_of(cloud)]]
    assert cloud.round() == []


def test_one_group_of_eight_gets_all_eight_cards_and_a_ninth_is_refused(cloud: Cloud) -> None:
    instance, arqs = boot(cloud, "eight", pool_of(cloud))
    assert len({arq.attach_handle_uuid for arq in arqs}) == 8
    assert {arq.device_rp_uuid for arq in arqs} == {pool_of(cloud)}
    (more,) = create_arqs(cloud.db, NOVA_FOR_ALICE, "one")
    with pytest.raises(NoCapacity) as refused:
        bind(cloud.db, NOVA_FOR_ALICE, [Bind(more.uuid, "compute-1", pool_of(cloud), str(uuid4()))])
    assert refused.value.code == "no-free-handle"
    assert cloud.round() == [], "what Nova allocated is no news to Placement"
    end(cloud, instance)
    assert cloud.shown()[f"{name_of(cloud)} PGPU"] == (8, 0)


def name_of(cloud: Cloud) -> str:
    """The pool's name."""
    return next(iter(cloud.shown())).partition(" ")[0]


def test_draining_one_card_reserves_one_unit_and_no_bind_gets_it(cloud: Cloud) -> None:
    drained = list_devices(cloud.db)[0]
    set_status(cloud.db, ADMIN, drained.uuid, DeviceStatus.MAINTAINING)
    cloud.keeper().round()
    assert list(cloud.shown().values()) == [(8, 1)]
    for _ in range(7):
        boot(cloud, "one", pool_of(cloud))
    (more,) = create_arqs(cloud.db, NOVA_FOR_ALICE, "one")
    with pytest.raises(Conflict):
        bind(cloud.db, NOVA_FOR_ALICE, [Bind(more.uuid, "compute-1", pool_of(cloud), str(uuid4()))])
    used = {one.device_address: one.used for one in list_capacity(cloud.db)}
    assert used[drained.address] == 0
    assert list(cloud.shown().values()) == [(8, 1)]


def test_cards_of_another_numa_node_or_kind_are_offered_apart(cloud: Cloud) -> None:
    cards = [a100(number, numa_node=number % 2) for number in range(1, 9)]
    cloud.host.report(*cards, t4(4), whole(address="0000:3b:00.0"))
    cloud.keeper().round()
    assert sorted(cloud.shown().values()) == [(1, 0), (4, 0), (4, 0), (4, 0)]


def test_the_pool_keeps_its_uuid_when_cards_come_and_go(cloud: Cloud) -> None:
    before = pool_of(cloud)
    cloud.host.report(*(a100(number) for number in range(1, 8)))
    cloud.keeper().round()
    assert list(cloud.shown().values()) == [(8, 1)], "a missing card is reserved"
    cloud.host.report(*(a100(number) for number in range(1, 11)))
    cloud.keeper().round()
    assert list(cloud.shown().values()) == [(10, 0)]
    assert pool_of(cloud) == before


def test_the_shape_can_be_changed_under_load_and_nothing_is_offered_twice(cloud: Cloud) -> None:
    pool = pool_of(cloud)
    instance, _arqs = boot(cloud, "one", pool)
    cloud.settings = Settings()
    cloud.time_passes()
    cloud.keeper().round()
    shown = cloud.shown()
    assert shown[next(name for name in shown if "_PGPU_" in name)] == (1, 1), "the pool stays for the one that is lent"
    assert sorted(shown.values()) == [(1, 0)] * 7 + [(1, 1)] * 2
    end(cloud, instance)
    for _ in range(2):
        cloud.time_passes()
        cloud.keeper().round()
    assert sorted(cloud.shown().values()) == [(1, 0)] * 8
    alone = next(one.rp_uuid for one in list_capacity(cloud.db))
    instance, _arqs = boot(cloud, "one", alone)
    cloud.settings = POOLED
    cloud.time_passes()
    cloud.keeper().round()
    assert sorted(cloud.shown().values()) == [(1, 1), (8, 1)]
    end(cloud, instance)
    for _ in range(2):
        cloud.time_passes()
        cloud.keeper().round()
    assert sorted(cloud.shown().values()) == [(8, 0)]


class OneRound(threading.Event):
    """Told to stop after the first round."""

    def wait(self, timeout: float | None = None) -> bool:  # noqa: ARG002 - it waits for nothing
        """Whether to stop."""
        stop = self.is_set()
        self.set()
        return stop


def said_at_the_start(cloud: Cloud, settings: Settings, caplog: pytest.LogCaptureFixture) -> list[str]:
    """What a keeper warns of in its first round."""
    caplog.clear()
    with caplog.at_level(logging.WARNING, "cantle.keeper.placement"):
        Publisher(cloud.db, PlacementClient(cloud.placement.adapter()), settings, stop=OneRound()).run()
    return [record.getMessage() for record in caplog.records if "isolate" in record.getMessage()]


def test_profiles_that_isolation_would_make_unfit_for_pools_are_warned_about(
    cloud: Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    two = "/allocation_candidates?resources1=PGPU:1&resources2=PGPU:1&group_policy="
    assert cloud.placement.call("GET", f"{two}none")["allocation_requests"]
    assert not cloud.placement.call("GET", f"{two}isolate")["allocation_requests"]
    assert said_at_the_start(cloud, POOLED, caplog) == [], "one group each"
    make_profile(cloud.db, "apart", [{"resources:PGPU": "1"}, {"resources:PGPU": "1"}])
    make_profile(cloud.db, "sliced", [{"resources:VGPU": "1"}, {"resources:VGPU": "1"}])
    (words,) = said_at_the_start(cloud, POOLED, caplog)
    assert "device profile apart asks for PGPU in 2 groups" in words
    assert said_at_the_start(cloud, Settings(), caplog) == [], "without pools all is well"
