"""Leases that go into a guest: the real engine, real HTTP, the real agent, a simulated kernel; and its failures, each with its end."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.unit.agent.service import M40, T4, Service, running, until

from cantle import simulate
from cantle.agent import guests
from cantle.agent.converge import observe, plan
from cantle.agent.desired import Desired, DesiredFile
from cantle.agent.hands import Hands
from cantle.attach import cdi
from cantle.engine.lease import create_lease, get_lease
from cantle.errors import HostError
from cantle.kernel import mdev
from cantle.kernel.tools import Ran
from cantle.model.attach_handle import AttachType
from cantle.model.attachment import Attachment
from cantle.model.identity import LOCAL_ADMIN
from cantle.model.lease import Lease, LeaseState
from cantle.wire.work import Guest, HandleResult, Outcome, WantedHandle, Work

FIRST = "11111111-2222-4333-8444-555555555555"
SECOND = "11111111-2222-4333-8444-666666666666"
LEASE = "2f1c7e0a-5a7e-4a52-8a53-4cf1a2f0c7d1"
TRAIN = Guest("cdi", "train", LEASE)
C1 = Guest("lxc", "c1", LEASE)
BY_HAND = b"# by hand\nlxc.uts.name = c1"


def card(guest: Guest | None = TRAIN, uuid: str = FIRST, device: str = M40) -> WantedHandle:
    return WantedHandle(uuid, device, AttachType.PCI, {}, guest)


@pytest.fixture
def host(t4: simulate.SimulatedRoot) -> simulate.SimulatedRoot:
    """The host of the worked example, with a container that is stopped."""
    place = Path(t4.path)
    (place / "var/lib/lxc/c1").mkdir(parents=True)
    (place / "var/lib/lxc/c1/config").write_bytes(BY_HAND)
    (place / "sys/fs/cgroup").mkdir(parents=True)
    (place / "sys/fs/cgroup/cgroup.controllers").write_text("cpu\n")
    return t4


@pytest.fixture
def hands(host: simulate.SimulatedRoot, tmp_path: Path) -> Hands:
    """An agent's hands on it."""
    return Hands(host, DesiredFile(tmp_path), Desired())


def do(
    host: simulate.SimulatedRoot, hands: Hands, *wanted: WantedHandle, back: tuple[WantedHandle, ...] = ()
) -> list[HandleResult]:
    work = Work(1, wanted, back)
    return hands.perform(plan(work, observe(host, work, hands.memory.taken)))


def idle(host: simulate.SimulatedRoot, hands: Hands, *wanted: WantedHandle) -> bool:
    """Whether another pass has nothing to do."""
    work = Work(1, wanted)
    return all(task.step is None and task.entry is None for task in plan(work, observe(host, work, hands.memory.taken)))


def everything(host: simulate.SimulatedRoot) -> dict[str, object]:
    """All that an attachment could change: files, links, contents."""
    place = Path(host.path)
    found: dict[str, object] = {}
    for path in sorted(place.rglob("*")):
        if path.is_symlink():
            found[str(path)] = path.readlink()
        elif path.is_file():
            # What the kernel lets nobody read, as its bind, keeps nothing; an ordinary user could not even open it.
            found[str(path)] = path.read_bytes() if path.stat().st_mode & stat.S_IRUSR else "write-only"
    return found


def driver(host: simulate.SimulatedRoot) -> str | None:
    return host.link_name(f"sys/bus/pci/devices/{M40}/driver")


def paths(host: simulate.SimulatedRoot, lease: str = LEASE) -> set[str]:
    data = cdi.read(host, lease)
    assert data is not None
    [device] = json.loads(data)["devices"]
    return {node["path"] for node in device["containerEdits"]["deviceNodes"]}


def borrow(service: Service, guest: str, *, count: int = 1) -> Lease:
    until(lambda: sum(service.free().values()) >= 9)
    made = create_lease(service.db, LOCAL_ADMIN, profile_name="card", count=count, attachment=Attachment.parse(guest))
    return service.settled(made.uuid)


