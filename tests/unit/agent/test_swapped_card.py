"""A card that is taken out of its slot, and one of the same model that is put in its place: from the kernel's files to the server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.databases import database
from tests.unit.drivers.hosts import SEED, T4, report

from cantle import simulate
from cantle.drivers.nvidia import NvidiaDriver
from cantle.engine.device import list_devices
from cantle.engine.intake import accept_report
from cantle.engine.intent import set_intent
from cantle.kernel import unit as units
from cantle.kernel import vfio
from cantle.model.device import Mode
from cantle.model.identity import LOCAL_ADMIN
from cantle.model.intent import Intent
from cantle.model.pci import PciAddress
from cantle.store.database import Database
from cantle.wire.inventory import InventoryReport

FIRST, SECOND = "00044bffff123456", "00044bffff654321"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    """An empty database."""
    with database("sqlite", tmp_path) as opened:
        yield opened
        opened.wakeups.stop()


def host(place: Path, serial: str | None, **about: object) -> simulate.SimulatedRoot:
    """The host with the T4, which has this serial number."""
    described = simulate.load("t4")
    functions = tuple(
        msgspec.structs.replace(one, serial=serial, **about) if one.address == T4 else one
        for one in described.functions
    )
    return simulate.build(msgspec.structs.replace(described, functions=functions), place)


def seen(db: Database, root: simulate.SimulatedRoot) -> tuple[str, dict[str, str]]:
    """The server's uuid of the T4 after the host has reported, and what is known of that very card."""
    said: InventoryReport = report(root, NvidiaDriver(), SEED)
    accept_report(db, "node1", said)
    (device,) = (one for one in list_devices(db) if one.address == T4)
    return device.uuid, device.vendor_board_info


def test_a_card_of_the_same_model_in_the_same_slot_is_another_device_and_has_not_its_intent(
    db: Database, tmp_path: Path
) -> None:
    before, said = seen(db, host(tmp_path / "1", FIRST))
    assert said["serial"] == "00-04-4b-ff-ff-12-34-56"
    assert said["gpu_uuid"].startswith("GPU-00044bff-ff12-")
    set_intent(db, LOCAL_ADMIN, "node1", Intent(T4, Mode.MDEV, {T4: "nvidia-223"}))
    after, said = seen(db, host(tmp_path / "2", SECOND))
    assert after != before
    assert said["serial"] == "00-04-4b-ff-ff-65-43-21"
    assert [one.intent.intent for one in list_devices(db) if one.address == T4] == [None]


def test_a_card_swapped_while_it_could_not_be_asked_is_noticed_when_it_can(db: Database, tmp_path: Path) -> None:
    """Asleep and without its driver it says nothing of itself. What it said before is not forgotten for that."""
    before, _ = seen(db, host(tmp_path / "1", FIRST))
    silent, said = seen(db, host(tmp_path / "2", SECOND, driver=None, mdev=None, power_state="D3cold"))
    assert silent == before
    assert said["serial"] == "00-04-4b-ff-ff-12-34-56"
    after, _ = seen(db, host(tmp_path / "3", SECOND))
    assert after != before


def test_a_card_that_goes_to_vfio_and_back_is_the_same(db: Database, tmp_path: Path) -> None:
    root = host(tmp_path / "1", FIRST)
    before, known = seen(db, root)
    unit = units.find(root, PciAddress.parse(T4))
    kept = vfio.originals(root, unit)
    vfio.apply(root, vfio.plan_bind(root, unit, load_module=True))
    assert vfio.is_bound(root, unit)
    assert seen(db, root) == (before, known)
    vfio.apply(root, vfio.plan_release(root, unit, kept))
    assert not vfio.is_bound(root, unit)
    assert seen(db, root) == (before, known)
