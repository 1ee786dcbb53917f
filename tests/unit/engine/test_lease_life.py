"""A lease's life: its end is announced and done as it says, its units come back, its project has no more than it may, and all of it is
in the log."""

from __future__ import annotations

import datetime as dt
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import Connection, update
from tests.databases import KINDS, database
from tests.unit.engine.cloud import ADMIN, ALICE, BOB, NOVA_FOR_ALICE, Host, bound, make_profile, t4, whole

from cantle.engine.arq import delete_arqs_of_instance
from cantle.engine.audit import list_records, record
from cantle.engine.follow import Follower
from cantle.engine.force import force_release
from cantle.engine.lease import create_lease, get_lease, list_leases, release_lease
from cantle.engine.quota import list_quotas, marker, set_quota
from cantle.engine.renewal import renew_lease
from cantle.engine.results import accept_results
from cantle.engine.tally import count
from cantle.engine.usage import measure
from cantle.engine.who import find
from cantle.engine.work import current_work
from cantle.errors import BadRequest, CantleError, Conflict, NotFound
from cantle.keeper import expiry, housekeeping
from cantle.model.attachment import Attachment
from cantle.model.audit import Thing
from cantle.model.lease import LeaseState, OnExpiry
from cantle.model.page import Page
from cantle.model.quota import DEFAULT, Quota
from cantle.store.audit_table import audit_records
from cantle.store.database import Database
from cantle.store.tables import claims, leases
from cantle.store.types import database_now
from cantle.wire.work import Cleaning, Guest, HandleResult, Outcome, Results

SOON = dt.timedelta(minutes=5)
PROJECT = "alice-project"


@pytest.fixture
def host(db: Database) -> Host:
    """A host with four vGPUs and a whole card, and a profile for each."""
    one = Host(db)
    one.report(t4(4), whole())
    make_profile(db, "slice")
    make_profile(db, "pairs", [{"resources:VGPU": "2"}, {"resources:VGPU": "2"}])
    make_profile(db, "card", [{"resources:PGPU": "1"}])
    return one


def over(db: Database, uuid: str) -> None:
    """Its time is over now."""
    with db.write() as connection:
        connection.execute(update(leases).where(leases.c.uuid == uuid).values(expires_at=database_now(-1)))


def nova_host(db: Database) -> Host:
    """A host that offers nothing but slices."""
    other = Host(db, "compute-2")
    other.report(t4(2, host="compute-2"))
    return other


def actions(db: Database, lease_uuid: str | None = None) -> list[str]:
    return [one.action for one in list_records(db, lease_uuid=lease_uuid)]


def says(db: Database, host: Host, outcome: Outcome, code: str | None = None, cleaning: Cleaning | None = None) -> None:
    """The host says of all units that it takes back how far it is."""
    work = current_work(db, host.name)
    results = tuple(HandleResult(one.uuid, outcome, code, code, cleaning) for one in work.unwanted)
    accept_results(db, host.name, Results(host.start, work.generation, results))


# Ends.


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


# Giving back.


def test_what_was_done_to_a_unit_is_in_the_log_and_a_second_tenant_gets_it_then(db: Database, host: Host) -> None:
    first = create_lease(db, ALICE, profile_name="card")
    host.obey()
    release_lease(db, ALICE, first.uuid)
    says(db, host, Outcome.CLEANING)
    assert get_lease(db, ALICE, first.uuid).state is LeaseState.CLEANING
    with pytest.raises(CantleError, match="card"):
        create_lease(db, BOB, profile_name="card")
    says(db, host, Outcome.ABSENT, cleaning=Cleaning("flr", "0000:3b:00.0 was reset (flr) and read back"))
    assert get_lease(db, ALICE, first.uuid).state is LeaseState.RELEASED
    second = create_lease(db, BOB, profile_name="card")
    (back,) = list_records(db, lease_uuid=first.uuid, action="unit.returned")
    assert back.facts == {"cleaning": "flr", "done": "0000:3b:00.0 was reset (flr) and read back"}
    assert (back.user_id, back.owner_id, back.device) == ("alice", PROJECT, "0000:3b:00.0")
    assert get_lease(db, BOB, second.uuid).state is LeaseState.PENDING


