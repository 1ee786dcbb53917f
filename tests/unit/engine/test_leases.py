"""Leases: chosen, claimed, waited for, given back."""

from __future__ import annotations

import datetime as dt
import threading
from functools import partial
from uuid import uuid4

import pytest
from msgspec.structs import replace
from sqlalchemy import update
from tests.unit.engine.cloud import ADMIN, ALICE, BOB, T4_2B, Host, capacity_of, make_profile, t4, whole

from cantle.engine import absent, choice
from cantle.engine.arq import list_arqs
from cantle.engine.capacity import list_capacity
from cantle.engine.clock import now
from cantle.engine.device import list_devices, set_status
from cantle.engine.lease import create_lease, get_lease, lend, list_leases, release_lease, wait_lease
from cantle.engine.terms import Terms
from cantle.engine.work import current_work
from cantle.errors import BadRequest, NoCapacity, NotFound
from cantle.keeper import expiry
from cantle.model.alias import NO_ALIASES
from cantle.model.arq import ArqState
from cantle.model.device import DeviceStatus
from cantle.model.explanation import Explanation
from cantle.model.isolation import Isolation
from cantle.model.lease import Lease, LeaseState, OnExpiry
from cantle.model.page import Page
from cantle.store.database import Database
from cantle.store.faults import LookAgain
from cantle.store.tables import leases
from cantle.store.types import database_now


@pytest.fixture
def host(db: Database) -> Host:
    """A host with four vGPUs, and a profile for two."""
    one = Host(db)
    one.report(t4(4))
    make_profile(db, "pair", [{"resources:VGPU": "2", f"trait:{T4_2B}": "required"}])
    return one


def test_a_lease_is_pending_active_releasing_released(db: Database, host: Host) -> None:
    lease = create_lease(db, ALICE, profile_name="pair", workload="training")
    assert (lease.state, lease.hostname, lease.owner, lease.project_id) == (
        LeaseState.PENDING,
        "compute-1",
        "alice",
        "alice-project",
    )
    assert [arq.state for arq in lease.arqs] == [ArqState.BIND_STARTED] * 2
    assert get_lease(db, ALICE, lease.uuid) == lease
    host.obey()
    active = get_lease(db, ALICE, lease.uuid)
    assert active.state is LeaseState.ACTIVE
    assert {arq.attach_handle_uuid for arq in active.arqs} == host.held
    assert {arq.lease_uuid for arq in active.arqs} == {lease.uuid}
    given_back = release_lease(db, ALICE, lease.uuid)
    assert (given_back.state, given_back.arqs) == (LeaseState.RELEASING, ())
    assert list_arqs(db, ADMIN) == []
    assert [one.uuid for one in list_leases(db, ALICE)] == [lease.uuid], "until the host has taken the units back"
    host.obey()
    assert host.held == set()
    assert get_lease(db, ALICE, lease.uuid).state is LeaseState.RELEASED
    assert list_leases(db, ALICE) == []
    assert [one.uuid for one in list_leases(db, ALICE, include_released=True)] == [lease.uuid]
    assert release_lease(db, ALICE, lease.uuid).state is LeaseState.RELEASED
    assert capacity_of(db).free == 4


def test_a_lease_says_how_its_worst_unit_is_kept_apart_from_what_others_have(db: Database, host: Host) -> None:
    make_profile(db, "slice", [{"resources:VGPU": "1"}])
    make_profile(db, "card", [{"resources:PGPU": "1"}])
    make_profile(db, "both", [{"resources:VGPU": "1"}, {"resources:PGPU": "1"}])
    cut, alone = t4(4), whole()
    host.report(cut, alone)
    unknown = create_lease(db, ALICE, profile_name="slice")
    assert get_lease(db, ALICE, unknown.uuid).isolation is Isolation.UNKNOWN, "its host's agent does not say"
    host.report(replace(cut, labels={"isolation": "time"}), replace(alone, labels={"isolation": "hardware"}))
    for profile, isolation in (("both", Isolation.TIME), ("slice", Isolation.TIME), ("card", Isolation.HARDWARE)):
        lease = create_lease(db, ALICE, profile_name=profile)
        assert (lease.isolation, get_lease(db, ALICE, lease.uuid).isolation) == (isolation, isolation)
        listed = [one for one in list_leases(db, ALICE) if one.uuid == lease.uuid]
        assert [one.isolation for one in listed] == [isolation]
        host.obey()
        assert release_lease(db, ALICE, lease.uuid).isolation is None
        host.obey()


def test_a_lease_whose_unit_fails_is_failed_until_released(db: Database, host: Host) -> None:
    lease = create_lease(db, ALICE, profile_name="pair")
    unit = current_work(db, "compute-1").wanted[0].uuid
    host.refusing[unit] = "mdev-no-space"
    host.obey()
    failed = get_lease(db, ALICE, lease.uuid)
    assert failed.state is LeaseState.FAILED
    assert [arq.reason_code for arq in failed.arqs] == ["mdev-no-space", None]
    host.refusing.clear()
    host.obey()
    assert capacity_of(db).used == 1, "the unit that is ready stays the lease's"
    release_lease(db, ALICE, lease.uuid)
    host.obey()
    assert get_lease(db, ALICE, lease.uuid).state is LeaseState.RELEASED


