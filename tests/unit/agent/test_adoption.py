"""Mediated devices that somebody else made, lent as they are (spec S1.3); types that are late; types that are still lent (S1.4)."""

from __future__ import annotations

from pathlib import Path

from tests.unit.agent.service import M40, SEED, T4, Service, running, until
from tests.unit.agent.test_end_to_end import handle

from cantle import simulate
from cantle.engine.device import list_devices
from cantle.kernel import mdev
from cantle.model.device import Device, Health
from cantle.model.enabled_types import EnabledType, EnabledTypes
from cantle.model.lease import LeaseState

FOREIGN = "99999999-2222-4333-8444-555555555555"
ADOPT = EnabledTypes(SEED.types, adopt=True)


def card(service: Service) -> Device:
    [found] = [one for one in list_devices(service.db) if one.address == T4]
    return found


def test_an_adopted_device_is_lent_under_its_own_uuid_and_kept_when_it_is_given_back(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    mdev.create(t4, T4, "nvidia-223", FOREIGN)
    with running(service, t4, tmp_path / "agent", enabled=ADOPT):
        until(lambda: service.free() == {T4: 8, M40: 1})
        leases = [service.borrow("slice") for _ in range(8)]
        [adopted] = [one for one in leases if handle(one) == FOREIGN]
        assert len(mdev.devices(t4)) == 8
        t4.written.clear()
        assert service.give_back(adopted).state is LeaseState.RELEASED
        assert t4.written == []
        assert mdev.device(t4, FOREIGN) == mdev.MdevDevice(FOREIGN, "nvidia-223", T4)
        until(lambda: service.free()[T4] == 1)
        assert handle(service.borrow("slice")) == FOREIGN
    with running(service, t4, tmp_path / "agent", enabled=ADOPT):
        for one in leases:
            if one is not adopted:
                assert service.give_back(one).state is LeaseState.RELEASED
        until(lambda: service.free()[T4] == 7)
        assert [one.uuid for one in mdev.devices(t4)] == [FOREIGN]


def test_what_somebody_made_is_lent_before_another_one_is_made(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    mdev.create(t4, T4, "nvidia-223", FOREIGN)
    with running(service, t4, tmp_path / "agent"):
        until(lambda: service.free() == {T4: 7, M40: 1})
    with running(service, t4, tmp_path / "agent", enabled=ADOPT):
        until(lambda: service.free() == {T4: 8, M40: 1})
        assert handle(service.borrow("slice")) == FOREIGN
        assert [one.uuid for one in mdev.devices(t4)] == [FOREIGN]


def test_without_the_option_a_foreign_device_is_neither_lent_nor_removed(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    mdev.create(t4, T4, "nvidia-223", FOREIGN)
    with running(service, t4, tmp_path / "agent"):
        until(lambda: service.free() == {T4: 7, M40: 1})
        lease = service.borrow("slice")
        assert handle(lease) != FOREIGN
        assert service.give_back(lease).state is LeaseState.RELEASED
        assert [one.uuid for one in mdev.devices(t4)] == [FOREIGN]


def test_types_that_are_late_after_boot_are_withheld_and_offered_as_soon_as_they_are_there(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    t4.write("sys/bus/pci/drivers/nvidia/unbind", T4)
    with running(service, t4, tmp_path / "agent"):
        until(lambda: service.free() == {M40: 1})
        assert (card(service).health, card(service).mode) == (Health.DEGRADED, "mdev")
        t4.write("sys/bus/pci/drivers/nvidia/bind", T4)
        until(lambda: service.free() == {T4: 8, M40: 1})
        assert card(service).health is Health.OK


def test_a_type_or_class_that_is_still_lent_stays_and_the_agent_starts_all_the_same(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    with running(service, t4, tmp_path / "agent"):
        lease = service.borrow("slice")
    other_type = EnabledTypes((EnabledType("nvidia-222", addresses=(T4,)),))
    other_class = EnabledTypes((inventoried(SEED.types[0], "CUSTOM_GOLD"),))
    for enabled in (other_type, other_class, EnabledTypes()):
        with running(service, t4, tmp_path / "agent", enabled=enabled):
            until(lambda: str(card(service).reason).startswith("config-refused: nvidia-223 is still lent"))
            until(lambda: service.free() == {T4: 7, M40: 1})
    with running(service, t4, tmp_path / "agent", enabled=other_type):
        assert service.give_back(lease).state is LeaseState.RELEASED
        until(lambda: service.free() == {T4: 16, M40: 1})


def inventoried(one: EnabledType, resource_class: str) -> EnabledType:
    """The same type inventoried as another class."""
    return EnabledType(one.type_id, resource_class, one.addresses, one.max_instances)
