"""What reports change, and what they never change."""

from __future__ import annotations

from uuid import uuid4

import msgspec
import pytest
from sqlalchemy import select, update
from tests.unit.engine.cloud import (
    ADMIN,
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

from cantle.engine.attribute import create_attribute, delete_attribute, list_attributes
from cantle.engine.bind import Unbind, unbind
from cantle.engine.deployable import list_deployables
from cantle.engine.device import get_device, list_devices, set_status
from cantle.engine.host import list_hosts
from cantle.engine.intake import accept_report
from cantle.engine.results import accept_results
from cantle.engine.work import current_work, wait_work
from cantle.errors import BadRequest, Conflict
from cantle.model.device import DeviceStatus, Health, Mode
from cantle.store.database import Database
from cantle.store.tables import attach_handles, hosts
from cantle.store.types import database_now
from cantle.wire.inventory import DeviceReport, HandleReport, Problem
from cantle.wire.work import Results


def handles(db: Database) -> dict[str, tuple[str, bool]]:
    """uuid and ``present`` of every handle by key."""
    with db.read() as connection:
        rows = connection.execute(select(attach_handles.c.key, attach_handles.c.uuid, attach_handles.c.present))
        return {row.key: (row.uuid, bool(row.present)) for row in rows}


def with_units(device: DeviceReport, units: tuple[HandleReport, ...]) -> DeviceReport:
    """The device offering other units."""
    (offered,) = device.deployables
    return msgspec.structs.replace(device, deployables=(msgspec.structs.replace(offered, handles=units),))


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


def test_a_sign_of_life_is_written_once_a_minute_at_most(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(db)
    host.report(t4())
    rewind(db, 400)
    assert not list_hosts(db)[0].up
    host.report()
    assert not list_hosts(db)[0].up, "within the minute nothing is written"
    monkeypatch.setattr("cantle.engine.heartbeat.EVERY_S", 0.0)
    wait_work(db, "compute-1", -1, 0)
    assert list_hosts(db)[0].up, "asking for work is a sign of life too"


def rewind(db: Database, seconds: float) -> None:
    """Let so much time pass since every host was heard from."""
    with db.write() as connection:
        connection.execute(update(hosts).values(last_seen=database_now(-seconds)))


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


def test_an_adopted_unit_keeps_its_own_uuid(db: Database) -> None:
    """Spec S1.3: an mdev that exists already and nobody holds."""
    existing = str(uuid4())
    first, second = mdev_units(2)
    Host(db).report(with_units(t4(), (msgspec.structs.replace(first, uuid=existing), second)))
    assert handles(db)["nvidia-223_0"] == (existing, True)


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


BAD = {
    "its address is empty": msgspec.structs.replace(t4(), address=""),
    "not four lower-case hex digits": msgspec.structs.replace(t4(), vendor_id="10DE"),
    "no resource class": msgspec.structs.replace(
        t4(), deployables=(msgspec.structs.replace(t4().deployables[0], resource_class="v gpu"),)
    ),
    "no trait": msgspec.structs.replace(
        t4(), deployables=(msgspec.structs.replace(t4().deployables[0], traits=("a b",)),)
    ),
    "two units of compute-1_0000:af:00.0 have one key": with_units(t4(), mdev_units(1) * 2),
    "says no asked_type": with_units(t4(), (HandleReport("k", "MDEV", {"domain": "0"}),)),  # type: ignore[arg-type]
    "says no bus, device, function": with_units(t4(), (HandleReport("k", "PCI", {"domain": "0"}),)),  # type: ignore[arg-type]
    "in lower case with hyphens": with_units(t4(), (msgspec.structs.replace(mdev_units(1)[0], uuid="X"),)),
    "its model is empty or longer": msgspec.structs.replace(t4(), model="m" * 256),
    "two of its deployables have one name": msgspec.structs.replace(t4(), deployables=t4().deployables * 2),
    "the name of deployable ''": msgspec.structs.replace(
        t4(), deployables=(msgspec.structs.replace(t4().deployables[0], name=""),)
    ),
    "the key of an attribute": msgspec.structs.replace(
        t4(), deployables=(msgspec.structs.replace(t4().deployables[0], attributes={"": "x"}),)
    ),
    "the key of a unit": with_units(t4(), (msgspec.structs.replace(mdev_units(1)[0], key=""),)),
}


@pytest.mark.parametrize("reason", BAD)
def test_one_device_that_cannot_be_kept_spoils_no_other(sqlite: Database, reason: str) -> None:
    host = Host(sqlite)
    host.report(BAD[reason], whole())
    assert [device.address for device in list_devices(sqlite)] == ["0000:3b:00.0"]
    (problem,) = list_hosts(sqlite)[0].problems
    assert problem.code == "device-report-unusable"
    assert reason in problem.message


def test_a_known_device_whose_report_cannot_be_kept_is_out_of_service_with_the_reason(db: Database) -> None:
    host = Host(db)
    host.report(t4(2), whole())
    before = handles(db)
    host.report(with_units(t4(), mdev_units(1) * 2), whole())
    device = next(one for one in list_devices(db) if one.address == "0000:af:00.0")
    assert device.health is Health.FAILED
    assert "have one key" in (device.reason or "")
    assert handles(db) == before
    host.report(t4(2), whole())
    assert {one.health for one in list_devices(db)} == {Health.OK}


def test_a_device_or_name_or_unit_reported_twice_counts_once(sqlite: Database) -> None:
    host = Host(sqlite)
    same_name = msgspec.structs.replace(t4(), address="0000:d8:00.0")
    uuid = str(uuid4())
    units = (msgspec.structs.replace(mdev_units(1)[0], uuid=uuid),)
    same_unit = with_units(t4(address="0000:d9:00.0"), units)
    same_unit_again = with_units(t4(address="0000:da:00.0"), units)
    host.report(t4(1), t4(2), same_name, same_unit, same_unit_again)
    assert [device.address for device in list_devices(sqlite)] == ["0000:af:00.0", "0000:d9:00.0"]
    messages = " ".join(problem.message for problem in list_hosts(sqlite)[0].problems)
    for words in ("0000:af:00.0 twice", "a deployable compute-1_0000:af:00.0 twice", f"a unit {uuid} twice"):
        assert words in messages


def test_what_the_agent_could_not_read_is_shown_with_its_host(db: Database) -> None:
    message = msgspec.structs.replace(
        Host(db).message(), problems=(Problem("0000:5e:00.0", "unreadable", "no config"),), digest="d"
    )
    accept_report(db, "compute-1", message)
    (host,) = list_hosts(db)
    assert [tuple(problem) for problem in host.problems] == [("0000:5e:00.0", "unreadable", "no config")]


def test_an_earlier_life_of_an_agent_is_fenced_off(db: Database) -> None:
    host = Host(db)
    host.report(t4())
    late, results = host.message(), Results(host.start, 1, ())
    host.restart()
    assert not host.report().changed, "a new life with the same inventory writes no inventory"
    for call in (lambda: accept_report(db, "compute-1", late), lambda: accept_results(db, "compute-1", results)):
        with pytest.raises(Conflict) as caught:
            call()
        assert caught.value.code == "agent-fenced"
    assert list_hosts(db)[0].agent_start == host.start


def test_an_agent_reports_before_it_sends_results(db: Database) -> None:
    host = Host(db)
    host.report(t4())
    host.restart()
    with pytest.raises(Conflict) as caught:
        accept_results(db, "compute-1", Results(host.start, 1, ()))
    assert caught.value.code == "report-first"


def test_another_protocol_is_refused(db: Database) -> None:
    host = Host(db)
    with pytest.raises(Conflict) as report:
        accept_report(db, "compute-1", msgspec.structs.replace(host.message(), protocol=99))
    with pytest.raises(Conflict) as results:
        accept_results(db, "compute-1", Results(host.start, 1, (), protocol=99))
    assert report.value.code == results.value.code == "protocol-mismatch"


@pytest.mark.parametrize("name", ["", "a b", "-x", "x" * 256, "a/b", "späth"])
def test_a_host_name_that_is_none_is_refused(sqlite: Database, name: str) -> None:
    with pytest.raises(BadRequest) as caught:
        accept_report(sqlite, name, Host(sqlite).message())
    assert caught.value.code == "bad-hostname"
    assert list_hosts(sqlite) == []


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
