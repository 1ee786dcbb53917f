"""Another card in the same place is another device."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.engine.cloud import ADMIN, ALICE, make_profile, t4
from tests.unit.engine.machine import lend, machine

from cantle.engine.device import list_devices
from cantle.engine.host import get_host
from cantle.engine.intent import set_intent
from cantle.engine.lease import create_lease, release_lease
from cantle.errors import NoCapacity
from cantle.model.device import Health, Mode
from cantle.model.intent import Intent
from cantle.store.database import Database
from cantle.wire.inventory import DeviceReport


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
