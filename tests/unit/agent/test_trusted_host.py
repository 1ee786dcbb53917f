"""The whole way, with the real engine and real HTTP: hosts of a server that forgot, or was away for an hour, or whose disks are full."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from tests.unit.agent.service import M40, T4, Service, running, until
from tests.unit.agent.test_end_to_end import handle, kernel_files
from tests.unit.agent.test_hard_times import WHY, fill, make_room
from tests.unit.attach.test_domains import VM, put, status, xml

from cantle import simulate
from cantle.attach.libvirt import hostdev_xml
from cantle.engine.host import confirm, list_hosts
from cantle.engine.lease import create_lease, get_lease, release_lease
from cantle.errors import CantleError
from cantle.kernel import mdev
from cantle.model.identity import LOCAL_ADMIN
from cantle.model.lease import LeaseState


def copy(source: Path, target: Path) -> None:
    """As ``sqlite3 SOURCE '.backup TARGET'`` does, also into a database that is in use."""
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
        one.backup(other)


def conditions(service: Service) -> dict[str, str]:
    [host] = list_hosts(service.db)
    return {one.code: one.message for one in host.conditions}


def uuids(root: simulate.SimulatedRoot) -> set[str]:
    return {one.uuid for one in mdev.devices(root)}


@pytest.mark.parametrize("noticed", ["at the start", "while it runs"])
def test_a_host_of_a_restored_database_holds_still_until_a_person_has_spoken_and_lends_nothing_that_is_held(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path, noticed: str
) -> None:
    database, backup = tmp_path / "cantle.db", tmp_path / "backup.db"
    with running(service, t4, tmp_path / "agent"):
        known = service.borrow("slice")
        until(lambda: service.free()[T4] == 7)
    copy(database, backup)
    with running(service, t4, tmp_path / "agent", rescan=0.5):
        forgotten = service.borrow("slice")
        until(lambda: service.free()[T4] == 6)
        t4.hold(handle(forgotten), pid=4711)
        if noticed == "while it runs":
            service.down()
            copy(backup, database)
            service.up()
            until(lambda: "host-frozen" in conditions(service))
    if noticed == "at the start":
        copy(backup, database)
    both = {handle(known), handle(forgotten)}
    with running(service, t4, tmp_path / "agent", rescan=0.5):
        until(lambda: list_hosts(service.db)[0].frozen_at is not None)
        until(lambda: "has followed generation" in conditions(service)["host-frozen"])
        with pytest.raises(CantleError):
            create_lease(service.db, LOCAL_ADMIN, profile_name="slice")
        release_lease(service.db, LOCAL_ADMIN, known.uuid)
        assert service.free().get(T4, 0) == 0
        assert uuids(t4) == both

        confirm(service.db, LOCAL_ADMIN, "node1")
        service.settled(known.uuid, LeaseState.RELEASED)
        until(lambda: "pid 4711" in conditions(service).get("units-left-behind", ""))
        until(lambda: service.free().get(T4) == 7)
        lent = [service.borrow("slice") for _ in range(7)]
        assert {one.state for one in lent} == {LeaseState.ACTIVE}
        assert handle(forgotten) not in {handle(one) for one in lent}
        assert uuids(t4) == {handle(forgotten), *(handle(one) for one in lent)}

        t4.let_go(4711)
        until(lambda: handle(forgotten) not in uuids(t4))
        until(lambda: service.free()[T4] == 1)
        until(lambda: conditions(service) == {})
        lent.append(service.borrow("slice"))
        assert all(service.give_back(one).state is LeaseState.RELEASED for one in lent)


def test_a_server_that_forgot_a_loan_and_lent_its_unit_anew_before_its_host_could_speak_lends_nothing_that_is_held(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    """It has lent so much since that its generation is not behind any more: nothing is frozen then."""
    database, backup = tmp_path / "cantle.db", tmp_path / "backup.db"
    with running(service, t4, tmp_path / "agent", rescan=0.5):
        until(lambda: service.free().get(T4) == 8)
        copy(database, backup)
        forgotten = service.borrow("slice")
        t4.hold(handle(forgotten), pid=4711)
        service.down()
        copy(backup, database)
        lent = [create_lease(service.db, LOCAL_ADMIN, profile_name="slice") for _ in range(8)]
        service.up()
        ends = [service.settled(one.uuid) for one in lent]
        assert "host-frozen" not in conditions(service)
        assert sorted(one.state for one in ends) == [*[LeaseState.ACTIVE] * 7, LeaseState.FAILED]
        (failed,) = (one for one in ends if one.state is LeaseState.FAILED)
        assert "4711" in str(failed.arqs[0].reason)
        assert uuids(t4) >= {handle(forgotten)}


def test_a_server_that_was_away_for_an_hour_finds_all_as_it_should_be_and_the_host_says_it(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    begin = time.monotonic()

    def hurried() -> float:
        """A second is an hour of the agent's."""
        return begin + (time.monotonic() - begin) * 3600

    with running(service, t4, tmp_path / "agent", rescan=0.2, clock=hurried):
        kept, ended = service.borrow("slice"), service.borrow("card")
        service.down()
        mdev.remove(t4, handle(kept))
        until(lambda: uuids(t4) == {handle(kept)})  # though nobody is there to ask for it
        away = hurried()
        until(lambda: hurried() - away > 3600)
        release_lease(service.db, LOCAL_ADMIN, ended.uuid)
        asked = create_lease(service.db, LOCAL_ADMIN, profile_name="slice")
        service.up()
        assert service.settled(asked.uuid).state is LeaseState.ACTIVE
        service.settled(ended.uuid, LeaseState.RELEASED)
        assert get_lease(service.db, LOCAL_ADMIN, kept.uuid).state is LeaseState.ACTIVE
        until(lambda: "server-was-away" in conditions(service))
        assert "the server did not answer for " in conditions(service)["server-was-away"]