def test_a_forced_unit_has_another_uuid_when_it_is_lent_again(db: Database, host: Host) -> None:
    """So the old one in the host's hands is never taken for it."""
    lease = create_lease(db, ALICE, profile_name="card")
    (old,) = current_work(db, host.name).wanted
    host.obey()
    with pytest.raises(Conflict) as refused:
        force_release(db, ADMIN, lease.uuid)
    assert refused.value.code == "units-may-be-held"
    assert force_release(db, ADMIN, lease.uuid, "host scrapped").state is LeaseState.RELEASED
    work = current_work(db, host.name)
    assert (work.wanted, work.unwanted) == ((), ())
    host.report(t4(4), whole())
    create_lease(db, BOB, profile_name="card")
    (new,) = current_work(db, host.name).wanted
    assert new.device == old.device
    assert new.uuid != old.uuid
    (said,) = list_records(db, action="unit.forced")
    assert said.facts["reason"] == "host scrapped"
    assert force_release(db, ADMIN, lease.uuid, "again").state is LeaseState.RELEASED, "again is no error"
    with pytest.raises(BadRequest):
        force_release(db, ADMIN, lease.uuid, " ")


@pytest.mark.parametrize("kind", KINDS)
def test_a_card_taken_for_free_by_force_is_counted_before_its_host_reports_it_and_when_it_never_does(
    kind: str, tmp_path: Path
) -> None:
    """It was nowhere: neither in the inventory nor missing."""
    with database(kind, tmp_path) as db:
        one = Host(db)
        one.report(t4(4), whole())
        make_profile(db, "card", [{"resources:PGPU": "1"}])
        lease = create_lease(db, ALICE, profile_name="card")

        def where() -> tuple[int, int, int]:
            (card,) = [tally for tally in count(db) if tally.resource_class == "PGPU"]
            return card.inventory, card.withheld, card.missing

        force_release(db, ADMIN, lease.uuid, "host scrapped")
        assert where() == (1, 1, 0)
        one.report(t4(4))
        assert where() == (1, 0, 1)
        one.report(t4(4), whole())
        assert where() == (1, 0, 0)
        assert [tally.hostname for tally in count(db, one.name)] == [one.name] * 2


# Quotas.


def test_two_groups_of_two_are_refused_at_a_limit_of_three_before_anything_is_touched(db: Database, host: Host) -> None:
    set_quota(db, ADMIN, PROJECT, "VGPU", 3)
    before = current_work(db, host.name)
    with pytest.raises(Conflict, match="VGPU: limit 3, in use 0, asked for 4") as refused:
        create_lease(db, ALICE, profile_name="pairs")
    assert refused.value.code == "quota-exceeded"
    assert current_work(db, host.name) == before
    assert list_leases(db, ALICE) == []
    assert {one.resource_class: one.lendable for one in count(db)} == {"PGPU": 1, "VGPU": 4}
    assert actions(db)[-1] == "quota.set"
    create_lease(db, BOB, profile_name="pairs")


def test_a_request_of_three_is_refused_at_a_limit_of_two_and_what_is_being_taken_back_counts(
    db: Database, host: Host
) -> None:
    set_quota(db, ADMIN, PROJECT, "VGPU", 2)
    with pytest.raises(Conflict, match="limit 2, in use 0, asked for 3"):
        create_lease(db, ALICE, profile_name="slice", count=3)
    lease = create_lease(db, ALICE, profile_name="slice", count=2)
    host.obey()
    release_lease(db, ALICE, lease.uuid)
    says(db, host, Outcome.FAILED, "device-held")
    with pytest.raises(Conflict, match="in use 2"):
        create_lease(db, ALICE, profile_name="slice")
    says(db, host, Outcome.ABSENT)
    create_lease(db, ALICE, profile_name="slice", count=2)
    assert list_quotas(db, ALICE) == [Quota(PROJECT, "VGPU", 2, 2)]
    assert set_quota(db, ADMIN, PROJECT, "VGPU", None).limit is None
    create_lease(db, ALICE, profile_name="slice")


def test_quotas_of_others_are_for_administrators(db: Database, host: Host) -> None:
    set_quota(db, ADMIN, PROJECT, "VGPU", 2)
    assert list_quotas(db, BOB) == []
    with pytest.raises(NotFound):
        list_quotas(db, BOB, PROJECT)
    for project, name, limit in ((PROJECT, "vgpu", 1), ("", "VGPU", 1), (PROJECT, "VGPU", -1)):
        with pytest.raises(BadRequest):
            set_quota(db, ADMIN, project, name, limit)


