"""Intents from the database to the kernel's files: the real engine, real HTTP, the real agent, a simulated kernel."""

from __future__ import annotations

import signal
from pathlib import Path

import msgspec
import pytest
from tests.unit.agent.service import M40, PATIENCE, T4, Service, running, until
from tests.unit.agent.test_end_to_end import doomed, driver, handle, kernel_files

from cantle import simulate
from cantle.engine.device import list_devices
from cantle.engine.intent import clear_intent, set_intent
from cantle.engine.lease import release_lease
from cantle.engine.plan import plan_intent
from cantle.engine.profile import create_profile
from cantle.errors import Conflict
from cantle.kernel import mdev
from cantle.model.device import Device, Health, Mode
from cantle.model.enabled_types import EnabledType, EnabledTypes
from cantle.model.identity import LOCAL_ADMIN
from cantle.model.intent import Intent, IntentState
from cantle.model.lease import LeaseState
from cantle.model.precondition import Precondition
from cantle.store.tables import claims

ANYONE = Precondition(match=frozenset({"*"}))
WHOLE = Intent(T4, Mode.PASSTHROUGH)
CUT = Intent(T4, Mode.MDEV, {T4: "nvidia-222"})
FOREIGN = "99999999-2222-4333-8444-555555555555"


def card(service: Service, address: str = T4) -> Device:
    [found] = [one for one in list_devices(service.db) if one.address == address]
    return found


def wish(service: Service, intent: Intent) -> None:
    until(lambda: any(one.address == intent.device for one in list_devices(service.db)))
    first = card(service, intent.device).intent.version == 0
    set_intent(service.db, LOCAL_ADMIN, "node1", intent, precondition=None if first else ANYONE)


def settled(service: Service, state: IntentState, address: str = T4) -> Device:
    until(lambda: card(service, address).intent.state is state)
    return card(service, address)


