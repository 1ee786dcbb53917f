"""What a host says became of its units."""

from __future__ import annotations

from uuid import uuid4

import msgspec
import pytest
from tests.unit.engine.cloud import ADMIN, ALICE, NOVA_FOR_ALICE, Host, bound, capacity_of, make_profile, t4

from cantle.engine.arq import create_arqs, delete_arqs_of_instance, get_arq, list_arqs
from cantle.engine.bind import Bind, Unbind, bind, unbind
from cantle.engine.results import accept_results
from cantle.engine.work import current_work
from cantle.errors import NotFound
from cantle.model.arq import Arq, ArqState
from cantle.store.database import Database
from cantle.wire.work import HandleResult, Outcome, Results


@pytest.fixture
def host(db: Database) -> Host:
    """A host with two vGPUs, and a profile for them."""
    one = Host(db)
    one.report(t4(2))
    make_profile(db, "vgpu")
    return one


def started(db: Database) -> Arq:
    """A request that is being bound."""
    (arq,) = create_arqs(db, NOVA_FOR_ALICE, "vgpu")
    bind(db, NOVA_FOR_ALICE, [Bind(arq.uuid, "compute-1", capacity_of(db).rp_uuid, str(uuid4()))])
    return get_arq(db, ALICE, arq.uuid)


def test_a_unit_that_cannot_be_made_ready_fails_the_bind_with_the_reason_and_is_taken_back(
    db: Database, host: Host
) -> None:
    arq = started(db)
    host.refusing["*"] = "mdev-no-space"
    host.obey()
    failed = get_arq(db, ALICE, arq.uuid)
    assert failed.state is ArqState.BIND_FAILED
    assert failed.reason_code == "mdev-no-space"
    assert "mdev-no-space" in (failed.reason or "")
    assert failed.instance_uuid == arq.instance_uuid
    assert (failed.attach_handle_type, failed.attach_handle_uuid) == ("", None)
    work = current_work(db, "compute-1")
    assert (len(work.wanted), len(work.unwanted)) == (0, 1)
    host.refusing.clear()
    host.obey()
    assert capacity_of(db).free == 2
    unbind(db, NOVA_FOR_ALICE, [Unbind(arq.uuid)])
    bind(db, NOVA_FOR_ALICE, [Bind(arq.uuid, "compute-1", capacity_of(db).rp_uuid, str(uuid4()))])
    host.obey()
    again = get_arq(db, ALICE, arq.uuid)
    assert (again.state, again.reason_code, again.reason) == (ArqState.BOUND, None, None)


def test_a_bound_unit_that_fails_later_stays_lent_with_the_reason_until_it_is_ready_again(
    db: Database, host: Host
) -> None:
    """After a reboot, say: absence ends no lease (promise 4)."""
    (arq,) = bound(db, host)
    host.refusing["*"] = "mdev-parent-missing"
    host.obey()
    shaken = get_arq(db, ALICE, arq.uuid)
    assert (shaken.state, shaken.reason_code) == (ArqState.BOUND, "mdev-parent-missing")
    assert shaken.attach_handle_uuid == arq.attach_handle_uuid
    assert [one.uuid for one in current_work(db, "compute-1").wanted] == [arq.attach_handle_uuid]
    host.refusing.clear()
    host.obey()
    assert get_arq(db, ALICE, arq.uuid).reason_code is None


def test_what_is_said_of_a_unit_that_is_ready_is_shown_on_its_request_and_the_loan_stands(
    db: Database, host: Host
) -> None:
    arq = started(db)
    host.obey()
    (unit,) = current_work(db, "compute-1").wanted

    def say(code: str | None, message: str | None) -> Arq:
        said = HandleResult(unit.uuid, Outcome.READY, code, message)
        accept_results(db, "compute-1", Results(host.start, current_work(db, "compute-1").generation, (said,)))
        return get_arq(db, ALICE, arq.uuid)

    gone = say("guest-gone", "the guest vm1 is gone")
    assert (gone.state, gone.reason_code, gone.reason) == (ArqState.BOUND, "guest-gone", "the guest vm1 is gone")
    lost = say("unit-not-in-guest", "vm1 is back without it")
    assert (lost.state, lost.reason_code) == (ArqState.BOUND, "unit-not-in-guest")
    assert capacity_of(db).free == 1
    well = say(None, None)
    assert (well.state, well.reason_code, well.reason) == (ArqState.BOUND, None, None)


def test_a_unit_that_cannot_be_taken_back_is_dirty_and_its_request_says_so_until_it_is(
    db: Database, host: Host
) -> None:
    (arq,) = bound(db, host)
    unbind(db, NOVA_FOR_ALICE, [Unbind(arq.uuid)])
    host.refusing["*"] = "mdev-busy"
    host.obey()
    stuck = get_arq(db, ALICE, arq.uuid)
    assert (stuck.state, stuck.reason_code) == (ArqState.UNBIND_FAILED, "mdev-busy")
    assert capacity_of(db).used == 1
    assert len(current_work(db, "compute-1").unwanted) == 1
    host.refusing.clear()
    host.obey()
    assert get_arq(db, ALICE, arq.uuid).state is ArqState.UNBOUND
    assert capacity_of(db).used == 0


