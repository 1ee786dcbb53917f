"""Leases that go to another host: there and not here, or here and not there, never neither."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from sqlalchemy import update
from tests.unit.engine.cloud import ADMIN, ALICE, BOB, Host, make_profile, t4, whole

from cantle.engine import lease as leases
from cantle.engine.capacity import list_capacity
from cantle.engine.force import force_release
from cantle.engine.lease import create_lease, get_lease, release_lease
from cantle.engine.move import can_move, move_lease
from cantle.engine.quota import set_quota
from cantle.engine.work import current_work
from cantle.errors import Conflict, NoCapacity, NotFound
from cantle.model.alias import NO_ALIASES
from cantle.model.attachment import Attachment
from cantle.model.lease import Lease, LeaseState
from cantle.store.database import Database, host_topic
from cantle.store.tables import leases as leases_table


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


def test_a_lease_that_moves_on_and_on_has_no_more_than_its_project_may_have(
    db: Database, hosts: tuple[Host, Host]
) -> None:
    """Each host that it had left went on lending it a unit: a limit of one was two units, and more with more hosts."""
    here, there = hosts
    assert ALICE.project_id is not None
    set_quota(db, ADMIN, ALICE.project_id, "VGPU", 1)
    lease = lent(db)
    here.obey()
    move(db, lease)
    there.obey()
    with pytest.raises(Conflict, match="limit 1, in use 2, asked for 1") as refused:
        move(db, lease, "compute-1")
    assert refused.value.code == "quota-exceeded"
    assert get_lease(db, ALICE, lease.uuid).hostname == "compute-2"
    here.obey()
    assert move(db, lease, "compute-1").hostname == "compute-1"


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


def test_a_card_with_its_companion_goes_to_a_host_that_has_one_card(db: Database) -> None:
    """It was counted as two that had been asked for."""
    here, there = Host(db), Host(db, "compute-2")
    pair = [replace(whole(address=address), labels={"unit": "a"}) for address in ("0000:3b:00.0", "0000:3c:00.0")]
    here.report(*pair)
    there.report(whole(host="compute-2"))
    make_profile(db, "card", [{"resources:PGPU": "1"}])
    lease = create_lease(db, ALICE, profile_name="card", hostname="compute-1")
    assert len(lease.arqs) == 2, "one, and the one that goes along"
    assert can_move(db, ALICE, lease.uuid, to="compute-2", aliases=NO_ALIASES).fit_count == 1
    assert len(move(db, lease).arqs) == 1


def test_a_lease_of_an_older_version_is_moved_with_as_many_units_as_it_has(
    db: Database, hosts: tuple[Host, Host]
) -> None:
    lease = lent(db, count=2)
    with db.write() as connection:
        connection.execute(update(leases_table).values(times=None))
    assert len(move(db, lease).arqs) == 2


def test_a_lease_goes_to_the_memory_nodes_that_are_said_and_can_move_says_whether_it_could(db: Database) -> None:
    """They could be said of a new lease, and were forgotten when it went elsewhere."""
    here, there = Host(db), Host(db, "compute-2")
    here.report(replace(whole(), numa_node=0))
    there.report(replace(whole(host="compute-2"), numa_node=1))
    make_profile(db, "near", [{"resources:PGPU": "1", "accel:numa_policy": "required"}])
    lease = create_lease(db, ALICE, profile_name="near", hostname="compute-1", nodes=[0])
    found = can_move(db, ALICE, lease.uuid, to="compute-2", aliases=NO_ALIASES, nodes=[0])
    assert (found.fit_count, found.groups[0].reasons[0].code) == (0, "numa-other")
    assert can_move(db, ALICE, lease.uuid, to="compute-2", aliases=NO_ALIASES, nodes=[1]).fit_count == 1
    with pytest.raises(NoCapacity, match="NUMA node 1"):
        move_lease(db, ALICE, lease.uuid, to="compute-2", stopped=True, aliases=NO_ALIASES, nodes=[0])


def test_a_moved_lease_gives_a_guest_no_more_of_a_card_than_it_may_have(db: Database) -> None:
    """A new lease was refused there, and one that was moved was not."""
    for name in ("compute-1", "compute-2"):
        Host(db, name).report(replace(t4(2, host=name), labels={"units_per_guest": "1"}))
    make_profile(db, "one", [{"resources:VGPU": "1"}])
    vm = Attachment.parse("libvirt:vm1")
    lease = create_lease(db, ALICE, profile_name="one", hostname="compute-1", attachment=vm)
    create_lease(db, ALICE, profile_name="one", hostname="compute-2", attachment=vm)
    for asked in (lambda: can_move(db, ALICE, lease.uuid, to="compute-2", aliases=NO_ALIASES), lambda: move(db, lease)):
        with pytest.raises(Conflict) as refused:
            asked()
        assert refused.value.code == "guest-has-enough"
    assert get_lease(db, ALICE, lease.uuid).hostname == "compute-1"


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
