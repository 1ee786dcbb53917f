"""What nobody waits for: requests never bound, old events, hosts that fall silent."""

from __future__ import annotations

import datetime as dt
import logging
from uuid import uuid4

import pytest
from sqlalchemy import select, update
from tests.unit.engine.cloud import ALICE, NOVA_FOR_ALICE, capacity_of
from tests.unit.keeper.conftest import Cloud

from cantle.engine.arq import create_arqs, list_arqs
from cantle.engine.audit import list_records
from cantle.engine.bind import Unbind, unbind
from cantle.engine.capacity import list_capacity
from cantle.engine.device import list_devices
from cantle.engine.lease import create_lease, list_leases, release_lease
from cantle.errors import Conflict, NoCapacity
from cantle.keeper import housekeeping
from cantle.keeper.host_watch import HostWatch
from cantle.keeper.housekeeping import Ages
from cantle.model.event import Outlets
from cantle.model.identity import KEEPER
from cantle.store.tables import arqs, hosts, leases, outbox
from cantle.store.types import database_now


def a_day_passes(cloud: Cloud) -> None:
    """For requests."""
    with cloud.db.write() as connection:
        long_ago = dt.datetime.now(dt.UTC) - dt.timedelta(hours=25)
        connection.execute(update(arqs).values(created_at=long_ago, updated_at=None))