def test_a_guest_that_has_gone_is_said_at_its_lease_which_stands(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    with running(service, t4, tmp_path / "agent", rescan=0.3):
        lease = service.borrow("slice")
        devices = hostdev_xml("MDEV", {}, handle(lease))
        put(Path(t4.path), "run/libvirt/qemu/vm1.xml", status(xml(devices=devices)))
        until(lambda: VM in (tmp_path / "agent" / "desired.json").read_text())
        Path(t4.path, "run/libvirt/qemu/vm1.xml").unlink()
        until(lambda: get_lease(service.db, LOCAL_ADMIN, lease.uuid).arqs[0].reason_code == "guest-gone")
        assert get_lease(service.db, LOCAL_ADMIN, lease.uuid).state is LeaseState.ACTIVE
        assert uuids(t4) == {handle(lease)}
        put(Path(t4.path), "run/libvirt/qemu/vm1.xml", status(xml(devices=devices)))
        until(lambda: get_lease(service.db, LOCAL_ADMIN, lease.uuid).arqs[0].reason_code is None)


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_host_whose_clock_is_wrong_by_an_hour_lends_and_takes_back_as_any_other_and_that_is_said(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path, hours: int
) -> None:
    before = kernel_files(t4)
    with running(service, t4, tmp_path / "agent", wall=lambda: time.time() + 3600 * hours):
        leases = [service.borrow("slice"), service.borrow("card")]
        assert {one.state for one in leases} == {LeaseState.ACTIVE}
        assert list(conditions(service)) == ["clock-wrong"]
        assert all(service.give_back(one).state is LeaseState.RELEASED for one in leases)
    assert kernel_files(t4) == before


def test_a_host_whose_disk_is_full_says_so_lends_nothing_new_and_takes_back(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    with running(service, t4, tmp_path / "agent", rescan=0.5):
        lease = service.borrow("slice")
        fill(tmp_path / "agent")
        failed = service.borrow("card")
        assert (failed.state, failed.arqs[0].reason_code) == (LeaseState.FAILED, "agent-state-unwritable")
        until(lambda: WHY in conditions(service).get("agent-state-unwritable", ""))
        assert service.give_back(lease).state is LeaseState.RELEASED
        assert uuids(t4) == set()
        assert service.give_back(failed).state is LeaseState.RELEASED
        make_room(tmp_path / "agent")
        until(lambda: conditions(service) == {})
        assert service.borrow("card").state is LeaseState.ACTIVE
    assert t4.link_name(f"sys/bus/pci/devices/{M40}/driver") == "vfio-pci"
