"""A card and its virtual functions: while one is lent the other is not offered, whatever somebody does by hand on the host."""

from __future__ import annotations

import threading
from uuid import uuid4

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import insert, select
from tests.unit.engine.cloud import ALICE, Host, make_profile, mdev_units, whole
from tests.unit.engine.units import with_units

from cantle.engine.capacity import list_capacity
from cantle.engine.host import list_hosts
from cantle.engine.lease import create_lease, get_lease, release_lease
from cantle.engine.relatives import repair, withheld
from cantle.errors import NoCapacity
from cantle.keeper.keeper import Keeper
from cantle.model.attach_handle import AttachType
from cantle.model.attachment import Attachment
from cantle.model.device import Mode
from cantle.model.lease import LeaseState
from cantle.store import stock
from cantle.store.database import Database
from cantle.store.tables import attach_handles, claims
from cantle.wire.inventory import DeviceReport, HandleReport

CARD = "0000:3b:00.0"
VFS = ("0000:3b:10.0", "0000:3b:10.1")


def virtual() -> DeviceReport:
    """The card with two virtual functions in the place of the whole."""
    card = whole(address=CARD)
    units = tuple(
        HandleReport(vf, AttachType.PCI, {"domain": "0000", "bus": "3b", "device": "10", "function": vf[-1]})
        for vf in VFS
    )
    offered = msgspec.structs.replace(card.deployables[0], handles=units)
    return msgspec.structs.replace(card, mode=Mode.SRIOV, deployables=(offered,))


@pytest.fixture
def host(db: Database) -> Host:
    """A host with the card, lent whole, and a profile for it."""
    one = Host(db)
    one.report(whole(address=CARD))
    make_profile(db, "pgpu", [{"resources:PGPU": "1"}])
    return one


def free(db: Database) -> int:
    """Units that could be lent."""
    return sum(row.free for row in list_capacity(db))


def test_s4_7_virtual_functions_of_a_card_that_is_lent_whole_are_not_offered_until_it_is_back(
    db: Database, host: Host
) -> None:
    lease = create_lease(db, ALICE, profile_name="pgpu")
    host.obey()
    host.report(virtual())
    assert free(db) == 0
    with pytest.raises(NoCapacity):
        create_lease(db, ALICE, profile_name="pgpu")
    (told,) = list_hosts(db)
    assert [problem.code for problem in told.problems] == ["pci-relative-lent"]
    assert get_lease(db, ALICE, lease.uuid).state is LeaseState.ACTIVE, "what is lent stays lent"
    host.restart()
    host.report()
    assert free(db) == 0, "also after a restart"
    release_lease(db, ALICE, lease.uuid)
    host.report()
    assert free(db) == 0, "being taken back is not back"
    host.obey()
    host.report()
    assert free(db) == 2
    assert list_hosts(db)[0].problems == ()


def test_s4_7_a_card_is_free_only_when_all_its_virtual_functions_are(db: Database, host: Host) -> None:
    host.report(virtual())
    leases = [create_lease(db, ALICE, profile_name="pgpu") for _ in VFS]
    host.obey()
    host.report(whole(address=CARD))
    assert [problem.code for problem in list_hosts(db)[0].problems] == ["pci-relative-lent"]
    for lease in leases:
        assert free(db) == 0
        release_lease(db, ALICE, lease.uuid)
        host.obey()
        host.report()
    assert free(db) == 1


def by_hand(db: Database, key: str, *, lent: bool) -> None:
    """Write another unit of the card into the database, and a claim for it if it is lent: that of the lease there is."""
    with db.write() as connection:
        (row, *_) = connection.execute(select(attach_handles)).mappings()
        values = {**row, "uuid": str(uuid4()), "key": key, "present": True}
        del values["id"]
        connection.execute(insert(attach_handles), values)
        made = connection.scalar(select(attach_handles.c.id).where(attach_handles.c.key == key))
        if lent:
            (claim,) = connection.execute(select(claims)).mappings()
            connection.execute(insert(claims), {**claim, "id": claim["id"] + 1, "attach_handle_id": made})


