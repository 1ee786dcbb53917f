"""Loans from the database to the kernel's files and back: the real engine, real HTTP, the real agent, a simulated kernel."""

from __future__ import annotations

import errno
import logging
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.agent.service import M40, PATIENCE, T4, Run, Service, running, until

from cantle import simulate
from cantle.engine.device import list_devices
from cantle.engine.host import list_hosts
from cantle.engine.lease import create_lease, get_lease, release_lease
from cantle.engine.profile import create_profile
from cantle.errors import CantleError, Conflict
from cantle.kernel import mdev
from cantle.model.device import Health
from cantle.model.enabled_types import EnabledType, EnabledTypes
from cantle.model.identity import LOCAL_ADMIN
from cantle.model.lease import Lease, LeaseState
from cantle.store.tables import claims

FOREIGN = "99999999-2222-4333-8444-555555555555"


def handle(lease: Lease) -> str:
    [arq] = lease.arqs
    assert arq.attach_handle_uuid is not None
    return arq.attach_handle_uuid


def driver(root: simulate.SimulatedRoot, address: str = M40) -> str | None:
    return root.link_name(f"sys/bus/pci/devices/{address}/driver")


def kernel_files(root: simulate.SimulatedRoot) -> dict[str, str]:
    """All that a bind could change."""
    found = {f"driver of {name}": str(driver(root, name)) for name in root.names("sys/bus/pci/devices")}
    found |= {
        f"override of {name}": root.read(f"sys/bus/pci/devices/{name}/driver_override")
        for name in root.names("sys/bus/pci/devices")
    }
    return found | {one.uuid: one.type_id for one in mdev.devices(root)}


def test_a_slice_is_lent_and_given_back(service: Service, t4: simulate.SimulatedRoot, tmp_path: Path) -> None:
    with running(service, t4, tmp_path / "agent"):
        lease = service.borrow("slice")
        assert lease.state is LeaseState.ACTIVE
        assert mdev.devices(t4) == [mdev.MdevDevice(handle(lease), "nvidia-223", T4)]
        until(lambda: service.free() == {T4: 7, M40: 1})
        assert service.give_back(lease).state is LeaseState.RELEASED
        assert mdev.devices(t4) == []
        assert service.free() == {T4: 8, M40: 1}


