"""Reports change the units that can be lent, and never one that is."""

from __future__ import annotations

from uuid import uuid4

import msgspec
from sqlalchemy import select
from tests.unit.engine.cloud import (
    NOVA_FOR_ALICE,
    T4_2B,
    Host,
    bound,
    capacity_of,
    make_profile,
    mdev_units,
    t4,
    whole,
)
from tests.unit.engine.units import handles, with_units

from cantle.engine.bind import Unbind, unbind
from cantle.engine.deployable import list_deployables
from cantle.engine.device import list_devices
from cantle.engine.host import list_hosts
from cantle.engine.work import current_work
from cantle.model.device import Mode
from cantle.store.database import Database
from cantle.store.tables import attach_handles
from cantle.wire.inventory import DeviceReport


def test_fewer_units_take_away_only_what_is_free(db: Database) -> None:
    host = Host(db)
    host.report(t4(4))
    make_profile(db)
    bound(db, host)
    lent = {key for key, (uuid, _) in handles(db).items() if uuid in host.held}
    host.report(t4(2))
    assert set(handles(db)) == {"nvidia-223_0", "nvidia-223_1"}
    assert lent <= set(handles(db))
    host.report(t4(0))
    assert {key: present for key, (_, present) in handles(db).items()} == dict.fromkeys(lent, False)
    capacity = capacity_of(db)
    assert (capacity.total, capacity.used, capacity.free) == (0, 1, 0)


def test_a_unit_that_vanished_while_lent_counts_against_what_is_left(db: Database) -> None:
    """Available instances shrank by one other user: the last key is gone, but it is the first that is free."""
    host = Host(db)
    host.report(with_units(t4(), mdev_units(4)[3:]))
    make_profile(db)
    arqs = bound(db, host)
    host.report(t4(3))
    capacity = capacity_of(db)
    assert (capacity.total, capacity.used, capacity.free) == (3, 1, 2)
    unbind(db, NOVA_FOR_ALICE, [Unbind(arqs[0].uuid)])
    host.obey()
    assert host.report().changed, "the same report is read in full again, as a unit became free that had no row"
    capacity = capacity_of(db)
    assert (capacity.total, capacity.used, capacity.free) == (3, 0, 3)
    assert sorted(handles(db)) == ["nvidia-223_0", "nvidia-223_1", "nvidia-223_2"]


def test_of_two_units_that_come_back_at_once_the_one_that_vanished_makes_room_for_the_other(db: Database) -> None:
    """The card makes one now: both were taken out, and nothing was free until the next report."""
    host = Host(db)
    host.report(t4(2))
    make_profile(db, "pair", [{"resources:VGPU": "2"}])
    arqs = bound(db, host, profile="pair")
    host.report(t4(1))
    unbind(db, NOVA_FOR_ALICE, [Unbind(arq.uuid) for arq in arqs])
    host.obey()
    assert (capacity_of(db).used, capacity_of(db).free) == (0, 1)


def test_a_host_that_can_deliver_less_than_it_lent_is_not_asked_for_more(db: Database) -> None:
    """Two are lent of a card that now makes one: the first that comes back is not free, for the other still takes its place."""
    host = Host(db)
    host.report(t4(2))
    make_profile(db, "pair", [{"resources:VGPU": "2"}])
    arqs = bound(db, host, profile="pair")
    host.report(t4(1))
    keys = {uuid: key for key, (uuid, _) in handles(db).items()}
    first, second = sorted(arqs, key=lambda arq: keys[str(arq.attach_handle_uuid)])
    unbind(db, NOVA_FOR_ALICE, [Unbind(first.uuid)])
    host.obey()
    assert (capacity_of(db).used, capacity_of(db).free) == (1, 0)
    unbind(db, NOVA_FOR_ALICE, [Unbind(second.uuid)])
    host.obey()
    host.report()
    assert (capacity_of(db).used, capacity_of(db).free) == (0, 1)


