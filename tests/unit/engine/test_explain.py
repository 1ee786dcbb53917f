"""Why not, asked of the database: a card out of service is told with its reason, and the others are not touched by it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from sqlalchemy import update
from tests.unit.engine.cloud import ADMIN, ALICE, Host, make_profile, t4, whole

from cantle.engine.capacity import list_capacity
from cantle.engine.deployable import list_deployables
from cantle.engine.device import list_devices, set_status
from cantle.engine.explain import explain
from cantle.engine.host import drain
from cantle.engine.intent import set_intent
from cantle.engine.lease import create_lease
from cantle.model.device import DeviceStatus, DeviceType, Health, Mode
from cantle.model.intent import Intent
from cantle.store.database import Database
from cantle.store.tables import hosts
from cantle.store.types import database_now
from cantle.wire.inventory import DeviceReport


def _maintain(db: Database) -> None:
    (card,) = list_devices(db, hostname="compute-1")
    set_status(db, ADMIN, card.uuid, DeviceStatus.MAINTAINING)


def _fail(db: Database) -> None:
    Host(db).report(t4(4, health=Health.FAILED))


def _away(db: Database) -> None:
    _set(db, last_seen=database_now(-3600.0))


def _never_heard(db: Database) -> None:
    _set(db, last_seen=None)


def _freeze(db: Database) -> None:
    _set(db, frozen_at=database_now())


def _set(db: Database, **values: object) -> None:
    with db.write() as connection:
        connection.execute(update(hosts).where(hosts.c.hostname == "compute-1").values(**values))


def _wish(db: Database) -> None:
    """A wish that the host has not followed yet."""
    set_intent(db, ADMIN, "compute-1", Intent("0000:af:00.0", Mode.MDEV, {"0000:af:00.0": "nvidia-223"}))


def _drain(db: Database) -> None:
    drain(db, ADMIN, "compute-1")


def _screen(address: str) -> DeviceReport:
    """The screen of a management controller, which is no accelerator."""
    return DeviceReport(
        address, DeviceType.GPU, "1a03", "ASPEED", "1a03", "2000", Mode.DISPLAY_ONLY, Health.OK, reason="no: a screen"
    )


def test_screens_are_no_candidates_and_what_offers_nothing_is_named(db: Database) -> None:
    """An operator read "3 cards: are display-only" before the one card that was his."""
    idle = msgspec.structs.replace(t4(0), deployables=(), mode=Mode.UNASSIGNABLE)
    Host(db).report(_screen("0000:03:00.0"), idle)
    Host(db, "compute-2").report(_screen("0000:04:00.0"))
    make_profile(db)
    found = explain(db, name="vgpu")
    (reason,) = found.groups[0].reasons
    assert (found.cards, reason.code, reason.cards, reason.hosts) == (1, "offers-nothing", 1, 1)
    assert reason.examples == ("compute-1 0000:af:00.0",)
    assert explain(db, name="vgpu", hostname="compute-1") == found
    assert found.summary == "group 0: 1 card (compute-1 0000:af:00.0): is unassignable and offers nothing"


def test_a_card_whose_driver_is_gone_says_so_and_not_that_its_lent_slices_should_be_given_back(db: Database) -> None:
    """After a kernel update without the vGPU driver: capacity had no reason, and explain advised to release leases."""
    host = Host(db)
    host.report(t4(1))
    make_profile(db)
    create_lease(db, ALICE, profile_name="vgpu")
    host.report(msgspec.structs.replace(t4(0), health=Health.DEGRADED, reason="no type is offered"))
    for hostname in (None, "compute-1"):
        (reason,) = explain(db, name="vgpu", hostname=hostname).groups[0].reasons
        assert reason.code == "offers-nothing"
    (units,) = list_capacity(db)
    assert (units.total, units.used, units.free, units.in_service) == (0, 1, 0, True)
    assert units.reason == "no type is offered"
    (deployable,) = list_deployables(db)
    assert (deployable.in_service, deployable.reason) == (True, "no type is offered")


@pytest.mark.parametrize(
    ("happens", "code"),
    [
        (_maintain, "in-maintenance"),
        (_fail, "not-healthy"),
        (_away, "host-down"),
        (_never_heard, "host-down"),
        (_freeze, "host-frozen"),
        (_drain, "host-drained"),
        (_wish, "intent-open"),
    ],
)
@pytest.mark.parametrize("hostname", [None, "compute-1"])
def test_a_card_out_of_service_is_told_with_its_reason(
    db: Database, happens: Callable[[Database], None], code: str, hostname: str | None
) -> None:
    Host(db).report(t4(4))
    Host(db, "compute-2").report(t4(4, host="compute-2", address="0000:b0:00.0"), whole(host="compute-2"))
    make_profile(db, "pair", [{"resources:VGPU": "2"}])
    well = ("compute-1", "compute-2") if hostname is None else ("compute-1",)
    assert explain(db, name="pair", hostname=hostname).fitting == well
    happens(db)
    found = explain(db, name="pair", hostname=hostname)
    assert found.fitting == well[1:]
    (reason,) = (one for one in found.groups[0].reasons if one.code != "other-class")
    assert (reason.code, reason.cards, reason.examples) == (code, 1, ("compute-1 0000:af:00.0",))
