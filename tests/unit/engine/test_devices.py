"""Devices, deployables and attributes: looked up, listed, and what cannot be done with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from uuid import uuid4

import msgspec
import pytest
from tests.unit.engine.cloud import ADMIN, Host, t4, whole
from tests.unit.engine.following import ADDRESS, cut

from cantle.engine.attribute import create_attribute, delete_attribute, get_attribute, list_attributes
from cantle.engine.deployable import get_deployable, list_deployables, program
from cantle.engine.device import get_device, list_devices, set_status
from cantle.engine.event import list_events
from cantle.engine.intent import clear_intent, set_intent
from cantle.errors import BadRequest, CantleError, Conflict, NotFound
from cantle.model.device import DeviceStatus, Mode
from cantle.model.event import Outlets
from cantle.model.intent import Intent
from cantle.model.page import Page
from cantle.model.precondition import Precondition
from cantle.store.database import Database


@pytest.fixture
def hosts(db: Database) -> list[Host]:
    """Three hosts with two cards each."""
    made = [Host(db, f"compute-{number}") for number in (2, 1, 3)]
    for host in made:
        host.report(t4(2, host=host.name), whole(host=host.name))
    return made


def test_devices_are_filtered_by_exactly_these_values(db: Database, hosts: list[Host]) -> None:
    assert len(list_devices(db)) == 6
    assert {device.hostname for device in list_devices(db, hostname="compute-1")} == {"compute-1"}
    assert len(list_devices(db, type="GPU", vendor="10de", hostname="compute-1")) == 2
    for nothing in ({"type": "FPGA"}, {"vendor": "1002"}, {"hostname": "compute"}, {"vendor": "10DE"}):
        assert list_devices(db, **nothing) == []  # type: ignore[arg-type]


LISTS: list[tuple[Callable[[Database, Page | None], Sequence[object]], list[str]]] = [
    (
        lambda db, page: list_devices(db, page=page),
        ["created_at", "hostname", "address", "type", "vendor", "model", "uuid"],
    ),
    (lambda db, page: list_deployables(db, page=page), ["created_at", "name", "uuid"]),
    (lambda db, page: list_attributes(db, page=page), ["created_at", "key", "uuid"]),
]


@pytest.mark.parametrize(("listed", "keys"), LISTS)
def test_every_list_is_walked_page_by_page_in_every_order(
    db: Database, hosts: list[Host], listed: Callable[[Database, Page | None], Sequence[object]], keys: list[str]
) -> None:
    everything = {one.uuid for one in listed(db, None)}  # type: ignore[attr-defined]
    for key in keys:
        for direction in ("asc", "desc"):
            walked: list[str] = []
            values: list[object] = []
            while part := listed(
                db, Page(limit=4, marker=walked[-1] if walked else None, sort_key=key, sort_dir=direction)
            ):
                walked += [one.uuid for one in part]  # type: ignore[attr-defined]
                values += [getattr(one, key) for one in part]
            assert len(walked) == len(everything)
            assert set(walked) == everything
            assert values == sorted(values, reverse=direction == "desc")  # type: ignore[type-var]


def test_a_page_of_deployables_has_its_attributes(db: Database, hosts: list[Host]) -> None:
    for deployable in list_deployables(db, page=Page(limit=2, sort_key="name")):
        assert deployable.attributes
        assert {one.deployable_id for one in deployable.attributes} == {deployable.id}
        assert get_deployable(db, deployable.uuid) == deployable


def test_status_is_set_once_and_again(db: Database, hosts: list[Host]) -> None:
    device = list_devices(db)[0]
    for _ in range(2):
        assert set_status(db, ADMIN, device.uuid, DeviceStatus.MAINTAINING).status is DeviceStatus.MAINTAINING
    changed = get_device(db, device.uuid)
    assert changed.status is DeviceStatus.MAINTAINING
    assert changed.updated_at is not None
    assert set_status(db, ADMIN, device.uuid, DeviceStatus.ENABLED).status is DeviceStatus.ENABLED


@pytest.mark.parametrize("uuid", ["6d1f1e5e-0f0e-4c57-9a53-4f0f6a1b2c3d", "no-uuid", ""])
def test_what_is_not_there(db: Database, hosts: list[Host], uuid: str) -> None:
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: get_device(db, uuid), "device-not-found"),
        (lambda: set_status(db, ADMIN, uuid, DeviceStatus.ENABLED), "device-not-found"),
        (lambda: get_attribute(db, uuid), "attribute-not-found"),
        (lambda: delete_attribute(db, ADMIN, uuid), "attribute-not-found"),
    ]
    for call, code in calls:
        with pytest.raises(NotFound) as caught:
            call()
        assert caught.value.code == code


def test_a_deployable_is_named_by_a_uuid(db: Database, hosts: list[Host]) -> None:
    calls: list[Callable[[str], object]] = [partial(get_deployable, db), partial(program, db, ADMIN)]
    for call in calls:
        for uuid, kind, code in ((str(uuid4()), NotFound, "deployable-not-found"), ("no-uuid", BadRequest, "bad-uuid")):
            with pytest.raises(CantleError) as caught:
                call(uuid)
            assert type(caught.value) is kind
            assert caught.value.code == code


def test_nothing_can_be_programmed(db: Database, hosts: list[Host]) -> None:
    """Spec S3.11."""
    with pytest.raises(Conflict) as caught:
        program(db, ADMIN, list_deployables(db)[0].uuid)
    assert caught.value.code == "device-not-programmable"
    assert "VGPU" in caught.value.message


def test_an_operators_attribute_is_made_found_and_deleted(db: Database, hosts: list[Host]) -> None:
    deployable = list_deployables(db)[0]
    made = create_attribute(db, ADMIN, deployable_id=deployable.id, key="rack", value="r7")
    assert get_attribute(db, made.uuid) == made
    assert list_attributes(db, deployable_id=deployable.id, key="rack") == [made]
    assert made in get_deployable(db, deployable.uuid).attributes
    delete_attribute(db, ADMIN, made.uuid)
    assert list_attributes(db, key="rack") == []


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"deployable_id": "1"}, "bad-attribute"),
        ({"deployable_id": True}, "bad-attribute"),
        ({"deployable_id": None}, "bad-attribute"),
        ({"deployable_id": 99_999_999}, "deployable-not-found"),
        ({"key": ""}, "bad-attribute"),
        ({"key": 5}, "bad-attribute"),
        ({"key": "k" * 256}, "bad-attribute"),
        ({"value": None}, "bad-attribute"),
        ({"value": "v" * 4097}, "bad-attribute"),
    ],
)
def test_attributes_that_cannot_be(db: Database, hosts: list[Host], wrong: dict[str, object], code: str) -> None:
    good: dict[str, object] = {"deployable_id": list_deployables(db)[0].id, "key": "rack", "value": "r7"}
    with pytest.raises(CantleError) as caught:
        create_attribute(db, ADMIN, **{**good, **wrong})
    assert caught.value.code == code
    assert list_attributes(db, key="rack") == []


def test_what_operators_want_a_card_to_be_is_told(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(db, "outlets", Outlets(webhook=True))
    Host(db).report(cut())
    device = set_intent(db, ADMIN, "compute-1", Intent(ADDRESS, Mode.PASSTHROUGH))
    seen = Precondition(match=frozenset({device.intent.intent.etag})) if device.intent.intent else None
    clear_intent(db, ADMIN, "compute-1", ADDRESS, precondition=seen)
    told = [msgspec.json.decode(one.body)["data"] for one in list_events(db, about=device.uuid, type="device.intent")]
    its = {"uuid": device.uuid, "hostname": "compute-1", "address": ADDRESS, "model": device.model, "by": "root"}
    assert told == [{**its, "mode": "passthrough", "version": 1}, {**its, "mode": None, "version": 2}]
