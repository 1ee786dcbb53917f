"""Bind and unbind: all or nothing, one unit for one ARQ, and every refusal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from uuid import uuid4

import msgspec
import pytest
from sqlalchemy import select, update
from tests.unit.engine.cloud import (
    ADMIN,
    ALICE,
    NOVA_FOR_ADMIN,
    NOVA_FOR_ALICE,
    NOVA_FOR_BOB,
    T4_2B,
    Host,
    bound,
    capacity_of,
    make_profile,
    t4,
    whole,
)

from cantle.engine.arq import create_arqs, delete_arqs, get_arq, list_arqs
from cantle.engine.bind import Bind, Unbind, bind, unbind
from cantle.engine.deployable import list_deployables
from cantle.engine.device import list_devices, set_status
from cantle.engine.lease import create_lease
from cantle.engine.work import current_work
from cantle.errors import BadRequest, CantleError, Conflict, Forbidden, NoCapacity, NotFound
from cantle.model.arq import Arq, ArqState
from cantle.model.device import DeviceStatus, Health
from cantle.store import provider_pool
from cantle.store.database import Database
from cantle.store.tables import deployables, hosts
from cantle.store.types import database_now


@pytest.fixture
def host(db: Database) -> Host:
    """A host with four vGPUs, and a profile for them."""
    one = Host(db)
    one.report(t4(4))
    make_profile(db, "vgpu")
    make_profile(db, "pair", [{"resources:VGPU": "2"}])
    return one


def asked(db: Database, arq: Arq, instance: str, hostname: str = "compute-1") -> Bind:
    """A bind of that ARQ to the host's only deployable."""
    return Bind(arq.uuid, hostname, capacity_of(db).rp_uuid, instance)


def states(db: Database) -> list[ArqState]:
    """The states of all ARQs, oldest first."""
    return [arq.state for arq in list_arqs(db, ADMIN)]


def test_a_bind_is_settled_by_its_host_and_shows_the_unit_then(db: Database, host: Host) -> None:
    instance = str(uuid4())
    (arq,) = create_arqs(db, NOVA_FOR_ALICE, "vgpu")
    before = current_work(db, "compute-1").generation
    bind(db, NOVA_FOR_ALICE, [asked(db, arq, instance)])
    started = get_arq(db, ALICE, arq.uuid)
    assert started.state is ArqState.BIND_STARTED
    assert (started.hostname, started.instance_uuid, started.device_rp_uuid) == (
        "compute-1",
        instance,
        capacity_of(db).rp_uuid,
    )
    assert (started.attach_handle_type, started.attach_handle_uuid, started.attach_handle_info) == ("", None, {})
    work = host.obey()
    assert work.generation > before
    (wanted,) = work.wanted
    assert (wanted.device, wanted.attach_info["asked_type"]) == ("0000:af:00.0", "nvidia-223")
    done = get_arq(db, ALICE, arq.uuid)
    assert done.state is ArqState.BOUND
    assert (done.attach_handle_type, done.attach_handle_uuid) == ("MDEV", wanted.uuid)
    assert done.attach_handle_info == wanted.attach_info


def test_uuids_are_taken_in_any_spelling(db: Database, host: Host) -> None:
    instance = str(uuid4())
    (arq,) = create_arqs(db, NOVA_FOR_ALICE, "vgpu")
    provider = capacity_of(db).rp_uuid.replace("-", "").upper()
    bind(db, NOVA_FOR_ALICE, [Bind(arq.uuid.upper(), "compute-1", provider, instance.replace("-", ""))])
    assert [one.uuid for one in list_arqs(db, NOVA_FOR_ALICE, instance=instance.upper())] == [arq.uuid]


@pytest.mark.parametrize("hostname", ["compute-1", "COMPUTE-1", "compute-1.example.org", "compute-1."])
def test_a_short_host_name_stands_for_a_qualified_one(db: Database, host: Host, hostname: str) -> None:
    (arq,) = create_arqs(db, NOVA_FOR_ALICE, "vgpu")
    bind(db, NOVA_FOR_ALICE, [asked(db, arq, str(uuid4()), hostname)])
    assert get_arq(db, ALICE, arq.uuid).hostname == hostname


