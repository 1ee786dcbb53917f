"""Leases that go to another host: there and not here, or here and not there, never neither."""

from __future__ import annotations

import pytest
from tests.unit.engine.cloud import ADMIN, ALICE, BOB, Host, make_profile, t4

from cantle.engine import lease as leases
from cantle.engine.capacity import list_capacity
from cantle.engine.force import force_release
from cantle.engine.lease import create_lease, get_lease, release_lease
from cantle.engine.move import can_move, move_lease
from cantle.engine.work import current_work
from cantle.errors import Conflict, NoCapacity, NotFound
from cantle.model.alias import NO_ALIASES
from cantle.model.lease import Lease, LeaseState
from cantle.store.database import Database, host_topic


@pytest.fixture
def hosts(db: Database) -> tuple[Host, Host]:
    """Two hosts with two vGPUs each, and a profile for one."""
    here, there = Host(db), Host(db, "compute-2")
    here.report(t4(2))
    there.report(t4(2, host="compute-2"))
    make_profile(db, "one", [{"resources:VGPU": "1"}])
    return here, there


def used(db: Database) -> dict[str, int]:
    """Units that are lent or being taken back, by host."""
    return {row.hostname: row.used for row in list_capacity(db)}


def lent(db: Database, count: int = 1) -> Lease:
    """A lease on the first host."""
    return create_lease(db, ALICE, profile_name="one", hostname="compute-1", count=count)


def move(db: Database, lease: Lease, to: str = "compute-2") -> Lease:
    """The lease, moved."""
    return move_lease(db, ALICE, lease.uuid, to=to, stopped=True, aliases=NO_ALIASES)


def test_s2_4_it_is_claimed_there_and_given_back_here_and_is_the_same_lease(
    db: Database, hosts: tuple[Host, Host]
) -> None:
    here, there = hosts
    lease = lent(db, count=2)
    here.obey()
    assert can_move(db, ALICE, lease.uuid, to="compute-2", aliases=NO_ALIASES).fit_count == 1
    moved = move(db, lease)
    assert (moved.uuid, moved.hostname, moved.state, moved.owner) == (
        lease.uuid,
        "compute-2",
        LeaseState.PENDING,
        "alice",
    )
    assert len(moved.arqs) == 2
    assert used(db) == {"compute-1": 2, "compute-2": 2}, "until the first host has taken its units back"
    there.obey()
    assert get_lease(db, ALICE, lease.uuid).state is LeaseState.ACTIVE
    here.obey()
    assert used(db) == {"compute-1": 0, "compute-2": 2}
    assert (here.held, len(there.held)) == (set(), 2)
    release_lease(db, ALICE, lease.uuid)
    there.obey()
    assert get_lease(db, ALICE, lease.uuid).state is LeaseState.RELEASED


def test_s2_4_a_host_that_has_not_what_it_takes_refuses_before_anything_is_changed(
    db: Database, hosts: tuple[Host, Host]
) -> None:
    lease = lent(db)
    create_lease(db, ALICE, profile_name="one", hostname="compute-2", count=2)
    found = can_move(db, ALICE, lease.uuid, to="compute-2", aliases=NO_ALIASES)
    assert (found.fit_count, found.groups[0].reasons[0].code) == (0, "all-lent")
    with pytest.raises(NoCapacity, match="lent completely"):
        move(db, lease)
    assert get_lease(db, ALICE, lease.uuid).hostname == "compute-1"
    assert used(db) == {"compute-1": 1, "compute-2": 2}


def test_what_cannot_be_moved_is_refused_by_name(db: Database, hosts: tuple[Host, Host]) -> None:
    lease = lent(db)
    with pytest.raises(Conflict) as running:
        move_lease(db, ALICE, lease.uuid, to="compute-2", stopped=False, aliases=NO_ALIASES)
    assert running.value.code == "workload-not-stopped"
    with pytest.raises(Conflict) as there:
        move(db, lease, "compute-1")
    assert there.value.code == "lease-is-there"
    with pytest.raises(NotFound) as nowhere:
        move(db, lease, "nowhere")
    assert nowhere.value.code == "host-not-found"
    with pytest.raises(NotFound) as others:
        move_lease(db, BOB, lease.uuid, to="compute-2", stopped=True, aliases=NO_ALIASES)
    assert others.value.code == "lease-not-found"
    release_lease(db, ALICE, lease.uuid)
    with pytest.raises(Conflict) as over:
        move(db, lease)
    assert over.value.code == "lease-over"


def test_a_move_that_breaks_half_way_leaves_the_lease_where_it_was(
    db: Database, hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = lent(db)

    def broken(*_: object) -> object:
        raise RuntimeError("power cut")

    with monkeypatch.context() as cut:
        cut.setattr(leases, "claim_units", broken)
        with pytest.raises(RuntimeError):
            move(db, lease)
    found = get_lease(db, ALICE, lease.uuid)
    assert (found.hostname, len(found.arqs)) == ("compute-1", 1)
    assert used(db) == {"compute-1": 1, "compute-2": 0}
    assert move(db, lease).hostname == "compute-2"


def test_a_moved_lease_that_is_ended_by_force_is_over_for_its_former_host_too(
    db: Database, hosts: tuple[Host, Host]
) -> None:
    """It went on to take the unit back, of which nobody knew any more."""
    here, there = hosts
    lease = lent(db)
    here.obey()
    move(db, lease)
    before = {host.name: current_work(db, host.name) for host in hosts}
    assert len(before[here.name].unwanted) == 1
    with db.wakeups.waiter(host_topic(here.name)) as waiter, db.wakeups.waiter(host_topic(there.name)) as other:
        assert force_release(db, ADMIN, lease.uuid, "both scrapped").state is LeaseState.RELEASED
        assert waiter.wait(5)
        assert other.wait(5)
    for host in hosts:
        work = current_work(db, host.name)
        assert (work.wanted, work.unwanted) == ((), ())
        assert work.generation > before[host.name].generation
