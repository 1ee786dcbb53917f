"""Accelerator requests: who sees them, who deletes them, and whose they are."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

import msgspec
import pytest
from tests.unit.engine.cloud import (
    ADMIN,
    ALICE,
    BOB,
    NOVA_FOR_ADMIN,
    NOVA_FOR_ALICE,
    NOVA_FOR_BOB,
    Host,
    bound,
    capacity_of,
    make_profile,
    t4,
)

from cantle.engine.arq import create_arqs, delete_arqs, delete_arqs_of_instance, get_arq, list_arqs
from cantle.engine.bind import Bind, Unbind, bind, unbind
from cantle.engine.work import current_work
from cantle.errors import BadRequest, Forbidden, Locked, NotFound
from cantle.model.arq import ArqState
from cantle.model.identity import Identity
from cantle.model.page import Page
from cantle.store.database import Database


@pytest.fixture
def host(db: Database) -> Host:
    """A host with four vGPUs, and a profile for them."""
    one = Host(db)
    one.report(t4(4))
    make_profile(db, "vgpu")
    return one


def test_n_groups_of_m_make_one_request_per_accelerator_in_order(db: Database) -> None:
    """Spec S3.4."""
    make_profile(
        db,
        "mixed",
        [
            {"resources:VGPU": "2", "trait:CUSTOM_B": "required", "trait:CUSTOM_A": "required"},
            {"resources:PGPU": "1", "trait:HW_GPU_API_VULKAN": "forbidden", "resources:FPGA": 1},
        ],
    )
    arqs = create_arqs(db, ALICE, "mixed")
    assert [(arq.group_id, arq.resource_class, arq.required, arq.forbidden) for arq in arqs] == [
        (0, "VGPU", ("CUSTOM_A", "CUSTOM_B"), ()),
        (0, "VGPU", ("CUSTOM_A", "CUSTOM_B"), ()),
        (1, "PGPU", (), ("HW_GPU_API_VULKAN",)),
        (1, "FPGA", (), ("HW_GPU_API_VULKAN",)),
    ]
    assert {(arq.state, arq.project_id, arq.profile_name) for arq in arqs} == {
        (ArqState.INITIAL, "alice-project", "mixed")
    }
    assert list_arqs(db, ALICE) == arqs
    assert [get_arq(db, ALICE, arq.uuid) for arq in arqs] == arqs


@pytest.mark.parametrize("name", ["absent", "", "a b"])
def test_requests_of_an_unknown_profile_are_not_made(db: Database, name: str) -> None:
    with pytest.raises(NotFound) as caught:
        create_arqs(db, ALICE, name)
    assert caught.value.code == "profile-not-found"


def test_a_tenant_sees_his_own_an_administrator_all_and_one_without_a_project_none(db: Database, host: Host) -> None:
    (mine,) = create_arqs(db, ALICE, "vgpu")
    (yours,) = create_arqs(db, BOB, "vgpu")
    assert [arq.uuid for arq in list_arqs(db, ALICE)] == [mine.uuid]
    assert {arq.uuid for arq in list_arqs(db, ADMIN)} == {mine.uuid, yours.uuid}
    assert list_arqs(db, Identity("nobody", None)) == []
    for foreign in (yours.uuid, str(uuid4())):
        with pytest.raises(NotFound) as caught:
            get_arq(db, ALICE, foreign)
        assert caught.value.code == "arq-not-found"
    with pytest.raises(BadRequest) as malformed:
        get_arq(db, ALICE, "no-uuid")
    assert malformed.value.code == "bad-uuid"


def test_a_service_token_with_an_instance_lifts_the_project_filter_and_nothing_else_does(
    db: Database, host: Host
) -> None:
    instance = str(uuid4())
    (arq,) = bound(db, host, instance=instance)
    assert [one.uuid for one in list_arqs(db, NOVA_FOR_BOB, instance=instance)] == [arq.uuid]
    assert list_arqs(db, BOB, instance=instance) == []
    assert list_arqs(db, NOVA_FOR_BOB) == []


def test_resolved_alone_leaves_out_what_is_on_the_way(db: Database, host: Host) -> None:
    (done,) = bound(db, host)
    create_arqs(db, ALICE, "vgpu")
    assert [arq.uuid for arq in list_arqs(db, ALICE, resolved=True)] == [done.uuid]


def test_resolved_of_an_instance_waits_for_all_of_its_requests(db: Database, host: Host) -> None:
    instance = str(uuid4())
    (arq,) = create_arqs(db, NOVA_FOR_ALICE, "vgpu")
    bind(db, NOVA_FOR_ALICE, [Bind(arq.uuid, "compute-1", capacity_of(db).rp_uuid, instance)])
    with pytest.raises(Locked) as caught:
        list_arqs(db, NOVA_FOR_ALICE, instance=instance, resolved=True)
    assert caught.value.code == "arqs-not-resolved"
    host.obey()
    assert [one.state for one in list_arqs(db, NOVA_FOR_ALICE, instance=instance, resolved=True)] == [ArqState.BOUND]
    assert list_arqs(db, NOVA_FOR_ALICE, instance=str(uuid4()), resolved=True) == []


def test_a_page_of_an_instance_does_not_hide_that_another_of_its_requests_is_on_the_way(
    db: Database, host: Host
) -> None:
    instance, provider = str(uuid4()), capacity_of(db).rp_uuid
    asked = create_arqs(db, NOVA_FOR_ALICE, "vgpu") + create_arqs(db, NOVA_FOR_ALICE, "vgpu")
    bind(db, NOVA_FOR_ALICE, [Bind(arq.uuid, "compute-1", provider, instance) for arq in asked])
    work = current_work(db, "compute-1")
    host.obey(msgspec.structs.replace(work, wanted=work.wanted[:1]))
    for direction in ("asc", "desc"):
        page = Page(limit=1, sort_dir=direction)
        assert len(list_arqs(db, NOVA_FOR_ALICE, instance=instance, page=page)) == 1
        with pytest.raises(Locked):
            list_arqs(db, NOVA_FOR_ALICE, instance=instance, resolved=True, page=page)
    host.obey()
    assert len(list_arqs(db, NOVA_FOR_ALICE, instance=instance, resolved=True, page=Page(limit=1))) == 1


def test_an_instance_is_named_by_a_uuid(db: Database) -> None:
    for touch in (
        lambda: list_arqs(db, ALICE, instance="vm"),
        lambda: delete_arqs_of_instance(db, NOVA_FOR_ALICE, "vm"),
    ):
        with pytest.raises(BadRequest) as caught:
            touch()
        assert caught.value.code == "bad-uuid"


def test_delete_takes_what_exists_and_names_the_rest(db: Database, host: Host) -> None:
    """Contract section 7.1 #3: the peer deletes nothing when one is missing, and Nova takes it for done."""
    (mine,) = create_arqs(db, ALICE, "vgpu")
    (yours,) = create_arqs(db, BOB, "vgpu")
    absent = str(uuid4())
    with pytest.raises(NotFound) as caught:
        delete_arqs(db, ALICE, [absent, mine.uuid, "no-uuid", yours.uuid])
    assert caught.value.details["arqs"] == [absent, "no-uuid", yours.uuid]
    assert [arq.uuid for arq in list_arqs(db, ADMIN)] == [yours.uuid]