def test_all_of_one_call_or_none(db: Database, host: Host) -> None:
    make_profile(db, "five", [{"resources:VGPU": "5"}])
    arqs = create_arqs(db, NOVA_FOR_ALICE, "five")
    generation = current_work(db, "compute-1").generation
    with pytest.raises(NoCapacity) as caught:
        bind(db, NOVA_FOR_ALICE, [asked(db, arq, str(uuid4())) for arq in arqs])
    assert caught.value.code == "no-free-handle"
    assert set(states(db)) == {ArqState.INITIAL}
    assert capacity_of(db).used == 0
    assert current_work(db, "compute-1").generation == generation


def test_two_instances_on_two_hosts_in_one_call(db: Database, host: Host) -> None:
    other = Host(db, "compute-2")
    other.report(t4(1, host="compute-2"))
    first, second = create_arqs(db, NOVA_FOR_ALICE, "pair")
    bind(
        db,
        NOVA_FOR_ALICE,
        [
            Bind(first.uuid, "compute-1", capacity_of(db, "compute-1").rp_uuid, str(uuid4())),
            Bind(second.uuid, "compute-2", capacity_of(db, "compute-2").rp_uuid, str(uuid4())),
        ],
    )
    host.obey()
    other.obey()
    assert states(db) == [ArqState.BOUND, ArqState.BOUND]


def test_the_same_bind_again_changes_nothing(db: Database, host: Host) -> None:
    instance = str(uuid4())
    (arq,) = create_arqs(db, NOVA_FOR_ALICE, "vgpu")
    for _ in range(2):
        bind(db, NOVA_FOR_ALICE, [asked(db, arq, instance)])
    host.obey()
    bind(db, NOVA_FOR_ALICE, [asked(db, arq, instance, "compute-1.example.org")])
    assert states(db) == [ArqState.BOUND]
    assert capacity_of(db).used == 1


def test_a_bound_request_is_not_bound_elsewhere(db: Database, host: Host) -> None:
    (arq,) = bound(db, host)
    with pytest.raises(Conflict) as caught:
        bind(db, NOVA_FOR_ALICE, [asked(db, arq, str(uuid4()))])
    assert caught.value.code == "arq-not-bindable"
    assert "is Bound" in caught.value.message


def test_bound_again_after_unbind_while_the_old_unit_is_still_being_taken_back(db: Database, host: Host) -> None:
    (arq,) = bound(db, host)
    unbind(db, NOVA_FOR_ALICE, [Unbind(arq.uuid)])
    loose = get_arq(db, ALICE, arq.uuid)
    assert loose.state is ArqState.UNBOUND
    assert (loose.hostname, loose.device_rp_uuid, loose.instance_uuid, loose.attach_handle_uuid) == (
        None,
        None,
        None,
        None,
    )
    assert loose.project_id == "alice-project"
    assert capacity_of(db).used == 1
    bind(db, NOVA_FOR_ALICE, [asked(db, arq, str(uuid4()))])
    work = current_work(db, "compute-1")
    assert {one.uuid for one in work.unwanted} == {arq.attach_handle_uuid}
    assert {one.uuid for one in work.wanted}.isdisjoint({arq.attach_handle_uuid})
    host.obey()
    assert get_arq(db, ALICE, arq.uuid).state is ArqState.BOUND
    assert capacity_of(db).used == 1


def test_unbind_again_and_of_what_was_never_bound_is_no_error(db: Database, host: Host) -> None:
    (arq,) = create_arqs(db, NOVA_FOR_ALICE, "vgpu")
    for _ in range(3):
        unbind(db, NOVA_FOR_ALICE, [Unbind(arq.uuid), Unbind(arq.uuid)])
    assert states(db) == [ArqState.UNBOUND]


def test_a_unit_is_lent_again_only_after_its_host_has_said_that_nobody_holds_it(db: Database, host: Host) -> None:
    host.report(t4(1))
    (arq,) = bound(db, host)
    unbind(db, NOVA_FOR_ALICE, [Unbind(arq.uuid)])
    with pytest.raises(NoCapacity):
        bind(db, NOVA_FOR_ALICE, [asked(db, arq, str(uuid4()))])
    host.obey()
    bind(db, NOVA_FOR_ALICE, [asked(db, arq, str(uuid4()))])


def refused(db: Database, *binds: Bind) -> CantleError:
    """The refusal of a bind, which changed nothing."""
    before = [(arq.uuid, arq.state, arq.updated_at) for arq in list_arqs(db, ADMIN)]
    with pytest.raises(CantleError) as caught:
        bind(db, NOVA_FOR_ALICE, list(binds))
    assert [(arq.uuid, arq.state, arq.updated_at) for arq in list_arqs(db, ADMIN)] == before
    return caught.value


