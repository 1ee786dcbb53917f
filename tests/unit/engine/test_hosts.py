"""Hosts as a whole: which machine may speak for one, what closes it, and how one leaves."""

from __future__ import annotations

import time
from dataclasses import replace
from uuid import uuid4

import msgspec
import pytest
from sqlalchemy import select, update
from tests.unit.engine.cloud import ADMIN, ALICE, Host, bound, capacity_of, make_profile, t4, whole

from cantle.engine.capacity import list_capacity
from cantle.engine.clock import now
from cantle.engine.device import list_devices
from cantle.engine.host import confirm, drain, forget, get_host, list_hosts, rename, undrain
from cantle.engine.intake import accept_report
from cantle.engine.intent import set_intent
from cantle.engine.lease import create_lease, list_leases, release_lease
from cantle.engine.token import authenticate, create_token
from cantle.engine.work import current_work, wait_work
from cantle.errors import BadRequest, CantleError, Conflict, NoCapacity, NotFound, Unauthorized
from cantle.model.arq import ArqState
from cantle.model.device import Health, Mode
from cantle.model.host import HostState
from cantle.model.intent import Intent
from cantle.model.token import Role
from cantle.store import claim
from cantle.store.database import Database
from cantle.store.tables import deployables, hosts
from cantle.store.types import database_now
from cantle.wire.inventory import Condition, DeviceReport, InventoryReport


class Machine(Host):
    """A host whose reports say which machine and boot it is."""

    machine = "m1"
    boot = "b1"
    followed = 0
    clock: float | None = None
    conditions: tuple[Condition, ...] = ()

    def message(self) -> InventoryReport:
        """See the base class."""
        made = super().message()
        return msgspec.structs.replace(
            made,
            digest=f"{made.digest}{len(self.conditions)}",
            machine=self.machine,
            boot=self.boot,
            generation=self.followed,
            clock=self.clock,
            conditions=self.conditions,
        )

    def reboot(self) -> None:
        """The machine starts anew, and its agent with it."""
        self.boot = str(uuid4())
        self.restart()

    def refused(self) -> str:
        """The code with which its report is refused."""
        with pytest.raises(Conflict) as caught:
            self.report()
        return caught.value.code


def machine(db: Database, name: str = "compute-1", **about: object) -> Machine:
    """One that has reported a card."""
    made = Machine(db, name)
    vars(made).update(about)
    made.report(t4(host=name))
    return made


def copy_of(one: Machine) -> Machine:
    """A copy of the machine's disk, started elsewhere: the same id, another boot."""
    made = Machine(one.db, one.name, one.devices)
    made.machine, made.boot = one.machine, str(uuid4())
    return made


def told(db: Database, hostname: str = "compute-1") -> dict[str, str]:
    """Code and message of what a person should know of a host."""
    return {one.code: one.message for one in get_host(db, hostname).conditions}


def silence(db: Database, hostname: str = "compute-1") -> None:
    """The agent was not heard of for a long time."""
    with db.write() as connection:
        connection.execute(update(hosts).where(hosts.c.hostname == hostname).values(last_seen=database_now(-3600)))


def lend(db: Database) -> CantleError | None:
    """Why nothing can be lent; None when something was, and is given back."""
    try:
        lease = create_lease(db, ALICE, profile_name="vgpu")
    except CantleError as error:
        return error
    release_lease(db, ALICE, lease.uuid)
    return None


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


def restored(db: Database) -> Machine:
    """A host with one lent unit whose server's database was then restored from a backup of before that."""
    make_profile(db)
    one = machine(db)
    with db.read() as connection:
        backup = connection.execute(select(hosts.c.generation)).scalar_one()
    release_lease(db, ALICE, create_lease(db, ALICE, profile_name="vgpu").uuid)
    one.followed = one.obey().generation
    assert one.followed > backup
    with db.write() as connection:
        connection.execute(update(hosts).values(generation=backup))
    return one


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


# -- another card in the same place ------------------------------------------------------------------------------------


def with_serial(serial: str, **about: object) -> DeviceReport:
    """The seed's card, as a driver that knows serial numbers reports it."""
    return msgspec.structs.replace(t4(), vendor_board_info={"serial": serial}, **about)


@pytest.mark.parametrize("other", [with_serial("2"), with_serial("1", product_id="1db6", model="V100")])
def test_a_card_swapped_in_the_same_slot_is_another_device(db: Database, other: DeviceReport) -> None:
    one = machine(db)
    one.report(with_serial("1"))
    before = list_devices(db)[0]
    set_intent(db, ADMIN, "compute-1", Intent(before.address, Mode.MDEV, {before.address: "nvidia-223"}))
    one.report(other)
    (after,) = list_devices(db)
    assert (after.address, after.health) == (before.address, Health.OK)
    assert after.uuid != before.uuid
    assert after.intent.intent is None
    one.report(other)
    assert list_devices(db)[0].uuid == after.uuid


def test_a_card_whose_serial_number_could_not_be_read_once_is_the_same(db: Database) -> None:
    one = machine(db)
    one.report(with_serial("1"))
    before = list_devices(db)[0].uuid
    one.report(t4())
    one.report(with_serial("1"))
    assert list_devices(db)[0].uuid == before


def test_what_is_lent_of_a_card_outlives_its_swap_and_the_new_card_waits_for_its_return(db: Database) -> None:
    make_profile(db)
    one = machine(db)
    one.report(with_serial("1"))
    before = list_devices(db)[0].uuid
    lease = create_lease(db, ALICE, profile_name="vgpu")
    one.obey()
    one.report(with_serial("2"))
    (device,) = list_devices(db)
    assert (device.uuid, device.health) == (before, Health.MISSING)
    assert "another card is in its place" in (device.reason or "")
    assert [problem.code for problem in get_host(db, "compute-1").problems] == ["card-swapped"]
    assert isinstance(lend(db), NoCapacity)
    release_lease(db, ALICE, lease.uuid)
    one.obey()
    one.report()  # the same report as before
    (device,) = list_devices(db)
    assert (device.uuid != before, device.health) == (True, Health.OK)
    assert get_host(db, "compute-1").problems == ()
    assert lend(db) is None


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
