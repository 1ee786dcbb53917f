"""Leases with a guest to go into: what their host is told, and what it must say."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.engine.cloud import ALICE, T4_2B, Host, capacity_of, make_profile, t4

from cantle.engine.lease import create_lease, get_lease, list_leases, release_lease
from cantle.engine.results import accept_results
from cantle.engine.work import current_work
from cantle.errors import BadRequest, Conflict
from cantle.model.attachment import Attachment
from cantle.model.lease import LeaseState
from cantle.store.database import Database
from cantle.wire.work import Guest, Outcome, Results, WantedHandle, Work

C1 = Attachment.parse("lxc:c1")


class OlderHandle(msgspec.Struct, frozen=True):
    """What agents knew of a unit before there were guests."""

    uuid: str
    device: str


class OlderWork(msgspec.Struct, frozen=True):
    """The same of a host's desired state."""

    generation: int
    wanted: tuple[OlderHandle, ...] = ()


@pytest.fixture
def host(db: Database) -> Host:
    """A host with four vGPUs, and a profile for two."""
    one = Host(db)
    one.report(t4(4))
    make_profile(db, "pair", [{"resources:VGPU": "2", f"trait:{T4_2B}": "required"}])
    return one


def entered(host: Host, work: Work) -> Results:
    """What an agent says that knows guests."""
    said = host.results(work)
    results = tuple(msgspec.structs.replace(one, entered=one.outcome is Outcome.READY) for one in said.results)
    return msgspec.structs.replace(said, results=results)


def test_a_host_is_told_of_the_guest_with_each_unit_until_it_is_back(db: Database, host: Host) -> None:
    lease = create_lease(db, ALICE, profile_name="pair", attachment=C1)
    plain = create_lease(db, ALICE, profile_name="pair")
    guest = Guest("lxc", "c1", lease.uuid)
    work = current_work(db, "compute-1")
    assert [one.guest for one in work.wanted] == [guest, guest, None, None]
    accept_results(db, "compute-1", entered(host, work))
    assert get_lease(db, ALICE, lease.uuid).state is LeaseState.ACTIVE
    assert {one.uuid: one.attachment for one in list_leases(db, ALICE)} == {lease.uuid: C1, plain.uuid: None}
    release_lease(db, ALICE, lease.uuid)
    work = current_work(db, "compute-1")
    assert [one.guest for one in work.unwanted] == [guest, guest]
    accept_results(db, "compute-1", entered(host, work))
    assert get_lease(db, ALICE, lease.uuid).state is LeaseState.RELEASED
    assert capacity_of(db).free == 2


def test_an_agent_that_knows_no_guests_makes_no_lease_active_that_is_in_none(db: Database, host: Host) -> None:
    """It takes the unit for one that its borrower attaches, and says that it is ready."""
    lease = create_lease(db, ALICE, profile_name="pair", attachment=C1)
    host.obey()
    failed = get_lease(db, ALICE, lease.uuid)
    assert failed.state is LeaseState.FAILED
    assert {one.reason_code for one in failed.arqs} == {"agent-knows-no-guests"}
    host.obey()
    assert capacity_of(db).free == 4


def test_an_older_agent_reads_work_that_names_guests() -> None:
    said = b'{"generation":3,"wanted":[{"uuid":"u","device":"d","guest":{"kind":"lxc","name":"c1","lease":"l"}}]}'
    assert msgspec.json.decode(said, type=OlderWork).wanted == (OlderHandle("u", "d"),)


def test_what_an_older_server_says_names_no_guest() -> None:
    recorded = b'{"uuid":"u","device":"d","attach_type":"PCI","attach_info":{}}'
    assert msgspec.json.decode(recorded, type=WantedHandle).guest is None


@pytest.mark.parametrize(
    "text", ["", "lxc", "lxc:", ":c1", "docker:c1", "lxc:../c1", "lxc:a/b", "lxc:.c1", "lxc:c1\n", f"cdi:{'a' * 64}"]
)
def test_an_attachment_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        Attachment.parse(text)
    assert caught.value.code == "bad-attachment"


def test_a_host_is_told_to_start_the_guest_and_not_when_it_is_to_take_the_units_out(db: Database, host: Host) -> None:
    vm = Attachment.parse("libvirt:vm1")
    lease = create_lease(db, ALICE, profile_name="pair", attachment=vm, start=True)
    work = current_work(db, "compute-1")
    assert [one.guest for one in work.wanted] == [Guest("libvirt", "vm1", lease.uuid, start=True)] * 2
    accept_results(db, "compute-1", entered(host, work))
    release_lease(db, ALICE, lease.uuid)
    assert [one.guest for one in current_work(db, "compute-1").unwanted] == [Guest("libvirt", "vm1", lease.uuid)] * 2


@pytest.mark.parametrize(
    ("guest", "why"), [(None, "attach names none"), ("cdi:train", "no guest that could be started")]
)
def test_what_is_no_guest_is_not_started(db: Database, host: Host, guest: str | None, why: str) -> None:
    attachment = None if guest is None else Attachment.parse(guest)
    with pytest.raises(BadRequest, match=why) as refused:
        create_lease(db, ALICE, profile_name="pair", attachment=attachment, start=True)
    assert refused.value.code == "bad-lease"
    assert current_work(db, "compute-1").wanted == ()


def test_two_leases_give_one_guest_no_more_of_a_card_than_it_may_have(db: Database, host: Host) -> None:
    """NVIDIA's vGPU: a guest with two of one card does not start."""
    host.report(msgspec.structs.replace(t4(4), labels={"units_per_guest": "1"}))
    make_profile(db, "one", [{"resources:VGPU": "1"}])
    vm1, vm2 = Attachment.parse("libvirt:vm1"), Attachment.parse("libvirt:vm2")
    lease = create_lease(db, ALICE, profile_name="one", attachment=vm1)
    before = current_work(db, "compute-1")
    with pytest.raises(Conflict, match=f"libvirt:vm1 has 1 of 0000:af:00.0 by lease {lease.uuid}") as refused:
        create_lease(db, ALICE, profile_name="one", attachment=vm1)
    assert refused.value.code == "guest-has-enough"
    assert current_work(db, "compute-1") == before
    create_lease(db, ALICE, profile_name="one", attachment=vm2)
    create_lease(db, ALICE, profile_name="one")

    accept_results(db, "compute-1", entered(host, current_work(db, "compute-1")))
    release_lease(db, ALICE, lease.uuid)
    with pytest.raises(Conflict, match="guest may have 1 of one card"):
        create_lease(db, ALICE, profile_name="one", attachment=vm1)
    accept_results(db, "compute-1", entered(host, current_work(db, "compute-1")))
    create_lease(db, ALICE, profile_name="one", attachment=vm1)