def test_what_does_not_exist_is_named(db: Database, host: Host) -> None:
    (arq,) = create_arqs(db, NOVA_FOR_ALICE, "vgpu")
    good = asked(db, arq, str(uuid4()))
    for change, code in (
        ({"arq_uuid": str(uuid4())}, "arq-not-found"),
        ({"arq_uuid": "no-uuid"}, "arq-not-found"),
        ({"device_rp_uuid": str(uuid4())}, "provider-not-found"),
    ):
        error = refused(db, replace(good, **change))
        assert isinstance(error, NotFound)
        assert error.code == code
        assert next(iter(change.values())) in error.message


def test_values_that_cannot_be_are_refused(db: Database, host: Host) -> None:
    (arq,) = create_arqs(db, NOVA_FOR_ALICE, "vgpu")
    good = asked(db, arq, str(uuid4()))
    for change, code in (
        ({"instance_uuid": "vm-1"}, "bad-uuid"),
        ({"device_rp_uuid": "card-1"}, "bad-uuid"),
        ({"hostname": ""}, "bad-hostname"),
        ({"hostname": "x" * 256}, "bad-hostname"),
        ({"hostname": "compute-1\n"}, "bad-hostname"),
        ({"hostname": "compute-1.example\r\nforged"}, "bad-hostname"),
        ({"hostname": "compute-2"}, "host-of-other-provider"),
    ):
        error = refused(db, replace(good, **change))
        assert isinstance(error, BadRequest)
        assert error.code == code
    nothings: list[Callable[[], None]] = [
        partial(bind, db, NOVA_FOR_ALICE, []),
        partial(unbind, db, NOVA_FOR_ALICE, []),
    ]
    for nothing in nothings:
        with pytest.raises(BadRequest) as caught:
            nothing()
        assert caught.value.code == "nothing-to-bind"


@pytest.mark.parametrize(
    ("group", "wants"),
    [
        ({"resources:PGPU": "1"}, "resource class PGPU"),
        ({"resources:VGPU": "1", "trait:HW_GPU_API_VULKAN": "required"}, "HW_GPU_API_VULKAN"),
        ({"resources:VGPU": "1", f"trait:{T4_2B}": "forbidden"}, f"no {T4_2B}"),
    ],
)
def test_a_provider_of_another_class_or_with_other_traits_does_not_fit(
    db: Database, host: Host, group: dict[str, object], wants: str
) -> None:
    make_profile(db, "other", [group])
    (arq,) = create_arqs(db, NOVA_FOR_ALICE, "other")
    error = refused(db, asked(db, arq, str(uuid4())))
    assert error.code == "provider-does-not-fit"
    assert f"wants {wants};" in error.message


def test_nothing_is_bound_on_what_is_out_of_service(db: Database, host: Host) -> None:
    (arq,) = create_arqs(db, NOVA_FOR_ALICE, "vgpu")
    good = asked(db, arq, str(uuid4()))
    (device,) = list_devices(db)
    set_status(db, ADMIN, device.uuid, DeviceStatus.MAINTAINING)
    error = refused(db, good)
    assert error.code == "provider-out-of-service"
    assert "maintenance" in error.message
    set_status(db, ADMIN, device.uuid, DeviceStatus.ENABLED)
    host.report(msgspec.structs.replace(t4(4), health=Health.FAILED, reason="reads 0xffff"))
    assert "failed: reads 0xffff" in refused(db, good).message
    host.report(whole())
    assert "is missing" in refused(db, good).message
    host.report(t4(4, health=Health.DEGRADED))
    with db.write() as connection:
        connection.execute(update(hosts).values(last_seen=database_now(-200)))
    assert "compute-1 is down" in refused(db, good).message


def test_an_instance_gets_its_accelerators_in_one_call(db: Database, host: Host) -> None:
    """Contract section 1.5: an instance that has any ARQ already is refused."""
    instance = str(uuid4())
    bound(db, host, instance=instance)
    (late,) = create_arqs(db, NOVA_FOR_ALICE, "vgpu")
    error = refused(db, asked(db, late, instance))
    assert error.code == "instance-has-arqs"
    assert isinstance(error, BadRequest)


