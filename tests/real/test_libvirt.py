"""Units in domains of a real libvirt: defined ones take them, running ones are asked, and whatever is refused leaves no trace."""

from __future__ import annotations

import subprocess
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest
from tests.real.libvirt import Domain, answers, daemons, virsh
from tests.real.processes import Service

from cantle.attach import domain
from cantle.attach.domain_events import DomainEvents
from cantle.attach.domains import domains
from cantle.attach.libvirt import Screen, hole_xml, hostdev_xml, node_xml, unit_xml
from cantle.errors import HostError, NotFound
from cantle.kernel.root import Root
from cantle.kernel.undo import Undo
from cantle.model.pci import PciAddress

MACHINE = Root("/")
CARD = "0001:d6:1f.7"
SLICE = "11111111-2222-4333-8444-555555555555"


@pytest.fixture(scope="module")
def libvirt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Service]]:
    """Its daemons, unless the machine has them running; then none."""
    mine = [] if answers() else daemons(tmp_path_factory.mktemp("libvirt"))
    started: list[Service] = []
    try:
        for service in mine:
            service.start(answers if service is mine[-1] else lambda service=service: service.running)  # type: ignore[misc]
            started.append(service)
        yield mine
    finally:
        for service in reversed(started):
            service.stop()


@pytest.fixture
def guest(libvirt: list[Service], tmp_path: Path) -> Iterator[Domain]:
    """A domain that is defined and does not run."""
    made = Domain(tmp_path)
    yield made
    made.remove()


def enter(guest: Domain, unit: str) -> None:
    with Undo() as undo:
        domain.enter(MACHINE, guest.name, unit, undo)


def leave(guest: Domain, unit: str) -> None:
    with Undo() as undo:
        domain.leave(MACHINE, guest.name, unit, undo)


@pytest.mark.parametrize(
    ("unit", "said"),
    [
        (CARD, "<address domain='0x0001' bus='0xd6' slot='0x1f' function='0x7'/>"),
        (SLICE, f"<address uuid='{SLICE}'/>"),
    ],
)
def test_a_defined_domain_takes_a_unit_and_gives_it_back(guest: Domain, unit: str, said: str, tmp_path: Path) -> None:
    before = guest.xml()
    enter(guest, unit)
    assert said in guest.xml()
    assert "managed='no'" in guest.xml()
    assert guest.is_valid(tmp_path)
    assert domain.stands(MACHINE, guest.name, unit)
    enter(guest, unit)
    assert guest.xml().count(said) == 1
    leave(guest, unit)
    leave(guest, unit)
    assert _without_buses(guest.xml()) == _without_buses(before)
    assert f"{unit}.xml" not in MACHINE.names("run/cantle/libvirt")


def _without_buses(xml: str) -> list[str]:
    """libvirt keeps the bridge that it once made for a device."""
    return [line for line in xml.split("\n") if "hostdev" in line or "serial" in line or "<name>" in line]


def test_two_units_come_and_go_by_themselves(guest: Domain) -> None:
    enter(guest, CARD)
    enter(guest, SLICE)
    leave(guest, CARD)
    [found] = [one for one in domains(MACHINE) if one.name == guest.name]
    assert found.devices == {SLICE}


@pytest.mark.parametrize("prepared", [True, False])
def test_every_shape_that_we_write_is_what_libvirts_schema_takes(
    guest: Domain, tmp_path: Path, *, prepared: bool
) -> None:
    place = {"domain": "0000", "bus": "af", "device": "00", "function": "0"}
    for number, xml in enumerate((hostdev_xml("PCI", place, "", prepared=prepared), hostdev_xml("MDEV", place, SLICE))):
        file = tmp_path / f"{number}.xml"
        file.write_text(xml)
        virsh("attach-device", guest.name, str(file), "--config")
    assert guest.is_valid(tmp_path)


PLACE = {"domain": "1", "bus": "d6", "device": "1f", "function": "7"}
CARDS = [PciAddress.parse(f"0001:d6:00.{number}") for number in range(3)]
SHAPES = {
    "function": hostdev_xml("PCI", PLACE, ""),
    "managed": hostdev_xml("PCI", PLACE, "", prepared=False),
    "slice": hostdev_xml("MDEV", {}, SLICE),
    "display": hostdev_xml("MDEV", {}, SLICE, screen=Screen()),
    "ramfb": hostdev_xml("MDEV", {}, SLICE, screen=Screen(ramfb=True)),
    "functions": unit_xml(CARDS, PciAddress.parse("0a:00.0")),
    "room": str(hole_xml([64 << 30])),
    "node": node_xml("/dev/nvidia0"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_libvirts_own_schema_takes_what_is_written(tmp_path: Path, shape: str) -> None:
    assert validated(tmp_path, SHAPES[shape], container=shape == "node") == ""


def test_libvirts_own_schema_refuses_what_is_wrong(tmp_path: Path) -> None:
    wrong = SHAPES["display"].replace('display="on"', 'display="maybe"')
    assert "fails to validate" in validated(tmp_path, wrong)


def validated(directory: Path, xml: str, *, container: bool = False) -> str:
    """What virt-xml-validate has to say against a domain with it; a fragment has no schema."""
    system = "<os><type>exe</type><init>/init</init></os>" if container else "<os><type machine='q35'>hvm</type></os>"
    kind = "lxc" if container else "kvm"
    file = directory / "domain.xml"
    file.write_text(
        f"<domain type='{kind}'><name>n</name><memory>65536</memory>{system}<devices>{xml}</devices></domain>"
    )
    done = subprocess.run(["virt-xml-validate", str(file), "domain"], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_a_running_domain_that_cannot_take_it_has_it_neither_now_nor_at_its_next_start(guest: Domain) -> None:
    """This machine passes nothing through, so libvirt refuses at once: the words are libvirt's."""
    virsh("start", guest.name)
    before = (guest.xml(), guest.xml("--inactive"))
    with pytest.raises(HostError, match="--live") as caught:
        enter(guest, SLICE)
    assert caught.value.code == "libvirt-refused"
    assert (guest.xml(), guest.xml("--inactive")) == before
    assert f"{SLICE}.xml" not in MACHINE.names("run/cantle/libvirt")


def test_what_happens_to_a_domain_is_heard_as_it_happens(guest: Domain) -> None:
    with closing(iter(DomainEvents(MACHINE, lambda: True, threading.Event()))) as heard:
        assert next(heard) == ""
        told: list[str] = []
        follower = threading.Thread(target=lambda: told.extend(islice(heard, 3)))
        follower.start()
        virsh("start", guest.name)
        virsh("destroy", guest.name)
        guest.remove()
        follower.join(60)
    assert len(told) == 3
    assert all(f"for domain '{guest.name}'" in one for one in told)


def test_a_domain_that_nobody_defined_is_named(libvirt: list[Service]) -> None:
    with pytest.raises(NotFound) as caught, Undo() as undo:
        domain.enter(MACHINE, f"cantle-test-{uuid.uuid4().hex[:8]}", CARD, undo)
    assert caught.value.code == "guest-not-found"


def test_a_domain_that_was_undefined_has_been_left(libvirt: list[Service], tmp_path: Path) -> None:
    gone = Domain(tmp_path)
    enter(gone, CARD)
    gone.remove()
    leave(gone, CARD)
