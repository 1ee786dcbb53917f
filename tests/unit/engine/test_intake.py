"""What reports change, and what they never change."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.engine.cloud import (
    ADMIN,
    T4_2B,
    Host,
    capacity_of,
    t4,
    whole,
)
from tests.unit.engine.units import handles, with_units

from cantle.engine.attribute import create_attribute, delete_attribute, list_attributes
from cantle.engine.deployable import list_deployables
from cantle.engine.device import get_device, list_devices, set_status
from cantle.engine.host import list_hosts
from cantle.engine.intake import accept_report
from cantle.errors import Conflict
from cantle.model.device import DeviceStatus, Health, Mode
from cantle.store.database import Database
from cantle.wire.inventory import HandleReport, Problem


def test_the_seeds_card_becomes_device_deployable_provider_handles_and_attributes(db: Database) -> None:
    """Spec S0.3, S0.5, S0.6 and S0.9."""
    assert Host(db).report(t4(16)).changed
    (device,) = list_devices(db)
    assert (device.hostname, device.address, device.mode, device.health) == (
        "compute-1",
        "0000:af:00.0",
        Mode.MDEV,
        Health.OK,
    )
    assert device.status is DeviceStatus.ENABLED
    assert device.control_path is not None
    assert device.control_path.type == "PCI"
    assert device.control_path.info == {"domain": "0000", "bus": "af", "device": "00", "function": "0"}
    (deployable,) = list_deployables(db)
    assert (deployable.name, deployable.resource_class, deployable.total) == ("compute-1_0000:af:00.0", "VGPU", 16)
    assert deployable.traits == ("OWNER_CYBORG", T4_2B)
    assert deployable.device_uuid == device.uuid
    assert {one.key: one.value for one in deployable.attributes} == {
        "rc": "VGPU",
        "trait0": "OWNER_CYBORG",
        "trait1": T4_2B,
        "vendor": "nvidia",
    }
    assert len({uuid for uuid, _ in handles(db).values()}) == 16


def test_a_parent_that_is_no_pci_function_has_its_name_for_a_control_path(db: Database) -> None:
    unit = HandleReport("mtty-1_0", "MDEV", {"parent": "mtty", "asked_type": "mtty-1", "vgpu_mark": "mtty-1_0"})  # type: ignore[arg-type]
    device = msgspec.structs.replace(with_units(t4(), (unit,)), address="mtty", vendor_id="", product_id="")
    Host(db).report(device)
    (found,) = list_devices(db)
    assert found.control_path is not None
    assert (found.control_path.type, found.control_path.info) == ("PARENT", {"parent": "mtty"})


def test_a_known_digest_writes_nothing_and_is_answered_with_the_generation(db: Database) -> None:
    host = Host(db)
    first = host.report(t4())
    with db.statements() as sent:
        again = host.report()
    assert (again.generation, again.changed) == (first.generation, False)
    assert len(sent) == 1
    assert sent[0].lstrip().startswith("SELECT")


def test_a_device_that_is_not_named_is_missing_and_nothing_of_it_is_deleted(db: Database) -> None:
    host = Host(db)
    host.report(t4(), whole())
    before = handles(db)
    host.report(whole())
    health = {device.address: (device.health, device.reason) for device in list_devices(db)}
    assert health["0000:af:00.0"] == (Health.MISSING, "its host's last report did not name it")
    assert health["0000:3b:00.0"][0] is Health.OK
    assert handles(db) == before
    in_service = {one.name: one.in_service for one in list_deployables(db)}
    assert in_service == {"compute-1_0000:af:00.0": False, "compute-1_0000:3b:00.0": True}


def test_a_discovery_that_returns_nothing_once_deletes_nothing(db: Database) -> None:
    host = Host(db)
    host.report(t4(), whole())
    before, providers = handles(db), [one.rp_uuid for one in list_deployables(db)]
    host.devices = ()
    host.report()
    assert {device.health for device in list_devices(db)} == {Health.MISSING}
    assert handles(db) == before
    host.report(t4(), whole())
    assert {device.health for device in list_devices(db)} == {Health.OK}
    assert (handles(db), [one.rp_uuid for one in list_deployables(db)]) == (before, providers)


def test_a_device_that_is_back_is_as_it_was(db: Database) -> None:
    host = Host(db)
    host.report(t4(), whole())
    before, providers = handles(db), [one.rp_uuid for one in list_deployables(db)]
    host.report(whole())
    host.report(t4(), whole())
    assert {device.health for device in list_devices(db)} == {Health.OK}
    assert [device.reason for device in list_devices(db)] == [None, None]
    assert handles(db) == before
    assert [one.rp_uuid for one in list_deployables(db)] == providers


def test_maintenance_is_the_operators_and_outlives_reports(db: Database) -> None:
    host = Host(db)
    host.report(t4())
    (device,) = list_devices(db)
    set_status(db, ADMIN, device.uuid, DeviceStatus.MAINTAINING)
    host.report(t4(8))
    assert get_device(db, device.uuid).status is DeviceStatus.MAINTAINING
    capacity = capacity_of(db)
    assert (capacity.total, capacity.free, capacity.in_service) == (8, 0, False)
    assert capacity.reason == "0000:af:00.0 is in maintenance"


def test_what_an_operator_wrote_outlives_reports_and_is_not_overwritten(db: Database) -> None:
    host = Host(db)
    host.report(t4())
    (deployable,) = list_deployables(db)
    create_attribute(db, ADMIN, deployable_id=deployable.id, key="rack", value="r7")
    create_attribute(db, ADMIN, deployable_id=deployable.id, key="numa", value="mine")
    (offered,) = t4(6).deployables
    device = msgspec.structs.replace(
        t4(6), deployables=(msgspec.structs.replace(offered, attributes={"numa": "theirs", "vendor": "NVIDIA"}),)
    )
    host.report(device)
    facts = {one.key: one.value for one in list_attributes(db, deployable_id=deployable.id)}
    assert (facts["rack"], facts["numa"], facts["vendor"]) == ("r7", "mine", "NVIDIA")


def test_attributes_that_exist_or_come_from_the_host_are_not_the_operators(db: Database) -> None:
    Host(db).report(t4())
    (deployable,) = list_deployables(db)
    with pytest.raises(Conflict) as exists:
        create_attribute(db, ADMIN, deployable_id=deployable.id, key="rc", value="PGPU")
    assert exists.value.code == "attribute-exists"
    (rc,) = list_attributes(db, key="rc")
    with pytest.raises(Conflict) as reported:
        delete_attribute(db, ADMIN, rc.uuid)
    assert reported.value.code == "attribute-reported"


def test_what_the_agent_could_not_read_is_shown_with_its_host(db: Database) -> None:
    message = msgspec.structs.replace(
        Host(db).message(), problems=(Problem("0000:5e:00.0", "unreadable", "no config"),), digest="d"
    )
    accept_report(db, "compute-1", message)
    (host,) = list_hosts(db)
    assert [tuple(problem) for problem in host.problems] == [("0000:5e:00.0", "unreadable", "no config")]


def test_the_number_of_statements_of_a_changed_report_does_not_depend_on_its_size(db: Database) -> None:
    counts = []
    for name, cards in (("small", 3), ("large", 60)):
        host = Host(db, name)
        host.report(*(t4(16, host=name, address=f"0000:{bus:02x}:00.0") for bus in range(cards)))
        host.restart()
        with db.statements() as sent:
            host.report(*(t4(15, host=name, address=f"0000:{bus:02x}:00.0") for bus in range(1, cards + 1)))
        counts.append(len(sent))
    assert counts[0] == counts[1] <= 18


def test_a_card_that_goes_missing_is_in_the_servers_log_once_and_so_is_its_return(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """At three in the morning the journal had not a word of a card that fell off its bus."""
    host = Host(db)
    host.report(t4(1), whole())
    assert not caplog.records
    host.report(t4(1))
    host.report(t4(1))
    host.report(t4(1), whole())
    assert [record.getMessage() for record in caplog.records] == [
        "device 0000:3b:00.0 of compute-1 is missing (was ok): its host's last report did not name it",
        "device 0000:3b:00.0 of compute-1 is ok (was missing)",
    ]
