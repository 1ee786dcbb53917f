"""How many more of each profile fit now: as many leases are to be had, fleet and per host."""

from __future__ import annotations

import pytest
from tests.unit.engine.cloud import ADMIN, ALICE, Host, make_profile, t4, whole

from cantle.engine.flavor import create_flavor
from cantle.engine.lease import create_lease
from cantle.engine.profile import delete_profiles
from cantle.engine.room import list_room
from cantle.errors import NoCapacity, NotFound
from cantle.model.alias import NO_ALIASES
from cantle.store.database import Database


@pytest.fixture
def hosts(db: Database) -> None:
    """Two hosts of different sizes, two profiles, and flavors."""
    Host(db).report(t4(4), whole())
    Host(db, "compute-2").report(t4(3, host="compute-2"))
    make_profile(db, "pair", [{"resources:VGPU": "2"}])
    make_profile(db, "whole", [{"resources:PGPU": "1"}])
    create_flavor(db, ADMIN, name="g1", extra_specs={"gpus": "1"}, aliases=NO_ALIASES)
    create_flavor(db, ADMIN, name="named", extra_specs={"accel:device_profile": "pair"}, aliases=NO_ALIASES)


def room(db: Database, **which: str) -> dict[str, dict[str, int]]:
    """By name and host."""
    return {one.name: dict(one.by_host) for one in list_room(db, aliases=NO_ALIASES, **which)}


def test_so_many_leases_are_to_be_had_as_it_says(db: Database, hosts: None) -> None:
    assert room(db) == {
        "g1": {"compute-1": 1},
        "named": {"compute-1": 2, "compute-2": 1},
        "pair": {"compute-1": 2, "compute-2": 1},
        "whole": {"compute-1": 1},
    }
    (one,) = list_room(db, aliases=NO_ALIASES, name="pair")
    for _ in range(one.fits):
        create_lease(db, ALICE, profile_name="pair")
    assert room(db, name="pair") == {"pair": {}}
    with pytest.raises(NoCapacity):
        create_lease(db, ALICE, profile_name="pair")


def test_of_one_host(db: Database, hosts: None) -> None:
    assert room(db, hostname="compute-2") == {
        "g1": {},
        "named": {"compute-2": 1},
        "pair": {"compute-2": 1},
        "whole": {},
    }
    with pytest.raises(NotFound):
        room(db, hostname="nowhere")
    with pytest.raises(NotFound):
        room(db, name="nothing")


def test_a_flavor_whose_profile_is_gone_says_so_and_hides_no_other(db: Database, hosts: None) -> None:
    delete_profiles(db, ADMIN, ["pair"])
    found = {one.name: one for one in list_room(db, aliases=NO_ALIASES)}
    assert "no device profile 'pair'" in (found["named"].problem or "")
    assert found["whole"].fits == 1


def test_the_number_of_statements_does_not_depend_on_the_fleet(db: Database, hosts: None) -> None:
    def sent() -> int:
        with db.statements() as statements:
            list_room(db, aliases=NO_ALIASES)
        return len(statements)

    before = sent()
    for number in range(20):
        Host(db, f"other-{number}").report(t4(4, host=f"other-{number}"))
    assert sent() == before
