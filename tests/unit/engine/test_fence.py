"""Which machine, and which life of its agent, may speak for a host; and a server that is behind its host."""

from __future__ import annotations

from sqlalchemy import update
from tests.unit.engine.cloud import ADMIN, ALICE, Host, capacity_of, make_profile
from tests.unit.engine.machine import Machine, copy_of, lend, machine, restored, told

from cantle.engine.host import confirm, get_host
from cantle.engine.lease import create_lease, release_lease
from cantle.engine.work import current_work, wait_work
from cantle.errors import NoCapacity
from cantle.model.host import HostState
from cantle.store.database import Database
from cantle.store.tables import hosts

# -- which machine ---------------------------------------------------------------------------------------------------


def test_another_machine_under_the_same_name_is_refused_and_seen_at_the_host(db: Database) -> None:
    first = machine(db)
    second = Machine(db, "compute-1", first.devices)
    second.machine = "m2"
    assert second.refused() == "host-is-another-machine"
    assert "cantle host confirm compute-1" in told(db)["host-is-another-machine"]
    assert not first.report().changed
    assert get_host(db, "compute-1").state is HostState.UP
    confirm(db, ADMIN, "compute-1")
    assert told(db) == {}
    second.report()
    assert first.refused() == "host-is-another-machine"


def test_a_reboot_is_no_other_machine_and_a_crashed_agents_successor_is_never_locked_out(db: Database) -> None:
    one = machine(db)
    for _ in range(5):
        one.restart()
        one.report()
        one.reboot()
        one.report()
    assert told(db) == {}


def test_a_copy_of_the_machine_is_found_out_when_both_speak_and_freezes_the_host(db: Database) -> None:
    make_profile(db)
    one = machine(db)
    other = copy_of(one)
    other.report()  # looks like a reboot
    assert told(db) == {}
    assert one.refused() == "machine-cloned"
    assert get_host(db, "compute-1").state is HostState.FROZEN
    assert one.boot in told(db)["machine-cloned"]
    assert isinstance(lend(db), NoCapacity)
    one.restart()
    assert one.refused() == "machine-cloned"
    confirm(db, ADMIN, "compute-1")
    one.report()  # the copy was switched off
    assert get_host(db, "compute-1").state is HostState.UP
    assert lend(db) is None


def test_once_a_person_has_spoken_the_agent_that_was_refused_goes_on_without_being_started_anew(db: Database) -> None:
    one = machine(db)
    copy_of(one).report()
    assert one.refused() == "machine-cloned"
    confirm(db, ADMIN, "compute-1")
    one.report()
    one.obey()
    assert get_host(db, "compute-1").state is HostState.UP


def test_while_a_copy_speaks_no_unit_is_believed_to_be_gone(db: Database) -> None:
    """Which of the two has the guest is not known; one that has not would say "absent"."""
    make_profile(db)
    one = machine(db)
    lease = create_lease(db, ALICE, profile_name="vgpu")
    one.obey()
    release_lease(db, ALICE, lease.uuid)
    other = copy_of(one)
    other.report()
    one.refused()
    other.obey()
    assert capacity_of(db).used == 1
    confirm(db, ADMIN, "compute-1")
    other.report()
    other.obey()
    assert capacity_of(db).used == 0


def test_a_second_agent_for_one_host_is_said_at_the_host(db: Database) -> None:
    first = machine(db)
    second = machine(db)
    assert second.start != first.start
    assert first.refused() == "agent-fenced"
    assert first.start in told(db)["agent-fenced"]
    with db.write() as connection:
        connection.execute(update(hosts).values(warnings=(("agent-fenced", "x", "2020-01-01T00:00:00+00:00"),)))
    assert told(db) == {}  # long ago


def test_a_refusal_is_written_once_a_minute_however_often_it_is_refused(db: Database) -> None:
    first, _ = machine(db), machine(db)
    first.refused()
    with db.statements() as sent:
        first.refused()
    assert [one for one in sent if not one.startswith("SELECT")] == []


def test_an_agent_that_says_nothing_of_its_machine_is_served_as_before(db: Database) -> None:
    one = machine(db)
    plain = Host(db, "compute-1", one.devices)
    plain.report()
    one.restart()
    one.report()
    assert told(db) == {}


# -- a server that is behind -------------------------------------------------------------------------------------------


def test_a_host_that_is_ahead_of_a_restored_database_is_frozen_until_a_person_confirms(db: Database) -> None:
    one = restored(db)
    assert one.report().generation < one.followed
    host = get_host(db, "compute-1")
    assert host.state is HostState.FROZEN
    assert "cantle host confirm compute-1" in (host.frozen_reason or "")
    assert "host-frozen" in told(db)
    assert isinstance(lend(db), NoCapacity)
    assert current_work(db, "compute-1").confirmed == 0
    confirm(db, ADMIN, "compute-1")
    work = current_work(db, "compute-1")
    assert (work.confirmed, work.generation > one.followed) == (one.followed, True)
    one.report()
    assert get_host(db, "compute-1").state is HostState.UP
    assert lend(db) is None


def test_a_waiting_agent_that_is_ahead_freezes_its_host_before_it_reports(db: Database) -> None:
    one = restored(db)
    wait_work(db, "compute-1", one.followed, 0)
    assert get_host(db, "compute-1").state is HostState.FROZEN


def test_a_confirmed_host_stays_confirmed_over_restarts(db: Database) -> None:
    one = restored(db)
    one.report()
    confirm(db, ADMIN, "compute-1")
    one.restart()
    one.report()
    assert get_host(db, "compute-1").state is HostState.UP