def test_a_project_without_a_limit_of_its_own_has_the_default(db: Database, host: Host) -> None:
    set_quota(db, ADMIN, DEFAULT, "VGPU", 1)
    with pytest.raises(Conflict, match="VGPU: default limit 1, in use 0, asked for 2"):
        create_lease(db, ALICE, profile_name="slice", count=2)
    create_lease(db, ALICE, profile_name="slice")
    assert list_quotas(db, ALICE) == [Quota(PROJECT, "VGPU", 1, 1, inherited=True)]
    set_quota(db, ADMIN, PROJECT, "VGPU", 3)
    create_lease(db, ALICE, profile_name="slice", count=2)
    assert list_quotas(db, ALICE) == [Quota(PROJECT, "VGPU", 3, 3)]
    create_lease(db, BOB, profile_name="slice")
    assert [one.used for one in list_quotas(db, BOB)] == [1]
    assert set_quota(db, ADMIN, PROJECT, "VGPU", None) == Quota(PROJECT, "VGPU", 1, 3, inherited=True)
    assert set_quota(db, ADMIN, DEFAULT, "VGPU", None) == Quota(DEFAULT, "VGPU", None, 0)
    assert [(one.limit, one.inherited) for one in list_quotas(db, ADMIN)] == [(None, False)] * 2


@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_quotas_page_by_page_are_the_whole_list_even_if_what_was_seen_last_has_gone(
    db: Database, host: Host, direction: str
) -> None:
    for project in ("a", "b/c", DEFAULT):
        for name in ("VGPU", "PGPU"):
            set_quota(db, ADMIN, project, name, 1)
    every = list_quotas(db, ADMIN, page=Page(sort_key="project_id", sort_dir=direction))
    assert len(every) == 6
    found: list[Quota] = []
    while True:
        last = marker(found[-1]) if found else None
        found += (
            one := list_quotas(db, ADMIN, page=Page(limit=1, marker=last, sort_key="project_id", sort_dir=direction))
        )
        if not one:
            break
        set_quota(db, ADMIN, one[0].project_id, one[0].resource_class, None)
    assert [marker(one) for one in found] == [marker(one) for one in every]
    for page, code in (
        (Page(sort_key="used"), "bad-sort-key"),
        (Page(sort_key="project_id", marker="a"), "marker-not-found"),
    ):
        with pytest.raises(BadRequest) as refused:
            list_quotas(db, ADMIN, page=page)
        assert refused.value.code == code


@pytest.mark.parametrize("project", [PROJECT, DEFAULT])
@pytest.mark.parametrize("kind", KINDS)
def test_two_racing_requests_for_the_last_unit_of_a_quota_one_wins(kind: str, project: str, tmp_path: Path) -> None:
    """On hosts of their own, so that nothing but the quota keeps them apart."""
    with database(kind, tmp_path) as db:
        for name in ("compute-1", "compute-2"):
            Host(db, name).report(t4(8, host=name))
        make_profile(db, "slice")
        for limit in range(1, 6):
            set_quota(db, ADMIN, project, "VGPU", limit)
            gate = threading.Barrier(2)

            def ask(name: str, gate: threading.Barrier = gate) -> str:
                gate.wait(30)
                try:
                    create_lease(db, ALICE, profile_name="slice", hostname=name)
                except Conflict as refused:
                    return refused.code
                return "lent"

            with ThreadPoolExecutor(2) as pool:
                assert sorted(pool.map(ask, ("compute-1", "compute-2"))) == ["lent", "quota-exceeded"]


# The log.


def test_a_bind_of_nova_s_is_in_the_log_with_who_asked_for_it_and_who_gave_it_back(db: Database, host: Host) -> None:
    other = nova_host(db)
    (arq,) = bound(db, other, NOVA_FOR_ALICE, "slice")
    (lent,) = list_records(db, arq_uuid=arq.uuid, action="unit.lent")
    assert (lent.user_id, lent.owner_id, lent.instance_uuid) == ("alice", PROJECT, arq.instance_uuid)
    assert (lent.hostname, lent.device, lent.unit_uuid) == ("compute-2", "0000:af:00.0", arq.attach_handle_uuid)
    delete_arqs_of_instance(db, NOVA_FOR_ALICE, str(arq.instance_uuid))
    other.obey()
    (back,) = list_records(db, unit_uuid=str(arq.attach_handle_uuid), action="unit.returned")
    assert (back.user_id, back.owner_id) == ("alice", PROJECT)
    assert back.since is not None


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