def test_requests_that_were_bound_to_nothing_for_a_day_are_deleted_and_no_others(
    cloud: Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    (initial,) = create_arqs(cloud.db, ALICE, "vgpu")
    kept = {cloud.bound().uuid, cloud.failed().uuid}
    unbound = cloud.bound()
    unbind(cloud.db, NOVA_FOR_ALICE, [Unbind(unbound.uuid)])
    lease = create_lease(cloud.db, ALICE, profile_name="vgpu")
    kept |= {arq.uuid for arq in lease.arqs} | {cloud.start().uuid}
    assert housekeeping.reap(cloud.db, 24) == 0, "all are young"
    a_day_passes(cloud)
    (young,) = create_arqs(cloud.db, ALICE, "vgpu")
    with caplog.at_level(logging.INFO):
        assert housekeeping.reap(cloud.db, 24) == 2
    assert {arq.uuid for arq in list_arqs(cloud.db, ALICE)} == kept | {young.uuid}
    reaped = list_records(cloud.db, action="arq.reap")
    assert {one.arq_uuid for one in reaped} == {initial.uuid, unbound.uuid}
    assert {(one.user_id, one.owner_id) for one in reaped} == {(KEEPER.user_id, ALICE.project_id)}
    assert housekeeping.reap(cloud.db, 24) == 0
    assert len(list_records(cloud.db, action="arq.reap")) == 2
    assert initial.uuid in caplog.text
    assert unbound.uuid in caplog.text


def test_the_unit_of_an_unbound_request_comes_back_though_the_request_was_reaped(cloud: Cloud) -> None:
    arq = cloud.bound()
    unbind(cloud.db, NOVA_FOR_ALICE, [Unbind(arq.uuid)])
    a_day_passes(cloud)
    assert housekeeping.reap(cloud.db, 24) == 1
    assert capacity_of(cloud.db).free == 7
    cloud.host.obey()
    assert capacity_of(cloud.db).free == 8


def test_with_zero_hours_none_is_deleted(cloud: Cloud) -> None:
    create_arqs(cloud.db, ALICE, "vgpu")
    a_day_passes(cloud)
    assert housekeeping.reap(cloud.db, 0) == 0


def test_more_than_fit_in_one_transaction_are_deleted_too(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(5):
        create_arqs(cloud.db, ALICE, "vgpu")
    a_day_passes(cloud)
    monkeypatch.setattr(housekeeping, "AT_ONCE", 2)
    assert housekeeping.reap(cloud.db, 24) == 5


def test_leases_are_deleted_some_months_after_their_release_once_all_units_are_back(
    cloud: Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    back, held, lent = (create_lease(cloud.db, ALICE, profile_name="vgpu").uuid for _ in range(3))
    cloud.host.obey()
    release_lease(cloud.db, ALICE, back)
    cloud.host.obey()
    release_lease(cloud.db, ALICE, held)  # its unit is still to be taken back
    assert housekeeping.sweep(cloud.db, Ages())["leases"] == 0, "all are young"
    with cloud.db.write() as connection:
        connection.execute(
            update(leases).where(leases.c.released_at.is_not(None)).values(released_at=database_now(-86400 * 91))
        )
    assert housekeeping.sweep(cloud.db, Ages(lease_days=0))["leases"] == 0
    with caplog.at_level(logging.INFO):
        assert housekeeping.sweep(cloud.db, Ages())["leases"] == 1
    assert {lease.uuid for lease in list_leases(cloud.db, ALICE, include_released=True)} == {held, lent}
    assert back in caplog.text
    (purged,) = list_records(cloud.db, action="lease.purge")
    assert (purged.lease_uuid, purged.user_id, purged.owner_id) == (back, KEEPER.user_id, ALICE.project_id)
    assert (purged.hostname, purged.facts) == ("compute-1", {"released_days": "90"})
    cloud.host.obey()
    assert housekeeping.sweep(cloud.db, Ages())["leases"] == 1
    assert [lease.uuid for lease in list_leases(cloud.db, ALICE, include_released=True)] == [lent]
    assert housekeeping.sweep(cloud.db, Ages())["leases"] == 0
    assert [one.lease_uuid for one in list_records(cloud.db, action="lease.purge")] == [back, held]


def test_events_are_deleted_some_days_after_their_end_and_never_before_it(cloud: Cloud) -> None:
    cloud.bound()
    cloud.to_nova().round()
    with cloud.db.write() as connection:
        connection.execute(update(outbox).values(created_at=database_now(-86400 * 30)))
    assert housekeeping.sweep(cloud.db, Ages())["events"] == 0
    with cloud.db.write() as connection:
        connection.execute(
            update(outbox).where(outbox.c.ended_at.is_not(None)).values(ended_at=database_now(-86400 * 8))
        )
    assert housekeeping.sweep(cloud.db, Ages())["events"] == 1
    with cloud.db.read() as connection:
        assert connection.execute(select(outbox.c.channel)).scalars().all() == ["webhook"], (
            "which was not delivered yet"
        )


def test_events_for_somebody_who_is_no_longer_told_are_deleted_when_they_are_old(cloud: Cloud) -> None:
    cloud.bound()
    cloud.db.outlets = Outlets(nova_waits=300.0)
    assert housekeeping.sweep(cloud.db, Ages())["events"] == 0
    with cloud.db.write() as connection:
        connection.execute(update(outbox).values(created_at=database_now(-86400 * 8)))
    assert housekeeping.sweep(cloud.db, Ages())["events"] == 1
    assert cloud.outcomes() == [None], "Nova still is"


def test_a_host_that_falls_silent_is_said_once_lent_nothing_and_loses_nothing(
    cloud: Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    watch = HostWatch()
    held = cloud.bound()
    assert watch.look(cloud.db) == []
    with cloud.db.write() as connection:
        connection.execute(update(hosts).values(last_seen=database_now(-181)))
    assert watch.look(cloud.db) == ["compute-1"]
    assert watch.look(cloud.db) == []
    assert "host compute-1 is down" in caplog.text
    (row,) = list_capacity(cloud.db)
    assert (row.in_service, row.free, row.used) == (False, 0, 1)
    with pytest.raises(NoCapacity, match=r"compute-1 .*on a host that is down"):
        create_lease(cloud.db, ALICE, profile_name="vgpu")
    with pytest.raises(Conflict, match="compute-1 is down"):
        cloud.start(str(uuid4()))
    assert len(list_devices(cloud.db)) == 1
    assert held.uuid in {arq.uuid for arq in list_arqs(cloud.db, ALICE)}
    with cloud.db.write() as connection:
        connection.execute(update(hosts).values(last_seen=database_now()))
    assert watch.look(cloud.db) == ["compute-1"]
    assert "host compute-1 is heard from again" in caplog.text
    assert capacity_of(cloud.db).free == 7


def test_a_keeper_that_has_just_started_tells_of_hosts_that_are_down(cloud: Cloud) -> None:
    with cloud.db.write() as connection:
        connection.execute(update(hosts).values(last_seen=None))
    assert HostWatch().look(cloud.db) == ["compute-1"]
