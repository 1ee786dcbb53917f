"""Who learns the names of hosts from the answer why something is not served: those who may list them, and others by the operator's word."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from tests.stories.hosts import HOSTS
from tests.stories.world import World, fresh_database

from cantle.api.settings import Settings
from cantle.engine.intake import accept_report
from cantle.wire.inventory import InventoryReport

#: What no tenant reads: the host's name stands before each card's address.
HOST, CARD = "gpu-host-of-others", "0000:af:00.0"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A host with a T4 in four, and profiles for one and for more than there are."""
    with made(tmp_path, Settings()) as one:
        yield one


@contextmanager
def made(tmp_path: Path, settings: Settings) -> Iterator[World]:
    """See `world`."""
    one = World(fresh_database(tmp_path), settings)
    accept_report(one.db, HOST, msgspec.convert(HOSTS["two-cards"]["h1"], InventoryReport))
    for name, units in (("slice", "1"), ("many", "200")):
        body = {"name": name, "groups": [{"resources:VGPU": units}]}
        assert one.call("POST", "/v1/profiles", body=body).status_code == 201
    yield one
    one.db.close()


def answers(world: World, person: str) -> str:
    """Everything that a person is told about what fits and what does not."""
    told = [world.call("GET", f"/v1/explain?profile={name}", person=person) for name in ("slice", "many")]
    assert [one.status_code for one in told] == [200, 200]
    assert [one.json["fit_count"] for one in told] == [1, 0]
    assert told[1].json["groups"][0]["reasons"][0]["cards"] == 1, "numbers are for everybody"
    return told[0].text + told[1].text


def refused(world: World, person: str) -> str:
    """What a person is told whose lease is refused."""
    told = world.call("POST", "/v1/leases", person=person, body={"profile": "many"})
    assert (told.status_code, told.json["code"]) == (409, "no-capacity")
    assert "200 of one card wanted" in told.json["detail"]
    return str(told.text)


@pytest.mark.parametrize("person", ["member", "reader", "other"])
def test_a_tenant_reads_numbers_and_no_names(world: World, person: str) -> None:
    told = answers(world, person) + (refused(world, person) if person != "reader" else "")
    assert HOST not in told
    assert CARD not in told
    assert "1 host can serve it now" in told


@pytest.mark.parametrize("person", ["admin", "nova-for-admin"])
def test_who_may_list_hosts_reads_their_names(world: World, person: str) -> None:
    told = answers(world, person)
    assert f"1 host can serve it now: {HOST}" in told
    assert f"{HOST} {CARD}" in told
    assert f"{HOST} {CARD}" in refused(world, person)


def test_whether_a_tenants_lease_can_move_is_told_without_names(world: World) -> None:
    lease = world.call("POST", "/v1/leases", person="member", body={"profile": "slice"}).json["uuid"]
    accept_report(world.db, "h2", msgspec.convert(HOSTS["two-hosts"]["h2"], InventoryReport))
    told = world.call("GET", f"/v1/leases/{lease}/can-move?host=h2", person="member")
    assert told.status_code == 200, told.text
    assert told.json["fit_count"] == 1
    assert told.json["fitting"] == []


def test_the_operators_file_gives_names_to_tenants(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text('"cantle:explain:names": "role:member"\n')
    with made(tmp_path, Settings(policy_file=str(policy))) as world:
        assert HOST in answers(world, "member")
        assert HOST in refused(world, "member")
        assert HOST not in answers(world, "reader")