def test_one_who_waits_is_woken(db: Database) -> None:
    follower = Follower(db)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(follower.wait, 30)
        with db.write() as connection:
            record(connection, ADMIN, "now", Thing())
        assert [one.action for one in waiting.result(30)] == ["now"]


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


# Who has what, and for how long.


def test_who_answers_in_both_directions_with_few_statements(db: Database, host: Host) -> None:
    lease = create_lease(db, ALICE, profile_name="slice", workload="my-container")
    host.obey()
    (unit,) = current_work(db, host.name).wanted
    (arq,) = bound(db, nova_host(db), NOVA_FOR_ALICE, "slice")
    questions = {
        "0000:af:00.0": 2,
        unit.uuid: 1,
        unit.uuid.upper(): 1,
        str(arq.instance_uuid): 1,
        arq.uuid: 1,
        "my-container": 1,
        lease.uuid: 1,
        "nobody": 0,
    }
    for question, holdings in questions.items():
        with db.statements() as sent:
            answer = find(db, ALICE, question)
        assert len(answer.now) == holdings, question
        assert len(sent) <= 5
    (one,) = find(db, ALICE, "my-container").now
    assert (one.device, one.unit_uuid, one.by, one.state) == ("0000:af:00.0", unit.uuid, "alice", "lent")
    into = create_lease(db, ALICE, profile_name="slice", attachment=Attachment.parse("lxc:c1"))
    for question in ("c1", "lxc:c1"):
        with db.statements() as sent:
            (held,) = find(db, ALICE, question).now
        assert (held.lease_uuid, held.guest, len(sent)) == (into.uuid, "lxc:c1", 2)
    assert find(db, ALICE, "libvirt:c1").now == ()
    assert find(db, BOB, "0000:af:00.0").now == ()
    release_lease(db, ALICE, lease.uuid)
    says(db, host, Outcome.FAILED, "device-held")
    (one,) = find(db, ALICE, "my-container").now
    assert (one.state, one.reason) == ("releasing", "device-held")
    says(db, host, Outcome.ABSENT)
    answer = find(db, ADMIN, unit.uuid)
    assert answer.now == ()
    assert [past.action for past in answer.past] == ["unit.returned", "unit.not-back", "unit.lent"]


def test_usage_is_unit_hours_from_the_claim_to_the_return(db: Database, host: Host) -> None:
    lease = create_lease(db, ALICE, profile_name="slice", count=2)
    host.obey()
    now = dt.datetime.now(dt.UTC)
    with db.write() as connection:
        connection.execute(update(claims).values(lent_at=now - dt.timedelta(hours=3)))
    hour = dt.timedelta(hours=1)
    (running,) = measure(db, ALICE, now - 2 * hour, now - hour)
    assert (running.project_id, running.resource_class, running.hours, running.loans) == (PROJECT, "VGPU", 2.0, 2)
    release_lease(db, ALICE, lease.uuid)
    host.obey()
    (ended,) = measure(db, ADMIN, now - 4 * hour, now)
    assert ended.hours == pytest.approx(6.0, abs=0.01)
    assert measure(db, ALICE, now + hour, now + 2 * hour) == []
    assert measure(db, BOB, now - 4 * hour, now) == []
    with pytest.raises(NotFound):
        measure(db, BOB, now - hour, now, PROJECT)
    with pytest.raises(BadRequest):
        measure(db, ALICE, now, now)


def test_a_device_that_goes_missing_and_comes_back_is_in_the_log(db: Database, host: Host) -> None:
    host.report(t4(4))
    host.report(t4(4))
    host.report(t4(4), whole())
    turns = list_records(db, action="device.health", device="0000:3b:00.0")
    assert [(one.user_id, one.hostname, one.facts["was"], one.facts["health"]) for one in turns] == [
        ("host:compute-1", "compute-1", "ok", "missing"),
        ("host:compute-1", "compute-1", "missing", "ok"),
    ]