def test_requests_of_a_lease_are_the_leases(db: Database, host: Host) -> None:
    lease = create_lease(db, ADMIN, profile_name="vgpu")
    (arq,) = lease.arqs
    touches: list[Callable[[], None]] = [
        partial(bind, db, NOVA_FOR_ADMIN, [asked(db, arq, str(uuid4()))]),
        partial(unbind, db, NOVA_FOR_ADMIN, [Unbind(arq.uuid)]),
        partial(delete_arqs, db, NOVA_FOR_ADMIN, [arq.uuid]),
    ]
    for touch in touches:
        with pytest.raises(Conflict) as caught:
            touch()
        assert caught.value.code == "arq-of-lease"
    assert states(db) == [ArqState.BIND_STARTED]


def test_binding_needs_a_service_token(db: Database, host: Host) -> None:
    (arq,) = create_arqs(db, ALICE, "vgpu")
    for who in (ALICE, ADMIN):
        touches: list[Callable[[], None]] = [
            partial(bind, db, who, [asked(db, arq, str(uuid4()))]),
            partial(unbind, db, who, [Unbind(arq.uuid)]),
        ]
        for touch in touches:
            with pytest.raises(Forbidden) as caught:
                touch()
            assert str(caught.value) == (
                "This operation requires a service token. Use the Compute API to manage instance accelerators."
            )


def test_another_projects_request_does_not_exist(db: Database, host: Host) -> None:
    (arq,) = create_arqs(db, ALICE, "vgpu")
    touches: list[Callable[[], None]] = [
        partial(bind, db, NOVA_FOR_BOB, [asked(db, arq, str(uuid4()))]),
        partial(unbind, db, NOVA_FOR_BOB, [Unbind(arq.uuid)]),
    ]
    for touch in touches:
        with pytest.raises(NotFound) as caught:
            touch()
        assert caught.value.code == "arq-not-found"


def test_only_an_administrator_says_whose_a_request_is(db: Database, host: Host) -> None:
    (arq,) = create_arqs(db, NOVA_FOR_ALICE, "vgpu")
    with pytest.raises(Forbidden) as caught:
        bind(db, NOVA_FOR_ALICE, [replace(asked(db, arq, str(uuid4())), project_id="bob-project")])
    assert caught.value.code == "project-needs-admin"
    bind(db, NOVA_FOR_ADMIN, [replace(asked(db, arq, str(uuid4())), project_id="bob-project")])
    assert get_arq(db, ADMIN, arq.uuid).project_id == "bob-project"


def test_the_units_of_one_call_are_distinct(db: Database, host: Host) -> None:
    arqs = create_arqs(db, NOVA_FOR_ALICE, "pair")
    instance = str(uuid4())
    bind(db, NOVA_FOR_ALICE, [asked(db, arq, instance) for arq in arqs])
    host.obey()
    units = [arq.attach_handle_uuid for arq in list_arqs(db, NOVA_FOR_ALICE, instance=instance)]
    assert len(set(units)) == 2
    assert capacity_of(db).free == 2


def test_a_second_deployable_is_not_taken_for_the_one_asked_for(db: Database, host: Host) -> None:
    host.report(t4(1), t4(1, address="0000:d8:00.0"))
    providers = {one.name: one.rp_uuid for one in list_deployables(db)}
    (arq,) = create_arqs(db, NOVA_FOR_ALICE, "vgpu")
    bind(db, NOVA_FOR_ALICE, [Bind(arq.uuid, "compute-1", providers["compute-1_0000:d8:00.0"], str(uuid4()))])
    assert [one.device for one in current_work(db, "compute-1").wanted] == ["0000:d8:00.0"]


def test_two_requests_of_one_call_get_two_cards_of_a_pool(db: Database) -> None:
    """Each card has one unit: both were wanted of the first, again and again."""
    cards = [f"0000:{bus}:00.0" for bus in ("3b", "86")]
    Host(db).report(*(whole(address=card) for card in cards))
    pool = str(uuid4())
    with db.write() as connection:
        rows = connection.execute(select(deployables.c.id, deployables.c.host_id)).all()
        provider_pool.replace(connection, rows[0].host_id, {row.id: (pool, "PGPU") for row in rows})
    make_profile(db, "cards", [{"resources:PGPU": "2"}])
    instance = str(uuid4())
    arqs = create_arqs(db, NOVA_FOR_ALICE, "cards")
    bind(db, NOVA_FOR_ALICE, [Bind(arq.uuid, "compute-1", pool, instance) for arq in arqs])
    wanted = current_work(db, "compute-1").wanted
    assert sorted(f"0000:{one.attach_info['bus']}:00.0" for one in wanted) == cards