def test_a_card_configured_to_be_cut_becomes_whole_and_is_cut_again(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    before = kernel_files(t4)
    with running(service, t4, tmp_path / "agent"):
        wish(service, WHOLE)
        found = settled(service, IntentState.APPLIED)
        assert (found.mode, found.health, driver(t4, T4)) == (Mode.PASSTHROUGH, Health.OK, "vfio-pci")
        assert found.capabilities == ("passthrough", "mdev")
        assert found.mdev_types[T4]["nvidia-223"] == "GRID T4-2B"
        assert service.free() == {T4: 1, M40: 1}
        wish(service, CUT)
        found = settled(service, IntentState.APPLIED)
        assert (found.mode, service.free()) == (Mode.MDEV, {T4: 16, M40: 1})
        assert kernel_files(t4) == before
        lease = service.borrow("slice")
        assert mdev.devices(t4) == [mdev.MdevDevice(handle(lease), "nvidia-222", T4)]
        with pytest.raises(Conflict) as caught:
            wish(service, WHOLE)
        assert caught.value.code == "device-in-use"
        assert service.give_back(lease).state is LeaseState.RELEASED
        clear_intent(service.db, LOCAL_ADMIN, "node1", T4, precondition=ANYONE)
        settled(service, IntentState.NONE)
        assert service.free() == {T4: 8, M40: 1}


def test_a_card_wanted_whole_stays_on_vfio_pci_from_lease_to_lease_and_clearing_gives_it_back(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    before = kernel_files(t4)
    with running(service, t4, tmp_path / "agent", enabled=EnabledTypes()):
        wish(service, Intent(M40, Mode.PASSTHROUGH))
        settled(service, IntentState.APPLIED, M40)
        wish(service, WHOLE)
        settled(service, IntentState.APPLIED)
        t4.written.clear()
        lease = service.borrow("card")
        assert lease.state is LeaseState.ACTIVE
        t4.hold(M40)
        t4.hold(T4, pid=4243)
        held_then_back(service, t4, lease.uuid)
        assert {path.rpartition("/")[2] for path, _ in t4.written} == {"reset"}, "it never left vfio-pci"
        clear_intent(service.db, LOCAL_ADMIN, "node1", M40, precondition=ANYONE)
        settled(service, IntentState.NONE, M40)
        clear_intent(service.db, LOCAL_ADMIN, "node1", T4, precondition=ANYONE)
        settled(service, IntentState.NONE)
    assert kernel_files(t4) == before


def reason_of_the_claim(service: Service) -> str | None:
    with service.db.read() as connection:
        found: str | None = connection.execute(claims.select()).one().reason_code
        return found


def held_then_back(service: Service, root: simulate.SimulatedRoot, uuid: str) -> None:
    """A guest that still runs keeps its card; when it has ended, the card is back."""
    release_lease(service.db, LOCAL_ADMIN, uuid)
    until(lambda: reason_of_the_claim(service) == "device-held")
    root.let_go()
    root.let_go(4243)
    assert service.settled(uuid).state is LeaseState.RELEASED


def test_while_a_process_holds_the_card_it_stays_as_it_is_and_the_reason_names_the_process(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    with running(service, t4, tmp_path / "agent"):
        wish(service, WHOLE)
        settled(service, IntentState.APPLIED)
        t4.hold(T4, command="qemu-system-x86")
        held = kernel_files(t4)
        wish(service, CUT)
        found = settled(service, IntentState.FAILED)
        assert (found.intent.code, found.health) == ("device-held", Health.DEGRADED)
        assert "pid 4242 (qemu-system-x86)" in str(found.intent.error)
        assert kernel_files(t4) == held
        assert service.free().get(T4, 0) == 0
        assert service.free()[M40] == 1
        t4.let_go()
        assert settled(service, IntentState.APPLIED).mode is Mode.MDEV


def test_a_mediated_device_of_somebody_else_keeps_a_card_from_becoming_whole(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    mdev.create(t4, T4, "nvidia-223", FOREIGN)
    with running(service, t4, tmp_path / "agent"):
        wish(service, WHOLE)
        found = settled(service, IntentState.FAILED)
        assert found.intent.code == "mdevs-exist"
        assert FOREIGN in str(found.intent.error)
        wish(service, CUT)
        until(lambda: card(service).intent.tried == 2)
        assert card(service).intent.code == "mdevs-exist"
        assert [one.uuid for one in mdev.devices(t4)] == [FOREIGN]
        mdev.remove(t4, FOREIGN)
        settled(service, IntentState.APPLIED)


def test_a_type_that_does_not_appear_leaves_the_card_on_vfio_pci(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cantle.agent.mode.SETTLE", 0.5)
    with running(service, t4, tmp_path / "agent"):
        wish(service, WHOLE)
        settled(service, IntentState.APPLIED)
        before = kernel_files(t4)
        described = t4.kernel.described
        unready = tuple(msgspec.structs.replace(one, mdev=None) for one in described.functions)
        t4.kernel.described = msgspec.structs.replace(described, functions=unready)
        wish(service, CUT)
        found = settled(service, IntentState.FAILED)
        assert found.intent.code == "mdev-type-missing"
        assert kernel_files(t4) == before
        t4.kernel.described = described
        settled(service, IntentState.APPLIED)


@pytest.mark.parametrize("intent", [WHOLE, CUT], ids=["whole", "cut"])
def test_after_a_reboot_a_card_is_what_was_wanted_and_what_was_lent_is_there_with_the_server_away(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path, intent: Intent
) -> None:
    directory = tmp_path / "agent"
    with running(service, t4, directory):
        wish(service, intent)
        settled(service, IntentState.APPLIED)
        wish(service, Intent(M40, Mode.PASSTHROUGH))
        settled(service, IntentState.APPLIED, M40)
        leases = [service.borrow("slice")] if intent is CUT else [service.borrow("card"), service.borrow("card")]
        before = kernel_files(t4)
    service.down()
    simulate.reboot(t4)
    assert kernel_files(t4) != before
    with running(service, t4, directory):
        until(lambda: kernel_files(t4) == before)
        service.up()
        assert settled(service, IntentState.APPLIED).mode is intent.mode
        for lease in leases:
            assert service.give_back(lease).state is LeaseState.RELEASED


def test_a_card_that_fails_after_a_reboot_holds_up_no_other(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    directory = tmp_path / "agent"
    with running(service, t4, directory):
        for intent in (WHOLE, Intent(M40, Mode.PASSTHROUGH)):
            wish(service, intent)
            settled(service, IntentState.APPLIED, intent.device)
    simulate.reboot(t4)
    mdev.create(t4, T4, "nvidia-223", FOREIGN)
    with running(service, t4, directory):
        until(lambda: driver(t4, M40) == "vfio-pci")
        found = settled(service, IntentState.FAILED)
        assert (found.health, found.intent.code) == (Health.DEGRADED, "mdevs-exist")
        assert card(service, M40).intent.state is IntentState.APPLIED
        assert service.borrow("card").state is LeaseState.ACTIVE


def test_another_card_at_the_address_is_another_device_and_is_left_alone(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    with running(service, t4, tmp_path / "agent"):
        wish(service, WHOLE)
        settled(service, IntentState.APPLIED)
    place = t4.path
    described = simulate.load("t4")
    others = tuple(
        msgspec.structs.replace(one, device="1eb9") if one.address == T4 else one for one in described.functions
    )
    exchanged = simulate.build(msgspec.structs.replace(described, functions=others), place)
    before = kernel_files(exchanged)
    with running(service, exchanged, tmp_path / "agent"):
        until(lambda: card(service).product_id == "1eb9")
        assert card(service).intent.state is IntentState.NONE
        assert kernel_files(exchanged) == before


def test_a_serial_port_card_changes_its_type_by_an_intent(service: Service, tmp_path: Path) -> None:
    mtty = simulate.build(simulate.load("mtty"), tmp_path / "mtty")
    enabled = EnabledTypes((EnabledType("mtty-2", "CUSTOM_SERIAL", ("mtty_mtty",)),))
    create_profile(service.db, LOCAL_ADMIN, name="port", groups=[{"resources:CUSTOM_SERIAL": "1"}])
    with running(service, mtty, tmp_path / "agent", enabled=enabled):
        wish(service, Intent("mtty", Mode.MDEV, {"mtty": "mtty-1"}))
        settled(service, IntentState.APPLIED, "mtty")
        assert service.free() == {"mtty": 24}
        wish(service, Intent("mtty", Mode.MDEV))
        settled(service, IntentState.APPLIED, "mtty")
        assert service.free() == {"mtty": 12}
        assert service.borrow("port").arqs[0].attach_handle_info is not None


def test_the_plan_shows_the_steps_and_changes_nothing(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    with running(service, t4, tmp_path / "agent"):
        until(service.free)
        before = kernel_files(t4)
        shown = plan_intent(service.db, "node1", WHOLE)
        assert [step.sentence for step in shown.plan.steps] == [
            f"keep {T4} for vfio-pci alone (driver_override)",
            f"take {T4} from the driver nvidia",
            f"give {T4} to the driver vfio-pci",
        ]
        assert plan_intent(service.db, "node1", CUT).plan.steps == ()
        assert kernel_files(t4) == before
        wish(service, WHOLE)
        settled(service, IntentState.APPLIED)
        back = plan_intent(service.db, "node1", CUT).plan.steps
        assert [step.sentence for step in back] == [
            f"let any driver take {T4} again (driver_override)",
            f"take {T4} from the driver vfio-pci",
            f"give {T4} to the driver nvidia",
            f"offer {T4} in mediated devices, each made when it is lent",
        ]


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_an_agent_killed_in_the_middle_of_a_change_finishes_it_in_its_next_life_and_can_take_it_back(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path, nth: int
) -> None:
    before = kernel_files(t4)
    process = doomed(service, t4, tmp_path / "agent", nth)
    wish(service, WHOLE)
    assert process.wait(PATIENCE) == -signal.SIGKILL
    assert kernel_files(t4) != before
    with running(service, t4, tmp_path / "agent"):
        assert settled(service, IntentState.APPLIED).mode is Mode.PASSTHROUGH
        assert driver(t4, T4) == "vfio-pci"
        clear_intent(service.db, LOCAL_ADMIN, "node1", T4, precondition=ANYONE)
        settled(service, IntentState.NONE)
    assert kernel_files(t4) == before
