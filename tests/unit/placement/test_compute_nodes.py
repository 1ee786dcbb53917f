"""Which compute node a host's devices hang below, and what becomes of them when one of the two goes or is renamed."""

from __future__ import annotations

import pytest
from sqlalchemy import update
from tests.unit.engine.cloud import ADMIN, Host, t4
from tests.unit.placement.cloud import AF, Cloud

from cantle.engine.host import forget, rename
from cantle.keeper.placement_host import Settings
from cantle.store.provider_tables import placement_hosts, placement_providers


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
