"""The log of who did what, and those who follow it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import Connection, update
from tests.databases import KINDS, database
from tests.unit.engine.cloud import ADMIN, ALICE, NOVA_FOR_ALICE, Host, bound, t4, whole
from tests.unit.engine.lending import PROJECT, actions, lending_host, slices_host

from cantle.engine import follow
from cantle.engine.arq import delete_arqs_of_instance
from cantle.engine.audit import list_records, record
from cantle.engine.follow import Follower
from cantle.engine.lease import create_lease, release_lease
from cantle.keeper import housekeeping
from cantle.model.audit import Thing
from cantle.store.audit_table import audit_records
from cantle.store.database import Database
from cantle.store.types import database_now
from cantle.store.wakeups import AUDIT_TOPIC


@pytest.fixture
def host(db: Database) -> Host:
    """With slices and a whole card."""
    return lending_host(db)


def test_a_bind_of_nova_s_is_in_the_log_with_who_asked_for_it_and_who_gave_it_back(db: Database, host: Host) -> None:
    other = slices_host(db)
    (arq,) = bound(db, other, NOVA_FOR_ALICE, "slice")
    (lent,) = list_records(db, arq_uuid=arq.uuid, action="unit.lent")
    assert (lent.user_id, lent.owner_id, lent.instance_uuid) == ("alice", PROJECT, arq.instance_uuid)
    assert (lent.hostname, lent.device, lent.unit_uuid) == ("compute-2", "0000:af:00.0", arq.attach_handle_uuid)
    delete_arqs_of_instance(db, NOVA_FOR_ALICE, str(arq.instance_uuid))
    other.obey()
    (back,) = list_records(db, unit_uuid=str(arq.attach_handle_uuid), action="unit.returned")
    assert (back.user_id, back.owner_id) == ("alice", PROJECT)
    assert back.since is not None


def test_a_unit_that_its_host_failed_and_took_back_was_given_back_by_its_host(db: Database, host: Host) -> None:
    """Who lets go of the failed lease later does not give that unit back."""
    lease = create_lease(db, ALICE, profile_name="slice")
    host.refusing["*"] = "mdev-refused"
    host.obey()
    host.refusing.clear()
    release_lease(db, ALICE, lease.uuid)
    host.obey()
    (back,) = list_records(db, lease_uuid=lease.uuid, action="unit.returned")
    assert back.user_id == "host:compute-1"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "sqlite"])
def test_whoever_follows_gets_what_a_slower_transaction_wrote_before(kind: str, tmp_path: Path) -> None:
    """Numbers are given at the write and seen at the commit; SQLite has one writer at a time."""
    with database(kind, tmp_path) as db:
        follower = Follower(db)
        with db.write() as slow:
            record(slow, ADMIN, "first", Thing())
            with db.write() as quick:
                record(quick, ADMIN, "second", Thing())
            assert [one.action for one in follower.look()] == ["second"]
        assert [one.action for one in follower.look()] == ["first"]
        assert follower.look() == []


def test_whoever_comes_back_gets_all_he_missed(db: Database) -> None:
    follower = Follower(db)
    for action in ("a", "b", "c"):
        with db.write() as connection:
            record(connection, ADMIN, action, Thing())
    seen = follower.wait(5)
    assert [one.action for one in seen] == ["a", "b", "c"]
    assert [one.action for one in Follower(db, seen[1].uuid).look()][-1] == "c"
    assert Follower(db).look() == []
    assert {one.action for one in Follower(db, "11111111-2222-4333-8444-555555555555").look()} == {"a", "b", "c"}


@pytest.mark.parametrize("at_once", [1, 500])
def test_whoever_was_away_for_long_gets_what_a_slower_transaction_wrote_before_his_last_record(
    db: Database, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """It was committed after he had gone, and is older than a minute by now; he never heard of it."""
    monkeypatch.setattr(follow, "AT_ONCE", at_once)
    with db.write() as connection:
        for action in ("slow", "slower", "seen", "missed"):
            record(connection, ADMIN, action, Thing())
        connection.execute(update(audit_records).values(created_at=database_now(-300.0)))
    seen = next(one.uuid for one in list_records(db) if one.action == "seen")
    follower = Follower(db, seen)
    told = [one.action for _ in range(4) for one in follower.look()]
    assert told == ["slow", "slower", "missed"]


def test_one_who_waits_is_woken(db: Database) -> None:
    follower = Follower(db)
    with db.wakeups.waiter(AUDIT_TOPIC) as waiter, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(follower.wait, 30)
        with db.write() as connection:
            record(connection, ADMIN, "now", Thing())
        assert [one.action for one in waiting.result(30)] == ["now"]
        assert waiter.wait(30), "at once, not at the next look"


def test_the_log_loses_nothing_unless_told_to_and_then_says_so(db: Database) -> None:
    for action in ("old", "new"):
        with db.write() as connection:
            record(connection, ADMIN, action, Thing())
    with db.write() as connection:
        connection.execute(
            update(audit_records).where(audit_records.c.action == "old").values(created_at=database_now(-40 * 86400))
        )
    assert housekeeping.purge_audit(db, 0) == 0
    assert actions(db) == ["old", "new"]
    assert housekeeping.purge_audit(db, 30) == 1
    assert housekeeping.purge_audit(db, 30) == 0
    assert actions(db) == ["new", "audit.purge"]
    assert list_records(db)[-1].facts == {"records": "1", "older_than_days": "30"}


def test_a_change_that_fails_leaves_no_record(db: Database) -> None:
    def half(connection: Connection) -> None:
        record(connection, ADMIN, "never", Thing())
        raise KeyError

    with pytest.raises(KeyError):
        db.run(half)
    assert actions(db) == []


def test_a_device_that_goes_missing_and_comes_back_is_in_the_log(db: Database, host: Host) -> None:
    host.report(t4(4))
    host.report(t4(4))
    host.report(t4(4), whole())
    turns = list_records(db, action="device.health", device="0000:3b:00.0")
    assert [(one.user_id, one.hostname, one.facts["was"], one.facts["health"]) for one in turns] == [
        ("host:compute-1", "compute-1", "ok", "missing"),
        ("host:compute-1", "compute-1", "missing", "ok"),
    ]
