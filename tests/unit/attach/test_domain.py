"""Units in libvirt's domains, on a tree with libvirt's files and a virsh that changes them: for what no real one does on demand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    """A host whose virsh does what libvirt's does to its files. ``refuses`` (calls with this flag: in these words), ``lies``, ``deaf`` and
    ``vanishes`` are what goes wrong."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.called: list[tuple[str, ...]] = []
        self.refuses: dict[str, str] = {}
        self.lies = False
        self.deaf = False
        self.vanishes: list[str] = []

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
        for rel in self.vanishes:
            self.remove(rel)
        if self.vanishes or flags[0] in self.refuses:
            return Ran(1, self.refuses.get(flags[0], f"error: failed to get domain '{name}'"))
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
@pytest.mark.parametrize(("name", "flags"), [("v1", ("--config", "--live")), ("v2", ("--config",))])
def test_a_unit_goes_into_what_runs_and_into_what_is_defined_and_out_of_both(
    host: Libvirt, unit: str, name: str, flags: tuple[str, ...]
) -> None:
    before = files(host)
    enter(host, name, unit)
    assert host.called == [("attach-device", name, flag) for flag in flags]
    host.called.clear()
    assert domain.stands(host, name, unit)
    enter(host, name, unit)
    leave(host, name, unit)
    leave(host, name, unit)
    assert host.called == [("detach-device", name, flag) for flag in flags]
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


AWAY = "error: Failed to connect socket to '/var/run/libvirt/libvirt-sock': No such file or directory"
BUSY = "error: Requested operation is not valid: PCI device 0001:d6:1f.7 is in use by driver QEMU, domain v9"
OPEN = "error: internal error: unable to execute QEMU command 'device_add': vfio: failed to open /dev/vfio/9: Device or resource busy"
READ_ONLY = "error: cannot create file '/etc/libvirt/qemu/v1.xml.new': Read-only file system"
FULL = "error: cannot create file '/etc/libvirt/qemu/v1.xml.new': No space left on device"
NO_SLOT = "error: internal error: No more available PCI slots"
NO_VFIO = "error: unsupported configuration: host doesn't support passthrough of host PCI devices"
NO_IDEA = "error: An error occurred, but the cause is unknown"
BOTH_FLAGS = ("--config", "--live")


@pytest.mark.parametrize("way", [enter, leave])
@pytest.mark.parametrize(
    ("flags", "words", "mend"),
    [
        (BOTH_FLAGS, AWAY, "start its daemon"),
        (("--live",), AWAY, "start its daemon"),
        (BOTH_FLAGS, BUSY, "another guest or process has the device"),
        (("--live",), BUSY, "another guest or process has the device"),
        (("--live",), OPEN, "another guest or process has the device"),
        (("--config",), READ_ONLY, "make the disk below /etc/libvirt writable"),
        (("--config",), FULL, "make the disk below /etc/libvirt writable"),
        (("--live",), NO_SLOT, "more pcie-root-port controllers"),
        (("--live",), NO_VFIO, "see the IOMMU"),
        (("--live",), NO_IDEA, "libvirt's log"),
    ],
)
def test_whatever_step_libvirt_refuses_all_is_as_it_was_and_the_message_says_what_helps(
    host: Libvirt, way: Callable[[Libvirt, str, str], None], flags: tuple[str, ...], words: str, mend: str
) -> None:
    if way is leave:
        enter(host, "v1", CARD)
    before = plain(host)
    host.refuses = dict.fromkeys(flags, words)
    with pytest.raises(HostError) as caught:
        way(host, "v1", CARD)
    assert caught.value.code == "libvirt-refused"
    assert words in caught.value.message
    assert mend in caught.value.message
    assert plain(host) == before
    host.refuses = {}
    way(host, "v1", CARD)
    assert domain.stands(host, "v1", CARD) is (way is enter)


def plain(host: Libvirt) -> dict[str, str]:
    """The files, however an empty element is written."""
    return {rel: text.replace(" />", "/>") for rel, text in files(host).items()}


def test_a_domain_that_is_undefined_and_ended_while_it_is_given_a_device_is_named(host: Libvirt) -> None:
    host.vanishes = [f"{RUNNING}/v1.xml", f"{DEFINED}/v1.xml"]
    with pytest.raises(NotFound, match="v1") as caught:
        enter(host, "v1", CARD)
    assert caught.value.code == "guest-not-found"
    assert not any("v1" in rel for rel in files(host))


def test_a_domain_that_vanishes_while_it_is_left_has_been_left(host: Libvirt) -> None:
    enter(host, "v1", CARD)
    host.vanishes = [f"{RUNNING}/v1.xml", f"{DEFINED}/v1.xml"]
    leave(host, "v1", CARD)


def test_a_domain_that_stops_meanwhile_has_the_device_at_its_next_start(host: Libvirt) -> None:
    enter(host, "v1", SLICE)
    host.define("v1", running=True)
    enter(host, "v2", SLICE)
    text = host.read(f"{DEFINED}/v2.xml").replace("v2", "v1")
    host.replace(f"{DEFINED}/v1.xml", text.encode())
    host.vanishes = [f"{RUNNING}/v1.xml"]
    enter(host, "v1", SLICE)
    assert domain.stands(host, "v1", SLICE)


def test_an_answer_that_its_files_do_not_bear_out_is_no_success(host: Libvirt) -> None:
    host.lies = True
    with pytest.raises(HostError, match="its files say") as caught:
        enter(host, "v2", CARD)
    assert caught.value.code == "libvirt-refused"


@pytest.mark.parametrize(
    "again",
    ["", "error: internal error: unable to execute QEMU command 'device_del': Device is in the process of unplug"],
)
def test_a_guest_that_does_not_let_go_keeps_its_device_and_the_lease_is_told(host: Libvirt, again: str) -> None:
    """libvirt says "Device detached successfully" for a paused guest, which has it all the same; QEMU refuses to ask it again."""
    enter(host, "v1", CARD)
    before = plain(host)
    host.deaf = True
    host.refuses = {"--live": again} if again else {}
    with pytest.raises(Conflict, match="has not") as caught:
        leave(host, "v1", CARD)
    assert caught.value.code == "guest-keeps-device"
    assert plain(host) == before
    host.deaf, host.refuses = False, {}
    leave(host, "v1", CARD)
    assert not domain.stands(host, "v1", CARD)


def test_a_domain_that_is_not_there_is_named_going_in_and_no_error_going_out(host: Libvirt) -> None:
    with pytest.raises(NotFound, match="v3") as caught:
        enter(host, "v3", CARD)
    assert caught.value.code == "guest-not-found"
    leave(host, "v3", CARD)
    assert host.called == []
