"""Units on their way back: held, cleaned, quarantined, returned, or taken for free by force."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.databases import KINDS, database
from tests.unit.engine.cloud import ADMIN, ALICE, BOB, Host, make_profile, t4, whole
from tests.unit.engine.lending import PROJECT, actions, lending_host, says

from cantle.engine.audit import list_records
from cantle.engine.event import list_events
from cantle.engine.force import force_release
from cantle.engine.lease import create_lease, get_lease, release_lease
from cantle.engine.tally import count
from cantle.engine.work import current_work
from cantle.errors import BadRequest, CantleError, Conflict, NotFound
from cantle.model.event import Outlets
from cantle.model.lease import LeaseState
from cantle.store.database import Database, host_topic, lease_topic
from cantle.wire.work import Cleaning, Outcome


@pytest.fixture
def host(db: Database) -> Host:
    """With slices and a whole card."""
    return lending_host(db)


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


def test_a_host_that_tries_to_clean_a_card_again_and_again_is_in_the_log_and_the_webhooks_once(
    db: Database, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was cleaning, quarantined, cleaning, quarantined, once a minute for ever; and in between nobody read why."""
    monkeypatch.setattr(db, "outlets", Outlets(webhook=True))
    lease = create_lease(db, ALICE, profile_name="card")
    host.obey()
    release_lease(db, ALICE, lease.uuid)
    for _ in range(3):
        says(db, host, Outcome.CLEANING)
        says(db, host, Outcome.QUARANTINED, "reset-failed")
        says(db, host, Outcome.CLEANING)
        found = get_lease(db, ALICE, lease.uuid)
        assert (found.state, found.reasons) == (LeaseState.QUARANTINED, ("reset-failed",))
    assert actions(db, lease.uuid)[-3:] == ["lease.release", "unit.cleaning", "unit.quarantined"]
    told = [one.type for one in list_events(db, about=lease.uuid)]
    assert (told.count("lease.cleaning"), told.count("lease.quarantined")) == (1, 1)
    says(db, host, Outcome.ABSENT)
    assert get_lease(db, ALICE, lease.uuid).state is LeaseState.RELEASED


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


def test_a_stranger_s_lease_is_not_there_to_be_forced(db: Database, host: Host) -> None:
    """Whom the operator's policy lets force leases has his own project's."""
    lease = create_lease(db, ALICE, profile_name="card")
    with pytest.raises(NotFound):
        force_release(db, BOB, lease.uuid, "I want it")
    assert get_lease(db, ALICE, lease.uuid).state is LeaseState.PENDING


def test_whoever_waits_for_a_lease_its_host_and_webhooks_hear_that_it_was_released_and_forced(
    db: Database, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(db, "outlets", Outlets(webhook=True))
    lease = create_lease(db, ALICE, profile_name="card")
    with db.wakeups.waiter(lease_topic(lease.uuid)) as waiter, db.wakeups.waiter(host_topic(host.name)) as agent:
        release_lease(db, ALICE, lease.uuid)
        assert (waiter.wait(30), agent.wait(30)) == (True, True)
        force_release(db, ADMIN, lease.uuid, "host scrapped")
        assert (waiter.wait(30), agent.wait(30)) == (True, True)
    assert [one.type for one in list_events(db, about=lease.uuid)][-1] == "lease.released"


def test_the_log_says_in_which_request_a_unit_was_asked_for_and_given_back_and_cuts_long_words(
    db: Database, host: Host
) -> None:
    lease = create_lease(db, replace(ALICE, request_id="req-asked"), profile_name="card")
    host.obey()
    release_lease(db, replace(ALICE, request_id="req-back"), lease.uuid)
    says(db, host, Outcome.FAILED, "held", message="x" * 3000)
    says(db, host, Outcome.ABSENT)
    found = {one.action: one for one in list_records(db, lease_uuid=lease.uuid)}
    assert (found["unit.lent"].request_id, found["unit.returned"].request_id) == ("req-asked", "req-back")
    assert found["unit.not-back"].facts == {"code": "held", "reason": "x" * 1000}
