"""The end of a lease's time: announced before, then done as the lease says."""

from __future__ import annotations

import datetime as dt
from functools import partial

import pytest
from tests.unit.engine.cloud import ALICE, BOB, Host
from tests.unit.engine.lending import SOON, actions, lending_host, over, says

from cantle.engine.audit import list_records
from cantle.engine.expiry import expire, warn
from cantle.engine.lease import create_lease, get_lease, list_leases, release_lease
from cantle.engine.renewal import renew_lease
from cantle.engine.work import current_work
from cantle.errors import Conflict, NotFound
from cantle.keeper import expiry
from cantle.model.attachment import Attachment
from cantle.model.lease import LeaseState, OnExpiry
from cantle.store import lease as store
from cantle.store.database import Database
from cantle.wire.work import Cleaning, Guest, Outcome


@pytest.fixture
def host(db: Database) -> Host:
    """With slices and a whole card."""
    return lending_host(db)


@pytest.mark.parametrize("then", [OnExpiry.NOTIFY, OnExpiry.DETACH])
def test_a_lease_is_announced_once_and_ends_once_as_it_says(db: Database, host: Host, then: OnExpiry) -> None:
    ends = dt.datetime.now(dt.UTC) + SOON
    lease = create_lease(db, ALICE, profile_name="slice", expires_at=ends, on_expiry=then)
    host.obey()
    assert expiry.sweep(db) == 0
    assert expiry.sweep(db) == 0
    assert actions(db, lease_uuid=lease.uuid)[-1] == "lease.expiring"
    over(db, lease.uuid)
    assert expiry.sweep(db) == 1
    assert expiry.sweep(db) == 0
    found = get_lease(db, ALICE, lease.uuid)
    assert found.expired_at is not None
    assert found.state is (LeaseState.ACTIVE if then is OnExpiry.NOTIFY else LeaseState.RELEASING)
    told = actions(db, lease_uuid=lease.uuid)
    assert told.count("lease.expiring") == told.count("lease.expired") == 1
    assert ("lease.release" in told) is (then is OnExpiry.DETACH)


def test_a_lease_that_is_to_end_later_than_the_warning_is_not_announced_yet(db: Database, host: Host) -> None:
    lease = create_lease(db, ALICE, profile_name="slice", expires_at=dt.datetime.now(dt.UTC) + 10 * SOON)
    expiry.sweep(db)
    assert actions(db, lease_uuid=lease.uuid) == ["lease.create"]
    expiry.sweep(db, warning=3600)
    assert actions(db, lease_uuid=lease.uuid) == ["lease.create", "lease.expiring"]


def test_none_ends_without_having_been_announced_even_if_no_keeper_ran_for_long(db: Database, host: Host) -> None:
    lease = create_lease(db, ALICE, profile_name="slice", expires_at=dt.datetime.now(dt.UTC) + SOON)
    over(db, lease.uuid)
    assert expiry.sweep(db) == 1
    assert actions(db, lease_uuid=lease.uuid) == ["lease.create", "lease.expiring", "lease.expired", "lease.release"]


def test_two_keepers_announce_and_end_a_lease_once_and_none_that_was_renewed_meanwhile(
    db: Database, host: Host
) -> None:
    """Both have found it; the second comes to it after the first, or after its owner."""
    ends = dt.datetime.now(dt.UTC) + SOON
    lease = create_lease(db, ALICE, profile_name="slice", expires_at=ends, on_expiry=OnExpiry.NOTIFY)
    over(db, lease.uuid)
    assert not db.run(partial(expire, uuid=lease.uuid)), "which was not announced"
    assert [db.run(partial(warn, uuid=lease.uuid)) for _ in range(2)] == [True, False]
    with db.write() as connection:
        found = store.row_by_uuid(connection, lease.uuid)
        assert found is not None
    assert [db.run(partial(expire, uuid=lease.uuid)) for _ in range(2)] == [True, False]
    renew_lease(db, ALICE, lease.uuid, ends)
    with db.write() as connection:
        assert not store.warned(connection, found)
    assert db.run(partial(warn, uuid=lease.uuid))
    over(db, lease.uuid)
    with db.write() as connection:
        assert not store.mark_expired(connection, found)
    assert actions(db, lease.uuid).count("lease.expired") == 1