def test_what_is_not_there_is_refused_with_a_reason_for_each_host(db: Database, host: Host) -> None:
    other = Host(db, "compute-2")
    other.report(t4(1, host="compute-2"))
    create_lease(db, ALICE, profile_name="pair", count=2)
    with pytest.raises(NoCapacity) as caught:
        create_lease(db, ALICE, profile_name="pair")
    assert caught.value.code == "no-capacity"
    explanation = caught.value.details["explanation"]
    assert isinstance(explanation, Explanation)
    (group,) = explanation.groups
    assert [(reason.code, reason.examples) for reason in group.reasons] == [
        ("too-few-free", ("compute-2 0000:af:00.0",)),
        ("all-lent", ("compute-1 0000:af:00.0",)),
    ]
    assert "1 card (compute-2 0000:af:00.0): has 1 unit in all, 2 of one card wanted" in caught.value.message
    assert len(list_leases(db, ALICE)) == 1


def test_only_the_host_asked_for_is_chosen(db: Database, host: Host) -> None:
    other = Host(db, "compute-2")
    other.report(t4(2, host="compute-2"))
    assert create_lease(db, ALICE, profile_name="pair", hostname="compute-2").hostname == "compute-2"
    with pytest.raises(NoCapacity) as caught:
        create_lease(db, ALICE, profile_name="pair", hostname="compute-2")
    assert "compute-2" in caught.value.message
    assert "compute-1" not in caught.value.message
    with pytest.raises(NotFound) as absent:
        create_lease(db, ALICE, profile_name="pair", hostname="nowhere")
    assert absent.value.code == "host-not-found"


def test_slices_fill_one_host_and_whole_cards_are_spread_and_always_the_same(db: Database, host: Host) -> None:
    cards = [whole(host=name, address=f"0000:3{n}:00.0") for name in ("compute-1", "compute-2") for n in (1, 2)]
    host.report(t4(4), *cards[:2])
    other = Host(db, "compute-2")
    other.report(t4(4, host="compute-2"), *cards[2:])
    make_profile(db, "whole", [{"resources:PGPU": "1"}])
    make_profile(db, "wide", [{"resources:VGPU": "1", "accel:packing": "spread"}])
    assert [create_lease(db, ALICE, profile_name="wide").hostname for _ in range(2)] == ["compute-1", "compute-2"]
    assert [create_lease(db, ALICE, profile_name="pair").hostname for _ in range(2)] == ["compute-1", "compute-2"]
    chosen = [create_lease(db, ALICE, profile_name="whole").hostname for _ in range(4)]
    assert chosen == ["compute-1", "compute-2", "compute-1", "compute-2"]


def test_all_groups_are_on_one_host_and_each_group_on_one_card(db: Database, host: Host) -> None:
    host.report(t4(1), t4(3, address="0000:d8:00.0"), whole())
    make_profile(db, "mixed", [{"resources:VGPU": "2"}, {"resources:PGPU": "1"}])
    lease = create_lease(db, ALICE, profile_name="mixed")
    host.obey()
    providers = {one.rp_uuid: one.device_address for one in list_capacity(db)}
    assert [(arq.group_id, providers[str(arq.device_rp_uuid)]) for arq in get_lease(db, ALICE, lease.uuid).arqs] == [
        (0, "0000:d8:00.0"),
        (0, "0000:d8:00.0"),
        (1, "0000:3b:00.0"),
    ]


def test_nothing_is_lent_from_what_is_out_of_service(db: Database, host: Host) -> None:
    set_status(db, ADMIN, list_devices(db)[0].uuid, DeviceStatus.MAINTAINING)
    with pytest.raises(NoCapacity, match=r"1 card \(compute-1 0000:af:00\.0\): is in maintenance"):
        create_lease(db, ALICE, profile_name="pair")


def test_a_profile_of_what_nobody_has(db: Database, host: Host) -> None:
    make_profile(db, "fpga", [{"resources:FPGA": "1"}])
    with pytest.raises(NoCapacity, match=r"is mdev and offers VGPU, not FPGA"):
        create_lease(db, ALICE, profile_name="fpga")
    with pytest.raises(NotFound) as caught:
        create_lease(db, ALICE, profile_name="absent")
    assert caught.value.code == "profile-not-found"


@pytest.mark.parametrize(
    "wrong",
    [
        {"count": 0},
        {"count": -1},
        {"count": 257},
        {"count": 129},
        {"workload": "x" * 256},
        {"expires_at": dt.datetime(2020, 1, 1, tzinfo=dt.UTC)},
        {"expires_at": dt.datetime(2999, 1, 1)},  # noqa: DTZ001 - that it names no zone is the point
    ],
)
def test_a_lease_that_cannot_be_is_refused(db: Database, host: Host, wrong: dict[str, object]) -> None:
    with pytest.raises(BadRequest) as caught:
        create_lease(db, ALICE, profile_name="pair", **wrong)  # type: ignore[arg-type]
    assert caught.value.code == "bad-lease"
    assert list_leases(db, ADMIN) == []


