"""Reports, or parts of them, that are not taken in."""

from __future__ import annotations

from uuid import uuid4

import msgspec
import pytest
from tests.unit.engine.cloud import (
    Host,
    mdev_units,
    t4,
    whole,
)
from tests.unit.engine.units import handles, with_units

from cantle.engine.device import list_devices
from cantle.engine.host import list_hosts
from cantle.engine.intake import accept_report
from cantle.engine.results import accept_results
from cantle.errors import BadRequest, Conflict
from cantle.model.attach_handle import AttachType
from cantle.model.device import Health
from cantle.store.database import Database
from cantle.wire.inventory import HandleReport
from cantle.wire.work import Results

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
    "the card whole and parts of it": with_units(
        t4(),
        tuple(
            HandleReport(key, AttachType.PCI, dict.fromkeys(("domain", "bus", "device", "function"), "0"))
            for key in ("0000:af:00.0", "0000:af:10.0")
        ),
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