@pytest.mark.parametrize("kind", ["MIG instances", "slices"])
def test_parts_made_by_hand_of_a_card_that_a_container_has_whole_are_not_offered(
    db: Database, host: Host, kind: str
) -> None:
    """Whole cards and MIG instances go into containers by their nodes: they are relatives as functions are, and so are slices."""
    card = whole(address=CARD)
    by_nodes = tuple(msgspec.structs.replace(one, attach_type=AttachType.NODES) for one in card.deployables[0].handles)
    instances = tuple(msgspec.structs.replace(by_nodes[0], key=f"gi{number}ci0") for number in (1, 2))
    parts = instances if kind == "MIG instances" else mdev_units(2, address=CARD)
    host.report(with_units(card, by_nodes))
    lease = create_lease(db, ALICE, profile_name="pgpu", attachment=Attachment.parse("lxc:c1"))
    host.obey()
    host.report(with_units(card, parts))
    assert free(db) == 0
    release_lease(db, ALICE, lease.uuid)
    host.obey()
    host.report()
    assert free(db) == 2


def test_units_of_the_fake_driver_are_no_parts_of_a_card_though_one_has_its_address(db: Database, host: Host) -> None:
    card = whole(address=CARD)
    (unit,) = card.deployables[0].handles
    units = tuple(msgspec.structs.replace(unit, key=key, attach_type=AttachType.TEST_PCI) for key in (CARD, *VFS))
    host.report(with_units(card, units))
    create_lease(db, ALICE, profile_name="pgpu")
    host.obey()
    host.restart()
    host.report()
    repair(db)
    assert free(db) == 2


def test_s4_7_rows_that_offer_a_card_beside_its_lent_function_are_mended_when_a_keeper_starts(
    db: Database, host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing of ours writes such; somebody has restored a table by itself."""
    host.report(virtual())
    lease = create_lease(db, ALICE, profile_name="pgpu")
    host.obey()
    repair(db)
    assert not caplog.records, "nothing is wrong"
    by_hand(db, CARD, lent=False)
    assert free(db) == 2
    Keeper(db, stop=threading.Event()).round()
    assert free(db) == 1, "the other virtual function is no relative of the lent one"
    assert "could be lent though" in caplog.text
    with db.write() as connection:
        assert stock.refresh_wrong(connection) == 0, "what hosts are thought to have free was counted anew"
    caplog.clear()
    repair(db)
    assert not caplog.records, "once is enough"
    host.report()
    assert (free(db), get_lease(db, ALICE, lease.uuid).state) == (1, LeaseState.ACTIVE)


def test_s4_7_a_card_that_is_lent_with_a_part_of_it_is_told_and_nothing_of_it_is_lent_until_all_is_back(
    db: Database, host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    lease = create_lease(db, ALICE, profile_name="pgpu")
    host.obey()
    by_hand(db, VFS[0], lent=True)
    repair(db)
    assert "is lent whole, and so is 0000:3b:10.0" in caplog.text
    assert host.report().changed, "the report of before is looked at again"
    assert "pci-relatives-lent-together" in [problem.code for problem in list_hosts(db)[0].problems]
    assert get_lease(db, ALICE, lease.uuid).state is LeaseState.ACTIVE, "nobody loses what he has"
    with pytest.raises(NoCapacity):
        create_lease(db, ALICE, profile_name="pgpu")
    release_lease(db, ALICE, lease.uuid)
    host.obey()
    host.report()
    assert (free(db), list_hosts(db)[0].problems) == (1, ())


@given(st.sets(st.sampled_from([CARD, *VFS])), st.sets(st.sampled_from([CARD, *VFS])))
def test_nothing_that_is_lent_is_held_back_and_nothing_is_offered_beside_a_relative(
    reported: set[str], lent: set[str]
) -> None:
    held = withheld(CARD, reported, lent)
    assert not held & lent
    for key in (reported | lent) - held - lent:
        assert not (key == CARD and lent & set(VFS))
        assert not (key != CARD and CARD in lent)