def test_a_card_for_a_container_stays_on_its_driver_and_has_a_name_until_it_is_given_back(
    service: Service, host: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    before = everything(host)
    with running(service, host, tmp_path / "agent"):
        lease = borrow(service, "cdi:train")
        assert (lease.state, str(lease.attachment)) == (LeaseState.ACTIVE, "cdi:train")
        assert driver(host) == "nvidia"
        assert "/dev/nvidia1" in paths(host, lease.uuid)
        assert "/dev/nvidia0" not in paths(host, lease.uuid)
        assert service.give_back(lease).state is LeaseState.RELEASED
        assert cdi.read(host, lease.uuid) is None
        assert service.free()[M40] == 1
    assert everything(host) == before


def test_a_containers_configuration_has_the_card_until_it_is_given_back(
    service: Service, host: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    with running(service, host, tmp_path / "agent"):
        lease = borrow(service, "lxc:c1")
        assert lease.state is LeaseState.ACTIVE
        config = host.read_bytes("var/lib/lxc/c1/config")
        assert config.startswith(BY_HAND)
        assert lease.uuid.encode() in config
        service.give_back(lease)
        assert host.read_bytes("var/lib/lxc/c1/config") == BY_HAND + b"\n"


def test_after_a_reboot_the_card_is_in_its_container_again_without_the_server(
    service: Service, host: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    with running(service, host, tmp_path / "agent"):
        lease = borrow(service, "lxc:c1")
    shutil.rmtree(Path(host.path, "run"))
    service.down()
    with running(service, host, tmp_path / "agent"):
        until(lambda: host.names("run/cantle/lxc/c1") == [f"{lease.uuid}.conf"])


def test_a_guest_that_is_not_there_fails_the_lease_with_its_name_and_the_card_is_free_again(
    service: Service, host: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    before = everything(host)
    with running(service, host, tmp_path / "agent"):
        lease = borrow(service, "lxc:nobody")
        assert lease.state is LeaseState.FAILED
        assert lease.arqs[0].reason_code == "guest-not-found"
        assert "nobody" in str(lease.arqs[0].reason)
        until(lambda: service.free()[M40] == 1)
    assert everything(host) == before


def test_a_guest_that_vanishes_ends_no_lease_and_a_release_ends_it(
    service: Service, host: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    with running(service, host, tmp_path / "agent", rescan=0.2):
        lease = borrow(service, "lxc:c1")
        shutil.rmtree(Path(host.path, "var/lib/lxc/c1"))
        until(lambda: get_lease(service.db, LOCAL_ADMIN, lease.uuid).arqs[0].reason_code == "guest-not-found")
        assert get_lease(service.db, LOCAL_ADMIN, lease.uuid).state is LeaseState.ACTIVE
        assert service.give_back(lease).state is LeaseState.RELEASED


def test_what_one_lease_has_is_one_file_and_a_unit_that_leaves_takes_only_its_own(
    host: simulate.SimulatedRoot, hands: Hands
) -> None:
    first, second = card(), card(uuid=SECOND, device=T4)
    assert [one.entered for one in do(host, hands, first, second)] == [True, True]
    assert host.names("run/cdi") == [f"cantle-lease-{LEASE}.json"]
    assert {"/dev/nvidia0", "/dev/nvidia1"} <= paths(host)
    assert idle(host, hands, first, second)
    [left, stays] = do(host, hands, second, back=(first,))
    assert (left.outcome, stays.outcome) == (Outcome.ABSENT, Outcome.READY)
    assert "/dev/nvidia0" in paths(host)
    assert "/dev/nvidia1" not in paths(host)
    do(host, hands, back=(second,))
    assert host.names("run/cdi") == []


def test_a_pass_over_what_stands_does_nothing_and_what_somebody_removed_is_made_again(
    host: simulate.SimulatedRoot, hands: Hands
) -> None:
    do(host, hands, card(C1))
    assert idle(host, hands, card(C1))
    Path(host.path, "var/lib/lxc/c1/config").write_bytes(BY_HAND)
    assert not idle(host, hands, card(C1))
    do(host, hands, card(C1))
    assert idle(host, hands, card(C1))
    assert host.read_bytes("var/lib/lxc/c1/config").count(b"lxc.include") == 1


def test_taking_back_what_never_entered_is_no_error(host: simulate.SimulatedRoot, hands: Hands) -> None:
    before = everything(host)
    assert [one.outcome for one in do(host, hands, back=(card(), card(C1, SECOND, T4)))] == [Outcome.ABSENT] * 2
    assert everything(host) == before


def _no_directory(place: Path) -> None:
    (place / "run").write_text("")


def _name_taken(place: Path) -> None:
    (place / "run/cdi").mkdir(parents=True)
    other = {"devices": [{"name": "train"}]}
    (place / "run/cdi" / f"cantle-lease-{SECOND}.json").write_text(json.dumps(other))


def _no_nodes(place: Path) -> None:
    (place / "dev/nvidia1").unlink()


def _no_unified_memory(place: Path) -> None:
    text = (place / "proc/devices").read_text()
    (place / "proc/devices").unlink()
    (place / "proc/devices").write_text(text.replace("510 nvidia-uvm\n", ""))


def _config_is_a_link(place: Path) -> None:
    (place / "elsewhere").write_bytes(BY_HAND)
    (place / "var/lib/lxc/c1/config").unlink()
    (place / "var/lib/lxc/c1/config").symlink_to("/elsewhere")


def _no_cgroup(place: Path) -> None:
    shutil.rmtree(place / "sys/fs/cgroup")


@pytest.mark.parametrize(
    ("break_it", "guest", "code"),
    [
        (_no_directory, TRAIN, "host-write-failed"),
        (_name_taken, TRAIN, "cdi-name-taken"),
        (_no_nodes, TRAIN, "node-missing"),
        (_no_unified_memory, TRAIN, "nvidia-uvm-missing"),
        (_no_nodes, C1, "node-missing"),
        (_no_directory, C1, "host-write-failed"),
        (_config_is_a_link, C1, "host-write-failed"),
        (_no_cgroup, C1, "no-device-cgroup"),
        (lambda _: None, Guest("lxc", "c2", LEASE), "guest-not-found"),
        (lambda _: None, Guest("kata", "c2", LEASE), "guest-kind-unknown"),
    ],
)
def test_a_failure_on_the_way_into_a_guest_leaves_everything_as_it_was(
    host: simulate.SimulatedRoot, hands: Hands, break_it: Callable[[Path], None], guest: Guest, code: str
) -> None:
    break_it(Path(host.path))
    before = everything(host)
    [result] = do(host, hands, card(guest))
    assert (result.outcome, result.code, result.entered) == (Outcome.FAILED, code, False)
    assert everything(host) == before


def test_a_slice_that_cannot_enter_its_guest_is_removed_again(host: simulate.SimulatedRoot, hands: Hands) -> None:
    """The simulated kernel gives mediated devices no VFIO node of a known number."""
    slice_ = WantedHandle(FIRST, T4, AttachType.MDEV, {"asked_type": "nvidia-223"}, TRAIN)
    [result] = do(host, hands, slice_)
    assert (result.outcome, result.code) == (Outcome.FAILED, "no-device-nodes")
    assert mdev.devices(host) == []


def _book(place: Path) -> None:
    (place / f"run/cantle/lxc/c1/{LEASE}.conf").unlink()


def _line(place: Path) -> None:
    (place / "var/lib/lxc/c1/config").write_bytes(BY_HAND)


def _left_over(place: Path) -> None:
    (place / "var/lib/lxc/c1/.config.cantle-new").write_bytes(b"half")
    (place / f"run/cantle/lxc/c1/.{LEASE}.conf.cantle-new").write_bytes(b"half")


@pytest.mark.parametrize("half", [_book, _line, _left_over])
def test_an_agent_that_was_killed_half_way_finishes_it_or_takes_it_back_in_its_next_life(
    host: simulate.SimulatedRoot, hands: Hands, half: Callable[[Path], None]
) -> None:
    """Each file is there as it was or as it shall be: what there can be is one of two without the other."""
    do(host, hands, card(C1))
    whole = everything(host)
    half(Path(host.path))
    do(host, hands, card(C1))
    if half is not _left_over:
        assert {rel: data for rel, data in everything(host).items() if "cantle-new" not in rel} == whole
    assert idle(host, hands, card(C1))
    half(Path(host.path))
    [result] = do(host, hands, back=(card(C1),))
    assert result.outcome is Outcome.ABSENT
    assert host.read_bytes("var/lib/lxc/c1/config") in (BY_HAND, BY_HAND + b"\n")
    assert f"{LEASE}.conf" not in host.names("run/cantle/lxc/c1")


VM = Guest("libvirt", "v1", LEASE)


def _domain(place: Path, *devices: str) -> None:
    """A domain that is defined and does not run."""
    hostdevs = "".join(f"<hostdev><source>{device}</source></hostdev>" for device in devices)
    text = f"<domain><name>v1</name><uuid>{SECOND}</uuid><devices>{hostdevs}</devices></domain>"
    (place / "etc/libvirt/qemu").mkdir(parents=True, exist_ok=True)
    (place / "etc/libvirt/qemu/v1.xml").write_text(text)


def test_a_domain_that_is_not_there_gives_the_card_back_to_its_driver(
    host: simulate.SimulatedRoot, hands: Hands
) -> None:
    before = everything(host)
    [result] = do(host, hands, card(VM))
    assert (result.outcome, result.code) == (Outcome.FAILED, "guest-not-found")
    assert driver(host) == "nvidia"
    assert everything(host) == before


def test_what_libvirt_refuses_gives_the_card_back_to_its_driver(host: simulate.SimulatedRoot, hands: Hands) -> None:
    _domain(Path(host.path))
    before = everything(host)
    host.fail_tool(Ran(1, "error: internal error: no PCI buses available"))
    [result] = do(host, hands, card(VM))
    assert (result.outcome, result.code) == (Outcome.FAILED, "libvirt-refused")
    assert "no PCI buses available" in str(result.message)
    assert driver(host) == "nvidia"
    assert everything(host) == before


def test_a_slice_that_its_domain_cannot_take_is_removed_again(host: simulate.SimulatedRoot, hands: Hands) -> None:
    _domain(Path(host.path))
    host.fail_tool(HostError("tool-not-run", "there is no virsh"))
    [result] = do(host, hands, WantedHandle(FIRST, T4, AttachType.MDEV, {"asked_type": "nvidia-223"}, VM))
    assert (result.outcome, result.code) == (Outcome.FAILED, "tool-not-run")
    assert mdev.devices(host) == []


def test_a_card_for_a_domain_that_has_it_already_is_bound_and_nothing_is_asked_of_libvirt(
    host: simulate.SimulatedRoot, hands: Hands
) -> None:
    """After a reboot: the domain is defined with it, and the card is on its driver again."""
    _domain(Path(host.path), '<address domain="0x0000" bus="0x86" slot="0x00" function="0x0"/>')
    host.fail_tool(Ran(1, "libvirt was asked"))
    [result] = do(host, hands, card(VM))
    assert (result.outcome, result.entered) == (Outcome.READY, True)
    assert driver(host) == "vfio-pci"
    assert idle(host, hands, card(VM))


def test_a_guest_that_cannot_be_stopped_keeps_its_card_and_the_lease_says_why(
    host: simulate.SimulatedRoot, hands: Hands
) -> None:
    address = '<address domain="0x0000" bus="0x86" slot="0x00" function="0x0"/>'
    _domain(Path(host.path), address)
    do(host, hands, card(VM))
    text = Path(host.path, "etc/libvirt/qemu/v1.xml").read_text()
    running = Path(host.path, "run/libvirt/qemu/v1.xml")
    running.parent.mkdir(parents=True)
    running.write_text(f"<domstatus>{text}</domstatus>")
    host.fail_tool(Ran(1, "error: cannot acquire state change lock"))
    [result] = do(host, hands, back=(card(msgspec.structs.replace(VM, stop=True)),))
    assert (result.outcome, result.code) == (Outcome.FAILED, "libvirt-refused")
    assert "cannot acquire state change lock" in str(result.message)
    assert driver(host) == "vfio-pci"
    running.unlink()
    _domain(Path(host.path))
    [result] = do(host, hands, back=(card(msgspec.structs.replace(VM, stop=True)),))
    assert result.outcome is Outcome.ABSENT
    assert result.cleaning is not None
    assert result.cleaning.done.startswith("libvirt:v1 was asked to shut down and stopped; ")
    assert driver(host) == "nvidia"


def test_a_container_that_cannot_be_left_keeps_the_card_lent_and_says_why(
    host: simulate.SimulatedRoot, hands: Hands
) -> None:
    do(host, hands, card(C1))
    config = Path(host.path, "var/lib/lxc/c1/config")
    config.rename(Path(host.path, "elsewhere"))
    config.mkdir()
    before = everything(host)
    [result] = do(host, hands, back=(card(C1),))
    assert (result.outcome, result.code) == (Outcome.FAILED, "host-read-failed")
    assert everything(host) == before
    config.rmdir()
    Path(host.path, "elsewhere").rename(config)
    [result] = do(host, hands, back=(card(C1),))
    assert result.outcome is Outcome.ABSENT
    assert config.read_bytes() == BY_HAND + b"\n"


def test_a_unit_that_is_remarked_upon_is_in_its_guest_all_the_same() -> None:
    ready = HandleResult(FIRST, Outcome.READY, entered=True)
    [told] = guests.remarked([ready], {FIRST: (guests.NOT_IN_GUEST, "why")})
    assert told == HandleResult(FIRST, Outcome.READY, guests.NOT_IN_GUEST, "why", entered=True)