def test_a_renewed_lease_is_announced_anew_and_one_that_was_given_back_is_not_renewed(db: Database, host: Host) -> None:
    lease = create_lease(
        db, ALICE, profile_name="slice", expires_at=dt.datetime.now(dt.UTC) + SOON, on_expiry=OnExpiry.NOTIFY
    )
    over(db, lease.uuid)
    expiry.sweep(db)
    renewed = renew_lease(db, ALICE, lease.uuid, dt.datetime.now(dt.UTC) + SOON, OnExpiry.DETACH)
    assert (renewed.expired_at, renewed.on_expiry) == (None, OnExpiry.DETACH)
    expiry.sweep(db)
    assert actions(db, lease_uuid=lease.uuid).count("lease.expiring") == 2
    assert renew_lease(db, ALICE, lease.uuid, None).expires_at is None
    with pytest.raises(NotFound, match=lease.uuid):
        renew_lease(db, BOB, lease.uuid, None)
    release_lease(db, ALICE, lease.uuid)
    with pytest.raises(Conflict, match="given back"):
        renew_lease(db, ALICE, lease.uuid, None)


def test_a_guest_is_not_stopped_for_a_lease_that_cantle_attached_to_none(db: Database, host: Host) -> None:
    ends = dt.datetime.now(dt.UTC) + SOON
    with pytest.raises(Conflict) as refused:
        create_lease(db, ALICE, profile_name="slice", expires_at=ends, on_expiry=OnExpiry.STOP_GUEST)
    assert refused.value.code == "no-attachment"
    assert list_leases(db, ALICE) == []


def test_no_container_is_stopped_that_anybody_may_have_started(db: Database, host: Host) -> None:
    ends, cdi = dt.datetime.now(dt.UTC) + SOON, Attachment.parse("cdi:train")
    with pytest.raises(Conflict) as refused:
        create_lease(db, ALICE, profile_name="slice", expires_at=ends, on_expiry=OnExpiry.STOP_GUEST, attachment=cdi)
    assert refused.value.code == "guest-not-stopped"
    lease = create_lease(db, ALICE, profile_name="slice", attachment=cdi)
    with pytest.raises(Conflict) as refused:
        renew_lease(db, ALICE, lease.uuid, ends, OnExpiry.STOP_GUEST)
    assert refused.value.code == "guest-not-stopped"


def test_at_its_end_a_lease_has_its_guest_stopped_if_it_says_so_and_stays_releasing_until_that_is_done(
    db: Database, host: Host
) -> None:
    vm, ends = Attachment.parse("libvirt:vm1"), dt.datetime.now(dt.UTC) + SOON
    lease = create_lease(db, ALICE, profile_name="slice", expires_at=ends, on_expiry=OnExpiry.STOP_GUEST, attachment=vm)
    assert [one.guest for one in current_work(db, "compute-1").wanted] == [Guest("libvirt", "vm1", lease.uuid)]
    over(db, lease.uuid)
    expiry.sweep(db)
    assert [one.guest for one in current_work(db, "compute-1").unwanted] == [Guest("libvirt", "vm1", lease.uuid, True)]
    says(db, host, Outcome.FAILED, "guest-stopping")
    assert get_lease(db, ALICE, lease.uuid).state is LeaseState.RELEASING
    (kept,) = list_records(db, lease_uuid=lease.uuid, action="unit.not-back")
    assert kept.facts["code"] == "guest-stopping"
    says(db, host, Outcome.ABSENT, cleaning=Cleaning("removed", "libvirt:vm1 was ended by force"))
    assert get_lease(db, ALICE, lease.uuid).state is LeaseState.RELEASED
    (back,) = list_records(db, lease_uuid=lease.uuid, action="unit.returned")
    assert back.facts["done"] == "libvirt:vm1 was ended by force"


def test_whoever_gives_a_lease_back_before_its_end_has_no_guest_stopped(db: Database, host: Host) -> None:
    vm, ends = Attachment.parse("libvirt:vm1"), dt.datetime.now(dt.UTC) + SOON
    lease = create_lease(db, ALICE, profile_name="slice", expires_at=ends, on_expiry=OnExpiry.STOP_GUEST, attachment=vm)
    release_lease(db, ALICE, lease.uuid)
    assert [one.guest for one in current_work(db, "compute-1").unwanted] == [Guest("libvirt", "vm1", lease.uuid)]
