"""The keeper publishes hosts from the database into the real Placement: what changed, once."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import msgspec
from tests.unit.engine.cloud import ADMIN, NOVA_FOR_ALICE, bound, make_profile, t4, whole
from tests.unit.placement.cloud import AF, Cloud, replace_offer

from cantle.engine.arq import delete_arqs_of_instance
from cantle.engine.capacity import list_capacity
from cantle.engine.device import list_devices, set_status
from cantle.engine.host import drain, list_hosts, undrain
from cantle.engine.lease import create_lease, release_lease
from cantle.model.device import DeviceStatus, Health
from cantle.model.kind import CONTAINERS, GUESTS_LABEL


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
    assert cloud.shown() == {"compute-1_0000:3b:00.0 PGPU": (1, 0)}, (
        "a later look does not bring back what is still away"
    )
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


def test_a_parent_that_is_no_pci_function_is_not_published(cloud: Cloud) -> None:
    mtty = replace_offer(t4(4), address="mtty_mtty", keep=True)
    cloud.host.report(mtty)
    assert cloud.round() == []
    assert cloud.shown() == {}


def test_what_goes_to_containers_alone_is_not_published(cloud: Cloud) -> None:
    """A card of a host without an IOMMU, or in MIG slices: no instance could be given it."""
    cloud.host.report(msgspec.structs.replace(t4(4), labels={GUESTS_LABEL: CONTAINERS}))
    assert cloud.round() == []
    assert cloud.shown() == {}


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