def test_unbind_and_delete_lead_out_of_unbind_failed(db: Database, host: Host) -> None:
    (arq,) = bound(db, host)
    unbind(db, NOVA_FOR_ALICE, [Unbind(arq.uuid)])
    host.refusing["*"] = "mdev-busy"
    host.obey()
    unbind(db, NOVA_FOR_ALICE, [Unbind(arq.uuid)])
    assert get_arq(db, ALICE, arq.uuid).state is ArqState.UNBOUND
    again = str(uuid4())
    bind(db, NOVA_FOR_ALICE, [Bind(arq.uuid, "compute-1", capacity_of(db).rp_uuid, again)])
    host.refusing = {str(arq.attach_handle_uuid): "mdev-busy"}
    host.obey()
    assert get_arq(db, ALICE, arq.uuid).state is ArqState.BOUND, "the old unit's trouble is not the new one's"
    delete_arqs_of_instance(db, NOVA_FOR_ALICE, again)
    host.refusing.clear()
    host.obey()
    assert capacity_of(db).free == 2


def test_late_words_about_a_unit_do_not_touch_its_next_loan(db: Database, host: Host) -> None:
    host.report(t4(1))
    arq = started(db)
    work = current_work(db, "compute-1")
    late_failure = Results(
        host.start, work.generation, (HandleResult(work.wanted[0].uuid, Outcome.FAILED, "slow", "slow"),)
    )
    unbind(db, NOVA_FOR_ALICE, [Unbind(arq.uuid)])
    back = current_work(db, "compute-1")
    late_absence = host.results(back)
    host.obey(back)
    again = started(db)
    accept_results(db, "compute-1", late_failure)
    accept_results(db, "compute-1", late_absence)
    assert get_arq(db, ALICE, again.uuid).state is ArqState.BIND_STARTED
    assert capacity_of(db).used == 1
    host.obey()
    accept_results(db, "compute-1", late_absence)
    assert get_arq(db, ALICE, again.uuid).state is ArqState.BOUND


def test_ready_for_what_is_no_longer_wanted_is_passed_over(db: Database, host: Host) -> None:
    arq = started(db)
    ready = host.results(current_work(db, "compute-1"))
    unbind(db, NOVA_FOR_ALICE, [Unbind(arq.uuid)])
    accept_results(db, "compute-1", msgspec.structs.replace(ready, generation=ready.generation + 5))
    assert get_arq(db, ALICE, arq.uuid).state is ArqState.UNBOUND
    assert len(current_work(db, "compute-1").unwanted) == 1


def test_words_about_units_nobody_knows_or_of_another_host_are_passed_over(db: Database, host: Host) -> None:
    other = Host(db, "compute-2")
    other.report(t4(1, host="compute-2"))
    arq = started(db)
    (wanted,) = current_work(db, "compute-1").wanted
    foreign = (
        HandleResult(wanted.uuid, Outcome.READY),
        HandleResult(str(uuid4()), Outcome.READY),
        HandleResult("x", Outcome.ABSENT),
    )
    accept_results(db, "compute-2", Results(other.start, 99, foreign))
    assert get_arq(db, ALICE, arq.uuid).state is ArqState.BIND_STARTED


def test_an_unknown_host_has_no_work_and_no_results(db: Database) -> None:
    for touch in (
        lambda: current_work(db, "nowhere"),
        lambda: accept_results(db, "nowhere", Results("a", 1, ())),
    ):
        with pytest.raises(NotFound) as caught:
            touch()
        assert caught.value.code == "host-not-found"


def test_the_same_results_again_change_nothing(db: Database, host: Host) -> None:
    bound(db, host)
    ready = host.results(current_work(db, "compute-1"))
    with db.statements() as sent:
        accept_results(db, "compute-1", ready)
    assert not [statement for statement in sent if not statement.lstrip().startswith("SELECT")]
    (arq,) = list_arqs(db, ADMIN)
    host.refusing["*"] = "lost"
    host.obey()
    before = get_arq(db, ADMIN, arq.uuid).updated_at
    host.obey()
    assert get_arq(db, ADMIN, arq.uuid).updated_at == before, "nor does the same failure, which comes every few seconds"


def test_two_units_of_one_request_that_both_do_not_go_back_are_one_failure_to_unbind(db: Database, host: Host) -> None:
    """It was bound, unbound, bound again and unbound again before the host took the first unit back."""
    (arq,) = bound(db, host)
    unbind(db, NOVA_FOR_ALICE, [Unbind(arq.uuid)])
    bind(db, NOVA_FOR_ALICE, [Bind(arq.uuid, "compute-1", capacity_of(db).rp_uuid, str(uuid4()))])
    unbind(db, NOVA_FOR_ALICE, [Unbind(arq.uuid)])
    assert len(current_work(db, "compute-1").unwanted) == 2
    host.refusing["*"] = "mdev-busy"
    host.obey()
    seen = get_arq(db, ALICE, arq.uuid)
    assert (seen.state, seen.reason_code) == (ArqState.UNBIND_FAILED, "mdev-busy")
    host.refusing.clear()
    host.obey()
    assert get_arq(db, ALICE, arq.uuid).state is ArqState.UNBOUND
    assert capacity_of(db).free == 2
