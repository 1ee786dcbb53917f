"""Pools: what is free of PCI devices, as people see it."""

from __future__ import annotations

import logging

import msgspec
import pytest
from tests.unit.engine.cloud import ALICE, Host, make_profile, t4, whole

from cantle.engine.device import list_devices
from cantle.engine.lease import create_lease
from cantle.engine.pool import list_pools
from cantle.errors import NotFound
from cantle.model.pool_view import PoolView
from cantle.store.database import Database


def card(number: int, *, node: int | None = 0, **labels: str) -> object:
    """A card of a host, lent whole."""
    return msgspec.structs.replace(whole(address=f"0000:{number:02x}:00.0"), numa_node=node, labels=labels)


def test_free_cards_are_counted_by_vendor_product_node_and_tags_and_slices_are_none(db: Database) -> None:
    Host(db).report(card(1), card(2), card(3, node=None), card(4, color="red"), t4(4))  # type: ignore[arg-type]
    assert list_pools(db) == [
        PoolView("compute-1", "10de", "20b0", None, "type-PCI", 1),
        PoolView("compute-1", "10de", "20b0", 0, "type-PCI", 2),
        PoolView("compute-1", "10de", "20b0", 0, "type-PCI", 1, {"color": "red"}),
    ]


def test_a_lease_takes_its_card_out_of_the_pools(db: Database) -> None:
    Host(db).report(card(1), card(2))  # type: ignore[arg-type]
    make_profile(db, "whole", [{"resources:PGPU": "1"}])
    create_lease(db, ALICE, profile_name="whole")
    assert [pool.count for pool in list_pools(db, hostname="compute-1")] == [1]
    create_lease(db, ALICE, profile_name="whole")
    assert list_pools(db) == []
    with pytest.raises(NotFound):
        list_pools(db, hostname="nowhere")


def test_a_tag_that_its_device_spec_drops_is_gone_with_the_next_report(db: Database) -> None:
    """Also from a card that is lent meanwhile."""
    host = Host(db)
    host.report(card(1, live_migratable="true"))  # type: ignore[arg-type]
    make_profile(db, "whole", [{"resources:PGPU": "1"}])
    create_lease(db, ALICE, profile_name="whole")
    host.report(card(1))  # type: ignore[arg-type]
    (device,) = list_devices(db)
    assert device.labels == {}


def test_pools_are_in_the_log_when_a_hosts_devices_have_changed(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "cantle.engine.pool")
    host = Host(db)
    host.report(card(1, rack="r7"))  # type: ignore[arg-type]
    host.report()
    assert [record.getMessage() for record in caplog.records] == [
        "pools of compute-1: 1 x 10de:20b0 type-PCI on node 0 rack=r7"
    ]