def test_a_card_is_lent_whole_and_given_back_to_its_driver(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    with running(service, t4, tmp_path / "agent"):
        before = kernel_files(t4)
        lease = service.borrow("card")
        assert lease.state is LeaseState.ACTIVE
        assert driver(t4) == "vfio-pci"
        assert lease.arqs[0].attach_handle_info == {"domain": "0000", "bus": "86", "device": "00", "function": "0"}
        assert service.give_back(lease).state is LeaseState.RELEASED
        assert kernel_files(t4) == before


def test_a_serial_port_of_a_parent_that_is_no_pci_function_is_lent_by_its_class(
    service: Service, tmp_path: Path
) -> None:
    mtty = simulate.build(simulate.load("mtty"), tmp_path / "mtty")
    enabled = EnabledTypes((EnabledType("mtty-2", "CUSTOM_SERIAL", ("mtty_mtty",)),))
    create_profile(service.db, LOCAL_ADMIN, name="port", groups=[{"resources:CUSTOM_SERIAL": "1"}])
    with running(service, mtty, tmp_path / "agent", enabled=enabled):
        lease = service.borrow("port")
        assert lease.state is LeaseState.ACTIVE
        assert lease.arqs[0].attach_handle_info == {"parent": "mtty", "asked_type": "mtty-2", "vgpu_mark": "mtty-2_0"}
        assert mdev.devices(mtty) == [mdev.MdevDevice(handle(lease), "mtty-2", "mtty")]
        assert service.give_back(lease).state is LeaseState.RELEASED
        assert mdev.devices(mtty) == []


@pytest.mark.parametrize(("profile", "writes"), [("slice", 1), ("card", 3)])
@pytest.mark.parametrize("after", [False, True])
def test_whatever_write_of_a_bind_fails_the_host_is_as_before_and_the_next_try_succeeds(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path, profile: str, writes: int, after: bool
) -> None:
    with running(service, t4, tmp_path / "agent"):
        before = kernel_files(t4)
        for nth in range(1, writes + 1):
            t4.written.clear()
            t4.fail(errno.EIO, nth=nth, after=after)
            lease = service.borrow(profile)
            if after:
                # The kernel did what was asked and then said no. What counts is what is there.
                assert lease.state is LeaseState.ACTIVE
            else:
                assert lease.state is LeaseState.FAILED
                assert lease.arqs[0].reason_code is not None
                assert kernel_files(t4) == before
            assert service.give_back(lease).state is LeaseState.RELEASED
            assert kernel_files(t4) == before
            lease = service.borrow(profile)
            assert lease.state is LeaseState.ACTIVE
            assert service.give_back(lease).state is LeaseState.RELEASED
            assert kernel_files(t4) == before


def doomed(service: Service, root: simulate.SimulatedRoot, directory: Path, nth: int) -> subprocess.Popen[bytes]:
    """An agent in a process of its own that is killed right after its nth write."""
    arguments = [service.url, root.path, str(directory), str(nth)]
    return subprocess.Popen([sys.executable, "-m", "tests.unit.agent.doomed", *arguments])


@pytest.mark.parametrize(("profile", "nth"), [("slice", 1), ("card", 2)])
def test_an_agent_killed_in_the_middle_of_a_bind_finishes_it_in_its_next_life(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path, profile: str, nth: int
) -> None:
    before = kernel_files(t4)
    process = doomed(service, t4, tmp_path / "agent", nth)
    until(service.free)
    lease = create_lease(service.db, LOCAL_ADMIN, profile_name=profile)
    assert process.wait(PATIENCE) == -signal.SIGKILL
    assert kernel_files(t4) != before
    with running(service, t4, tmp_path / "agent"):
        assert service.settled(lease.uuid).state is LeaseState.ACTIVE
        assert len(mdev.devices(t4)) == (1 if profile == "slice" else 0)
        assert service.give_back(lease).state is LeaseState.RELEASED
    assert kernel_files(t4) == before


@pytest.mark.parametrize(("profile", "nth"), [("slice", 1), ("card", 2)])
def test_an_agent_killed_in_the_middle_of_a_return_finishes_it_in_its_next_life(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path, profile: str, nth: int
) -> None:
    before = kernel_files(t4)
    with running(service, t4, tmp_path / "agent"):
        lease = service.borrow(profile)
        start = list_hosts(service.db)[0].agent_start
    process = doomed(service, t4, tmp_path / "agent", nth)
    until(lambda: list_hosts(service.db)[0].agent_start != start)
    release_lease(service.db, LOCAL_ADMIN, lease.uuid)
    assert process.wait(PATIENCE) == -signal.SIGKILL
    with running(service, t4, tmp_path / "agent"):
        service.settled(lease.uuid, LeaseState.RELEASED)
    assert kernel_files(t4) == before


def test_after_a_reboot_with_the_server_away_what_was_lent_is_ready_again(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    with running(service, t4, tmp_path / "agent"):
        slice_, card = service.borrow("slice"), service.borrow("card")
    lent = kernel_files(t4)
    service.down()
    simulate.reboot(t4)
    assert mdev.devices(t4) == []
    assert driver(t4) == "nvidia"
    with running(service, t4, tmp_path / "agent", rescan=1.0) as run:
        until(lambda: kernel_files(t4) == lent)
        assert run.agent.begun.wait(PATIENCE), "who waits for its first word learns that it cannot be said"
        service.up()
        until(lambda: list_hosts(service.db)[0].agent_start is not None)
        assert service.give_back(slice_).state is LeaseState.RELEASED
        assert service.give_back(card).state is LeaseState.RELEASED
    assert driver(t4) == "nvidia"


def test_what_was_lent_is_ready_before_the_first_report_of_a_new_life(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    with running(service, t4, tmp_path / "agent"):
        lease = service.borrow("slice")
    simulate.reboot(t4)
    # Somebody else is quicker at filling the card than the agent is at starting.
    for number in range(7):
        mdev.create(t4, T4, "nvidia-223", f"{number}9999999-2222-4333-8444-555555555555")
    with running(service, t4, tmp_path / "agent"):
        until(lambda: service.free()[T4] == 0)
        assert handle(lease) in [one.uuid for one in mdev.devices(t4)]
        assert len(mdev.devices(t4)) == 8


def test_a_guest_that_still_holds_its_slice_delays_the_return_until_it_lets_go(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    with running(service, t4, tmp_path / "agent"):
        lease = service.borrow("slice")
        t4.hold(handle(lease), pid=77)
        release_lease(service.db, LOCAL_ADMIN, lease.uuid)
        until(lambda: _reason(service) == "mdev-in-use")
        assert get_lease(service.db, LOCAL_ADMIN, lease.uuid).state is LeaseState.RELEASING
        assert len(mdev.devices(t4)) == 1
        t4.let_go(77)
        service.settled(lease.uuid, LeaseState.RELEASED)
        assert mdev.devices(t4) == []


def _reason(service: Service) -> object:
    """Why the only claim is not taken back yet."""
    with service.db.read() as connection:
        return connection.execute(claims.select()).one().reason_code


def test_what_others_made_is_never_touched(service: Service, t4: simulate.SimulatedRoot, tmp_path: Path) -> None:
    mdev.create(t4, T4, "nvidia-223", FOREIGN)
    with running(service, t4, tmp_path / "agent"):
        lease = service.borrow("slice")
        assert service.free()[T4] == 6
        service.give_back(lease)
        assert [one.uuid for one in mdev.devices(t4)] == [FOREIGN]


@pytest.mark.parametrize("noticed", [False, True], ids=["at the next look", "at once when told"])
def test_a_slice_removed_by_hand_is_made_again(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path, noticed: bool
) -> None:
    with running(service, t4, tmp_path / "agent", rescan=60.0 if noticed else 0.5) as run:
        lease = service.borrow("slice")
        mdev.remove(t4, handle(lease))
        if noticed:
            run.agent.look_again()
        until(lambda: [one.uuid for one in mdev.devices(t4)] == [handle(lease)])


def test_a_pulled_card_is_missing_and_its_loan_is_kept(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    with running(service, t4, tmp_path / "agent") as run:
        lease = service.borrow("card")
        t4.unplug(M40)
        run.agent.look_again()
        until(lambda: {one.address: one.health for one in list_devices(service.db)}[M40] is Health.MISSING)
        assert get_lease(service.db, LOCAL_ADMIN, lease.uuid).state is LeaseState.ACTIVE
        assert service.give_back(lease).state is LeaseState.RELEASED


def test_two_loans_at_once_of_the_last_card_and_one_of_them_wins(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    with running(service, t4, tmp_path / "agent"):
        service.borrow("card")
        with pytest.raises(CantleError) as caught:
            create_lease(service.db, LOCAL_ADMIN, profile_name="card")
        assert caught.value.status == 409


def test_a_disk_that_cannot_be_written_fails_the_loan_and_touches_nothing(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    with running(service, t4, tmp_path / "agent"):
        until(service.free)
        until(lambda: b'"wanted":[]' in (tmp_path / "agent" / "desired.json").read_bytes())
        before = kernel_files(t4)
        (tmp_path / "agent" / "desired.new").mkdir()  # where the next save would write
        lease = service.borrow("slice")
        assert lease.state is LeaseState.FAILED
        assert lease.arqs[0].reason_code == "agent-state-unwritable"
        assert kernel_files(t4) == before
        (tmp_path / "agent" / "desired.new").rmdir()
        assert service.give_back(lease).state is LeaseState.RELEASED
        assert service.borrow("slice").state is LeaseState.ACTIVE


def test_an_agent_waits_for_a_server_that_is_away_and_goes_on_when_it_is_back(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    service.down()
    with running(service, t4, tmp_path / "agent", rescan=1.0):
        service.up()
        lease = service.borrow("slice")
        service.down()
        release_lease(service.db, LOCAL_ADMIN, lease.uuid)
        service.up()
        service.settled(lease.uuid, LeaseState.RELEASED)


def test_an_agent_stops_at_once_out_of_a_waiting_call_and_leaves_what_is_lent(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    with running(service, t4, tmp_path / "agent") as run:
        lease = service.borrow("slice")
        until(lambda: service.free()[T4] == 7)
        run.stop.set()
        run.thread.join(10)
        assert not run.thread.is_alive()
    assert [one.uuid for one in mdev.devices(t4)] == [handle(lease)]


def test_a_second_agent_of_the_same_host_fences_the_first(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    """At once, though neither has anything to report: the second waits in the first one's place."""
    first = Run(service, t4, tmp_path / "one")
    until(service.free)
    before = list_hosts(service.db)[0].agent_start
    with running(service, t4, tmp_path / "two"):
        until(lambda: list_hosts(service.db)[0].agent_start != before)
        error = first.ended()
    assert isinstance(error, Conflict)
    assert error.code == "agent-fenced"
    first.stop.set()


def test_a_second_agent_with_the_same_directory_does_not_start(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    with running(service, t4, tmp_path / "agent"):
        until(service.free)
        second = Run(service, t4, tmp_path / "agent")
        error = second.ended()
        second.stop.set()
    assert isinstance(error, Conflict)
    assert error.code == "agent-already-running"


def test_a_burst_of_binds_causes_one_look_at_the_host_when_it_is_over(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A look reads the whole host: whoever waits for the next unit comes first."""

    def looks() -> int:
        return sum("PUT /v1/hosts/node1/inventory" in line.getMessage() for line in list(caplog.records))

    now = [0.0]
    with (
        caplog.at_level(logging.INFO, "cantle.api.access"),
        running(service, t4, tmp_path / "agent", clock=lambda: now[0]),
    ):
        service.give_back(service.borrow("slice"))
        before = looks()
        leases = [service.borrow("slice") for _ in range(8)]
        # The agent's own clock stands still. Who compares the host's directories every two seconds may call for one, on a slow machine.
        assert looks() - before < len(leases) / 2
        before = looks()
        now[0] += 1.0
        until(lambda: looks() > before)
