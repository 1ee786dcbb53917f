"""Hosts as a whole: what is said of one, what closes it, and how one leaves."""

from __future__ import annotations

import time
from dataclasses import replace

import msgspec
import pytest
from sqlalchemy import select
from tests.unit.engine.cloud import ADMIN, ALICE, bound, make_profile, t4, whole
from tests.unit.engine.machine import Machine, lend, machine, restored, silence, told

from cantle.engine.capacity import list_capacity
from cantle.engine.clock import now
from cantle.engine.device import list_devices
from cantle.engine.host import confirm, drain, forget, get_host, list_hosts, rename, undrain
from cantle.engine.intake import accept_report
from cantle.engine.lease import create_lease, list_leases, release_lease
from cantle.engine.token import authenticate, create_token
from cantle.engine.work import current_work
from cantle.errors import BadRequest, Conflict, NoCapacity, NotFound, Unauthorized
from cantle.model.arq import ArqState
from cantle.model.host import HostState
from cantle.model.token import Role
from cantle.store import claim
from cantle.store.database import Database
from cantle.store.tables import deployables
from cantle.wire.inventory import Condition

# -- what is said ------------------------------------------------------------------------------------------------------


def test_a_clock_that_is_wrong_by_an_hour_is_said(db: Database) -> None:
    machine(db, clock=time.time() + 3600)
    assert "ahead of" in told(db)["clock-wrong"]
    machine(db, clock=time.time() - 3600)
    assert "behind" in told(db)["clock-wrong"]
    machine(db, clock=time.time())
    assert told(db) == {}
    machine(db, clock=1e300)
    assert "clock-wrong" in told(db)


def test_what_the_agent_says_of_itself_is_shown_while_it_lasts(db: Database) -> None:
    one = machine(db, conditions=(Condition("disk-full", "No room in the state directory."),))
    assert told(db) == {"disk-full": "No room in the state directory."}
    one.conditions = ()
    one.report()
    assert told(db) == {}


def test_an_unchanged_report_writes_nothing_though_its_clock_goes_on(db: Database) -> None:
    one = machine(db, clock=time.time())
    one.clock = time.time() + 1
    with db.statements() as sent:
        assert not one.report().changed
    assert len(sent) == 1


@pytest.mark.parametrize(
    "wrong",
    [{"machine": "x" * 65}, {"boot": "a\0b"}, {"version": "x" * 65}, {"generation": -1}, {"clock": float("inf")}],
)
def test_a_report_that_cannot_be_kept_is_refused(sqlite: Database, wrong: dict[str, object]) -> None:
    report = msgspec.structs.replace(Machine(sqlite, "compute-1").message(), **wrong)
    with pytest.raises(BadRequest) as caught:
        accept_report(sqlite, "compute-1", report)
    assert caught.value.code == "bad-report"


# -- drain -------------------------------------------------------------------------------------------------------------


def test_on_a_drained_host_nothing_new_is_lent_and_what_is_lent_stays(db: Database) -> None:
    make_profile(db)
    one = machine(db)
    (arq,) = bound(db, one)
    host = drain(db, ADMIN, "compute-1")
    assert (host.state, host.drained_by) == (HostState.DRAINED, "root")
    assert isinstance(lend(db), NoCapacity)
    with pytest.raises(Conflict, match="drained"):
        bound(db, one)
    assert arq.state is ArqState.BOUND
    assert len(current_work(db, "compute-1").wanted) == 1
    assert drain(db, replace(ADMIN, user_id="other"), "compute-1").drained_by == "root"
    assert undrain(db, ADMIN, "compute-1").state is HostState.UP
    assert lend(db) is None


def test_a_host_that_was_closed_while_somebody_chose_is_not_claimed_on(db: Database) -> None:
    """The claim itself looks: its statement reads the row that whoever closes a host changes."""
    make_profile(db)
    machine(db)
    with db.read() as connection:
        number = connection.execute(select(deployables.c.id)).scalar_one()
    row = {"arq": None, "lease": None, "deployable_id": number, "now": now()}
    drain(db, ADMIN, "compute-1")
    with db.write() as connection:
        assert claim.take(connection, [row]) == 0
    undrain(db, ADMIN, "compute-1")
    with db.write() as connection:
        assert claim.take(connection, [row]) == 1