def test_a_lent_unit_is_never_changed_under_its_guest(db: Database) -> None:
    host = Host(db)
    host.report(t4(1))
    make_profile(db)
    (arq,) = bound(db, host)
    host.report(
        with_units(
            t4(), tuple(msgspec.structs.replace(one, key="nvidia-223_0") for one in mdev_units(1, type_id="nvidia-224"))
        )
    )
    (wanted,) = current_work(db, "compute-1").wanted
    assert wanted.uuid == arq.attach_handle_uuid
    assert wanted.attach_info["asked_type"] == "nvidia-223"
    assert capacity_of(db).free == 0
    unbind(db, NOVA_FOR_ALICE, [Unbind(arq.uuid)])
    host.obey()
    host.report()
    assert capacity_of(db).free == 1


def test_a_change_of_mode_replaces_what_is_offered(db: Database) -> None:
    host = Host(db)
    host.report(msgspec.structs.replace(whole(address="0000:af:00.0"), product_id="1eb8", model="T4"))
    (before,) = list_deployables(db)
    host.report(t4(2))
    (after,) = list_deployables(db)
    assert after.rp_uuid == before.rp_uuid
    assert (after.resource_class, after.traits, after.total) == ("VGPU", ("OWNER_CYBORG", T4_2B), 2)
    assert set(handles(db)) == {"nvidia-223_0", "nvidia-223_1"}
    assert [device.mode for device in list_devices(db)] == [Mode.MDEV]
    facts = {one.key: one.value for one in after.attributes}
    assert (facts["rc"], facts["trait1"]) == ("VGPU", T4_2B)


def test_a_device_that_offers_nothing_any_more_keeps_its_deployable_empty(db: Database) -> None:
    host = Host(db)
    host.report(t4(2))
    (before,) = list_deployables(db)
    host.report(offering_nothing(t4(2)))
    (after,) = list_deployables(db)
    assert (after.uuid, after.total) == (before.uuid, 0)
    assert handles(db) == {}


def offering_nothing(device: DeviceReport) -> DeviceReport:
    """The device with nothing to offer."""
    return msgspec.structs.replace(device, mode=Mode.UNASSIGNABLE, reason="no IOMMU", deployables=())


def test_an_adopted_unit_keeps_its_own_uuid(db: Database) -> None:
    """Spec S1.3: an mdev that exists already and nobody holds."""
    existing = str(uuid4())
    first, second = mdev_units(2)
    Host(db).report(with_units(t4(), (msgspec.structs.replace(first, uuid=existing), second)))
    assert handles(db)["nvidia-223_0"] == (existing, True)


def test_a_unit_that_exists_already_is_lent_before_one_is_made(db: Database) -> None:
    existing = str(uuid4())
    first, second = mdev_units(2)
    host = Host(db)
    adopted = msgspec.structs.replace(second, key=f"nvidia-223_{existing}", uuid=existing)
    host.report(with_units(t4(), (first, adopted)))
    make_profile(db)
    (arq,) = bound(db, host)
    assert arq.attach_handle_uuid == existing


def test_a_unit_known_by_its_uuid_is_the_same_under_any_key(db: Database) -> None:
    host = Host(db)
    host.report(t4(3))
    before = {key: uuid for key, (uuid, _) in handles(db).items()}
    first, second, third = mdev_units(3)
    host.report(with_units(t4(), (msgspec.structs.replace(first, uuid=before["nvidia-223_2"]), second, third)))
    after = {key: uuid for key, (uuid, _) in handles(db).items()}
    assert after["nvidia-223_2"] == before["nvidia-223_2"]
    assert len(after) == 3


def test_a_unit_with_the_uuid_of_another_cards_unit_is_left_out_with_a_reason(db: Database) -> None:
    host = Host(db)
    host.report(t4(1), t4(1, address="0000:d8:00.0"))
    taken = handles(db)
    with db.read() as connection:
        (uuid, *_rest) = connection.execute(select(attach_handles.c.uuid).order_by(attach_handles.c.id)).scalars().all()
    other = t4(2, address="0000:d8:00.0")
    stolen = msgspec.structs.replace(other.deployables[0].handles[1], uuid=uuid)
    host.report(t4(1), with_units(other, (other.deployables[0].handles[0], stolen)))
    (found,) = list_hosts(db)
    assert [(problem.source, problem.code) for problem in found.problems] == [
        ("compute-1_0000:d8:00.0", "handle-uuid-taken")
    ]
    assert uuid in found.problems[0].message
    assert handles(db) == taken
