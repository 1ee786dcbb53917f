"""Units in libvirt's domains, on a tree with libvirt's files and a virsh that changes them: for what no real one does on demand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cantle.attach import domain
from cantle.errors import Conflict, HostError, NotFound
from cantle.kernel.root import Root
from cantle.kernel.tools import Ran
from cantle.kernel.undo import Undo

CARD = "0001:d6:1f.7"
SLICE = "11111111-2222-4333-8444-555555555555"
RUNNING, DEFINED = "run/libvirt/qemu", "etc/libvirt/qemu"


class Libvirt(Root):
    """A host whose virsh does what libvirt's does to its files. ``refuses`` and ``deaf`` are what goes wrong."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.called: list[tuple[str, ...]] = []
        self.refuses = ""
        self.lies = False
        self.deaf = False

    def define(self, name: str, *, running: bool = False) -> None:
        """A domain without devices."""
        text = f"<domain><name>{name}</name><uuid>{SLICE}</uuid><devices/></domain>"
        self.replace(f"{DEFINED}/{name}.xml", text.encode())
        if running:
            self.replace(f"{RUNNING}/{name}.xml", f"<domstatus>{text}</domstatus>".encode())

    def run(self, argv: Sequence[str], seconds: float) -> Ran:  # noqa: ARG002 - nothing here takes time
        """Only ``virsh -q -c URI attach-device|detach-device NAME FILE FLAG...``."""
        command, name, file, *flags = argv[4:]
        self.called.append((command, name, *flags))
        if self.refuses:
            return Ran(1, self.refuses)
        device = ElementTree.fromstring(self.read(file.lstrip("/")))  # noqa: S314 - our own
        for flag in flags:
            if not self.lies and not (self.deaf and command == "detach-device" and flag == "--live"):
                self._change(f"{RUNNING if flag == '--live' else DEFINED}/{name}.xml", command, device)
        return Ran(0, "")

    def _change(self, rel: str, command: str, device: ElementTree.Element) -> None:
        top = ElementTree.fromstring(self.read(rel))  # noqa: S314 - our own
        devices = top.find(".//devices")
        assert devices is not None
        if command == "attach-device":
            devices.append(device)
        else:
            address = device.find("source/address")
            assert address is not None
            for one in devices.findall("hostdev"):
                other = one.find("source/address")
                if other is not None and other.attrib == address.attrib:
                    devices.remove(one)
        self.replace(rel, ElementTree.tostring(top))


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Libvirt:
    """A host with a domain that runs, v1, and one that does not, v2; a guest is waited for no longer than it takes to ask."""
    made = Libvirt(tmp_path)
    made.define("v1", running=True)
    made.define("v2")
    monkeypatch.setattr(domain, "_LETTING_GO", 0.0)
    return made


def files(host: Libvirt) -> dict[str, str]:
    names = [f"{place}/{name}" for place in (RUNNING, DEFINED, "run/cantle/libvirt") for name in host.names(place)]
    return {name: host.read(name) for name in names}


def enter(host: Libvirt, name: str, unit: str) -> None:
    with Undo() as undo:
        domain.enter(host, name, unit, undo)


def leave(host: Libvirt, name: str, unit: str) -> None:
    with Undo() as undo:
        domain.leave(host, name, unit, undo)


@pytest.mark.parametrize("unit", [CARD, SLICE])
@pytest.mark.parametrize(("name", "flags"), [("v1", ("--live", "--config")), ("v2", ("--config",))])
def test_a_unit_goes_into_what_runs_and_into_what_is_defined_and_out_of_both(
    host: Libvirt, unit: str, name: str, flags: tuple[str, ...]
) -> None:
    before = files(host)
    enter(host, name, unit)
    assert host.called == [("attach-device", name, *flags)]
    assert domain.stands(host, name, unit)
    enter(host, name, unit)
    leave(host, name, unit)
    leave(host, name, unit)
    assert host.called[1:] == [("detach-device", name, *flags)]
    assert {rel: text.replace(" />", "/>") for rel, text in files(host).items()} == before


def test_a_domain_that_came_back_without_its_device_gets_it_again(host: Libvirt) -> None:
    enter(host, "v1", CARD)
    text = host.read(f"{DEFINED}/v1.xml")
    host.define("v1", running=True)
    host.replace(f"{DEFINED}/v1.xml", text.encode())
    assert not domain.stands(host, "v1", CARD)
    enter(host, "v1", CARD)
    assert host.called[-1] == ("attach-device", "v1", "--live")
    assert domain.stands(host, "v1", CARD)


def test_what_libvirt_refuses_leaves_no_trace_and_is_told_in_its_words(host: Libvirt) -> None:
    before = files(host)
    host.refuses = "error: Failed to connect socket to '/var/run/libvirt/libvirt-sock'"
    with pytest.raises(HostError, match="Failed to connect socket") as caught:
        enter(host, "v1", CARD)
    assert caught.value.code == "libvirt-refused"
    assert files(host) == before


def test_an_answer_that_its_files_do_not_bear_out_is_no_success(host: Libvirt) -> None:
    host.lies = True
    with pytest.raises(HostError, match="its files say") as caught:
        enter(host, "v2", CARD)
    assert caught.value.code == "libvirt-refused"


def test_a_guest_that_does_not_let_go_keeps_its_device_and_the_lease_is_told(host: Libvirt) -> None:
    """libvirt says "Device detached successfully" for a paused guest, which has it all the same."""
    enter(host, "v1", CARD)
    before = files(host)
    host.deaf = True
    with pytest.raises(Conflict, match="has not") as caught:
        leave(host, "v1", CARD)
    assert caught.value.code == "guest-keeps-device"
    assert {rel: text.replace(" />", "/>") for rel, text in files(host).items()} == {
        rel: text.replace(" />", "/>") for rel, text in before.items()
    }
    host.deaf = False
    leave(host, "v1", CARD)
    assert not domain.stands(host, "v1", CARD)


def test_a_domain_that_is_not_there_is_named_going_in_and_no_error_going_out(host: Libvirt) -> None:
    with pytest.raises(NotFound, match="v3") as caught:
        enter(host, "v3", CARD)
    assert caught.value.code == "guest-not-found"
    leave(host, "v3", CARD)
    assert host.called == []