def test_a_bound_request_is_not_deleted_without_a_service_token_and_neither_are_those_beside_it(
    db: Database, host: Host
) -> None:
    (arq,) = bound(db, host)
    (loose,) = create_arqs(db, ALICE, "vgpu")
    for who in (ALICE, ADMIN):
        with pytest.raises(Forbidden, match="This operation requires a service token"):
            delete_arqs(db, who, [loose.uuid, arq.uuid])
        with pytest.raises(Forbidden, match="This operation requires a service token"):
            delete_arqs_of_instance(db, who, str(arq.instance_uuid))
    assert len(list_arqs(db, ALICE)) == 2
    with pytest.raises(NotFound):
        delete_arqs(db, BOB, [arq.uuid])
    delete_arqs(db, NOVA_FOR_ALICE, [loose.uuid, arq.uuid])
    assert list_arqs(db, ADMIN) == []


def test_the_instances_requests_are_deleted_whoever_asks_for_the_compute_service_and_again_is_no_error(
    db: Database, host: Host
) -> None:
    instance = str(uuid4())
    bound(db, host, instance=instance)
    for _ in range(2):
        delete_arqs_of_instance(db, NOVA_FOR_BOB, instance)
    assert list_arqs(db, ADMIN) == []
    (unwanted,) = current_work(db, "compute-1").unwanted
    assert unwanted.uuid in host.held
    assert capacity_of(db).free == 3
    host.obey()
    assert host.held == set()
    assert capacity_of(db).free == 4