def test_a_tenant_sees_and_releases_his_own_leases_only(db: Database, host: Host) -> None:
    mine = create_lease(db, ALICE, profile_name="pair")
    yours = create_lease(db, BOB, profile_name="pair")
    assert [lease.uuid for lease in list_leases(db, ALICE)] == [mine.uuid]
    assert len(list_leases(db, ADMIN)) == 2
    for uuid in (yours.uuid, str(uuid4()), "no-uuid"):
        for touch in (get_lease, release_lease, partial(wait_lease, seconds=0)):
            with pytest.raises(NotFound) as caught:
                touch(db, ALICE, uuid)
            assert caught.value.message == absent.lease(uuid).message  # one that is another's as one that is nobody's
            assert caught.value.code == "lease-not-found"
    assert release_lease(db, ADMIN, yours.uuid).state is LeaseState.RELEASING


def test_a_lease_ends_with_its_time(db: Database, host: Host) -> None:
    soon = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    lease = create_lease(db, ALICE, profile_name="pair", expires_at=soon)
    lasting = create_lease(db, ALICE, profile_name="pair")
    assert lease.expires_at == soon
    assert expiry.sweep(db) == 0
    with db.write() as connection:
        connection.execute(update(leases).where(leases.c.uuid == lease.uuid).values(expires_at=database_now(-1)))
    assert expiry.sweep(db) == 1
    assert expiry.sweep(db) == 0
    assert get_lease(db, ALICE, lease.uuid).state is LeaseState.RELEASING
    assert get_lease(db, ALICE, lasting.uuid).state is LeaseState.PENDING


def test_waiting_ends_when_the_host_has_answered(db: Database, host: Host) -> None:
    lease = create_lease(db, ALICE, profile_name="pair")
    found: list[Lease] = []
    waiting = threading.Thread(target=lambda: found.append(wait_lease(db, ALICE, lease.uuid, seconds=60)))
    waiting.start()
    host.obey()
    waiting.join(30)
    assert [one.state for one in found] == [LeaseState.ACTIVE]


def test_waiting_ends_when_the_last_unit_is_back(db: Database, host: Host) -> None:
    lease = create_lease(db, ALICE, profile_name="pair")
    host.obey()
    release_lease(db, ALICE, lease.uuid)
    found: list[Lease] = []
    waiting = threading.Thread(target=lambda: found.append(wait_lease(db, ALICE, lease.uuid, seconds=60)))
    waiting.start()
    host.obey()
    waiting.join(30)
    assert [one.state for one in found] == [LeaseState.RELEASED]


def test_waiting_ends_with_the_time_given(db: Database, host: Host) -> None:
    lease = create_lease(db, ALICE, profile_name="pair")
    assert wait_lease(db, ALICE, lease.uuid, seconds=0.01).state is LeaseState.PENDING


def test_lists_of_leases_are_walked_page_by_page(db: Database, host: Host) -> None:
    host.report(t4(16))
    made = [create_lease(db, ALICE, profile_name="pair", workload=f"w{number % 3}").uuid for number in range(7)]
    for key in ("created_at", "uuid", "workload", "profile_name", "hostname"):
        walked: list[str] = []
        while part := list_leases(db, ALICE, page=Page(limit=2, marker=walked[-1] if walked else None, sort_key=key)):
            assert all(len(lease.arqs) == 2 for lease in part)
            walked += [lease.uuid for lease in part]
        assert sorted(walked) == sorted(made)


def test_a_card_that_is_taken_out_of_service_after_it_was_chosen_is_not_lent(db: Database, host: Host) -> None:
    """Disable had answered, and then the card was lent by somebody who had looked before."""
    with db.write() as connection:
        asked = choice.by_name(connection, "pair", 1, NO_ALIASES)
        found = choice.hold(connection, asked)
    assert found is not None
    (card,) = list_devices(db)
    set_status(db, ADMIN, card.uuid, DeviceStatus.MAINTAINING)
    with pytest.raises(LookAgain), db.write() as connection:
        lend(connection, Terms(ALICE, asked, "", None, OnExpiry.DETACH, now()), found)
    assert list_leases(db, ALICE) == []


def test_a_refusal_names_the_command_that_asks_for_the_same(db: Database, host: Host) -> None:
    """It asked for less, of all hosts, and said that there was enough."""
    host.report(t4(1))
    with pytest.raises(NoCapacity, match="'cantle explain --profile pair' says more"):
        create_lease(db, ALICE, profile_name="pair")
    command = "'cantle explain --profile pair --host compute-1 --count 3 --numa-node 0 --numa-node 1' says more"
    with pytest.raises(NoCapacity, match=command):
        create_lease(db, ALICE, profile_name="pair", hostname="compute-1", count=3, nodes=(0, 1))