def test_a_host_that_froze_while_somebody_chose_is_not_claimed_on(db: Database) -> None:
    one = restored(db)
    with db.read() as connection:
        number = connection.execute(select(deployables.c.id)).scalar_one()
    row = {"arq": None, "lease": None, "deployable_id": number, "now": now()}
    one.report()
    assert get_host(db, "compute-1").state is HostState.FROZEN
    with db.write() as connection:
        assert claim.take(connection, [row]) == 0
    confirm(db, ADMIN, "compute-1")
    with db.write() as connection:
        assert claim.take(connection, [row]) == 1


# -- forget, rename ----------------------------------------------------------------------------------------------------


def test_a_host_in_use_is_not_forgotten_and_who_uses_it_is_told(db: Database) -> None:
    make_profile(db)
    one = machine(db)
    lease = create_lease(db, ALICE, profile_name="vgpu", workload="vm1")
    one.obey()
    (arq,) = bound(db, one)
    silence(db)
    with pytest.raises(Conflict) as caught:
        forget(db, ADMIN, "compute-1")
    assert caught.value.code == "host-in-use"
    assert f"lease {lease.uuid} (vm1)" in caught.value.message
    assert f"request {arq.uuid} of instance {arq.instance_uuid}" in caught.value.message


def test_a_host_that_is_up_is_not_forgotten(db: Database) -> None:
    machine(db)
    with pytest.raises(Conflict) as caught:
        forget(db, ADMIN, "compute-1")
    assert caught.value.code == "host-still-up"


def test_a_forgotten_host_is_gone_with_all_it_had_and_its_token_and_its_past_stays(db: Database) -> None:
    make_profile(db)
    one = machine(db)
    one.report(t4(), whole())
    lease = create_lease(db, ALICE, profile_name="vgpu")
    release_lease(db, ALICE, lease.uuid)
    one.obey()
    other = machine(db, "compute-2", machine="m9")
    _, token = create_token(db, ADMIN, name="agent", role=Role.AGENT, hostname="compute-1")
    silence(db)
    forget(db, ADMIN, "compute-1")
    assert [host.hostname for host in list_hosts(db)] == ["compute-2"]
    assert {device.hostname for device in list_devices(db)} == {other.name}
    with pytest.raises(Unauthorized):
        authenticate(db, token)
    for after in (forget, drain, confirm):
        with pytest.raises(NotFound):
            after(db, ADMIN, "compute-1")
    past = list_leases(db, ALICE, include_released=True)
    assert [(row.uuid, row.hostname) for row in past] == [(lease.uuid, "compute-1")]


def test_a_host_that_comes_back_has_its_past_and_may_be_another_machine(db: Database) -> None:
    make_profile(db)
    machine(db)
    made_at = get_host(db, "compute-1").created_at
    silence(db)
    forget(db, ADMIN, "compute-1")
    machine(db, machine="m2")
    assert (get_host(db, "compute-1").created_at, get_host(db, "compute-1").state) == (made_at, HostState.UP)
    assert lend(db) is None


def test_a_renamed_host_keeps_all_it_has_and_all_that_is_lent(db: Database) -> None:
    make_profile(db)
    one = machine(db)
    (arq,) = bound(db, one)
    before = {(row.deployable_uuid, row.used) for row in list_capacity(db)}
    with pytest.raises(Conflict) as caught:
        rename(db, ADMIN, "compute-1", "gpu-1")
    assert caught.value.code == "host-still-up"
    silence(db)
    assert rename(db, ADMIN, "compute-1", "gpu-1").hostname == "gpu-1"
    assert {handle.uuid for handle in current_work(db, "gpu-1").wanted} == {arq.attach_handle_uuid}
    one.name = "gpu-1"
    one.report(t4(host="gpu-1"))
    assert {(row.deployable_uuid, row.used) for row in list_capacity(db)} == before
    machine(db, "compute-2", machine="m2")
    silence(db, "gpu-1")
    for to, code in (("compute-2", "host-name-taken"), ("-", "bad-hostname")):
        with pytest.raises((Conflict, BadRequest)) as refused:
            rename(db, ADMIN, "gpu-1", to)
        assert refused.value.code == code