def test_delete_with_the_host_down_is_done_at_once_and_the_unit_stays_until_the_host_is_back(
    db: Database, host: Host
) -> None:
    instance = str(uuid4())
    bound(db, host, instance=instance)
    delete_arqs_of_instance(db, NOVA_FOR_ALICE, instance)
    assert list_arqs(db, ADMIN) == []
    assert capacity_of(db).used == 1


@pytest.mark.parametrize("parting", ["delete", "delete by uuid", "unbind"])
def test_what_an_administrator_binds_for_a_tenants_instance_is_the_tenants(
    db: Database, host: Host, parting: str
) -> None:
    """Contract section 7.1 #2: evacuate and unshelve make new requests in the administrator's project."""
    instance = str(uuid4())
    (arq,) = bound(db, host, instance=instance)
    if parting == "delete":
        delete_arqs_of_instance(db, NOVA_FOR_ADMIN, instance)
    elif parting == "delete by uuid":
        delete_arqs(db, NOVA_FOR_ADMIN, [arq.uuid])
    else:
        unbind(db, NOVA_FOR_ADMIN, [Unbind(arq.uuid)])
        delete_arqs(db, NOVA_FOR_ADMIN, [arq.uuid])
    host.obey()
    (again,) = bound(db, host, NOVA_FOR_ADMIN, instance=instance)
    assert again.project_id == "alice-project"
    assert [one.uuid for one in list_arqs(db, ALICE)] == [again.uuid]


def test_an_operator_who_is_no_administrator_evacuates_and_cleans_up_by_uuid(db: Database, host: Host) -> None:
    """What he binds is the tenant's at once; Nova still asks and deletes by uuid with his token."""
    instance = str(uuid4())
    bound(db, host, instance=instance)
    delete_arqs_of_instance(db, NOVA_FOR_BOB, instance)
    host.obey()
    (again,) = bound(db, host, NOVA_FOR_BOB, instance=instance)
    assert again.project_id == "alice-project"

    assert get_arq(db, NOVA_FOR_BOB, again.uuid).uuid == again.uuid
    bind(db, NOVA_FOR_BOB, [Bind(again.uuid, "compute-1", capacity_of(db).rp_uuid, instance)])  # its answer was lost
    with pytest.raises(NotFound):
        get_arq(db, BOB, again.uuid)
    with pytest.raises(NotFound):
        delete_arqs(db, BOB, [again.uuid])
    delete_arqs(db, NOVA_FOR_BOB, [again.uuid])
    assert list_arqs(db, ADMIN) == []


def test_an_administrators_word_on_the_owner_holds_from_then_on(db: Database, host: Host) -> None:
    instance = str(uuid4())
    bound(db, host, instance=instance)
    delete_arqs_of_instance(db, NOVA_FOR_ADMIN, instance)
    (arq,) = create_arqs(db, NOVA_FOR_ADMIN, "vgpu")
    word = Bind(arq.uuid, "compute-1", capacity_of(db).rp_uuid, instance)
    bind(db, NOVA_FOR_ADMIN, [replace(word, project_id="bob-project")])
    delete_arqs_of_instance(db, NOVA_FOR_ADMIN, instance)
    (again,) = bound(db, host, NOVA_FOR_ADMIN, instance=instance)
    assert again.project_id == "bob-project"


def test_lists_are_walked_page_by_page(db: Database, host: Host) -> None:
    for _ in range(7):
        create_arqs(db, ALICE, "vgpu")
        create_arqs(db, BOB, "vgpu")
    for key in ("created_at", "uuid", "state", "instance_uuid", "hostname", "project_id", "device_profile_name"):
        for direction in ("asc", "desc"):
            walked: list[str] = []
            while part := list_arqs(
                db, ALICE, page=Page(limit=3, marker=walked[-1] if walked else None, sort_key=key, sort_dir=direction)
            ):
                walked += [arq.uuid for arq in part]
            assert len(walked) == len(set(walked)) == 7
    with pytest.raises(BadRequest) as caught:
        list_arqs(db, ALICE, page=Page(marker=list_arqs(db, BOB)[0].uuid))
    assert caught.value.code == "marker-not-found", "another project's item is no place in this list"
