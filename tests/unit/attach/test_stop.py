"""Guests that are stopped at a lease's end, on a tree with libvirt's and liblxc's files and tools that stop what they are told to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from cantle.attach import lxc, stop
from cantle.errors import Conflict, HostError
from cantle.kernel.root import Root
from cantle.kernel.tools import Ran
from cantle.model.attachment import Attachment

SLICE = "11111111-2222-4333-8444-555555555555"
LEASE = "2f1c7e0a-5a7e-4a52-8a53-4cf1a2f0c7d1"
V1, C1 = Attachment.parse("libvirt:v1"), Attachment.parse("lxc:c1")
RUNNING = "run/libvirt/qemu/v1.xml"
PID = "run/c1.pid"


class Guests(Root):
    """A domain and a container that run and have the slice. ``deaf``: they do not hear that they shall shut down; ``immortal``: force does
    not end them either; ``refuses``: the tools fail."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.asked: list[str] = []
        self.deaf = self.immortal = False
        self.refuses = ""
        self.start()

    @property
    def is_machine(self) -> bool:
        return True

    def start(self, unit: str = SLICE) -> None:
        device = f"<hostdev><source><address uuid='{unit}'/></source></hostdev>" if unit else ""
        text = f"<domstatus><domain><name>v1</name><uuid>{SLICE}</uuid><devices>{device}</devices></domain></domstatus>"
        self.replace(RUNNING, text.encode())
        self.replace(PID, b"4711\n")
        self.replace(lxc.book("c1", LEASE), b"# ours\n")

    def run(self, argv: Sequence[str], seconds: float) -> Ran:  # noqa: ARG002 - nothing here takes time
        """``lxc-info``, ``virsh shutdown|destroy`` and ``lxc-stop``."""
        if argv[0] == "lxc-info":
            return Ran(0, self.read_or_none(PID) or "-1")
        self.asked.append(argv[4] if argv[0] == "virsh" else " ".join(argv[3:]))
        if self.refuses:
            return Ran(1, self.refuses)
        force = argv[-1] == "--kill" or "destroy" in argv
        if not self.immortal and (force or not self.deaf):
            self.remove(RUNNING if argv[0] == "virsh" else PID)
        return Ran(0, "")


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Guests:
    """Guests that are waited for no longer than it takes to ask."""
    monkeypatch.setattr(stop, "_WAIT", 0.0)
    return Guests(tmp_path)


BOTH = pytest.mark.parametrize(
    ("guest", "soft", "hard"), [(V1, "shutdown", "destroy"), (C1, "--nokill --nowait", "--kill")]
)


@BOTH
def test_a_guest_that_listens_is_asked_once_and_no_force_is_used(
    host: Guests, guest: Attachment, soft: str, hard: str
) -> None:
    assert stop.stop(host, guest, LEASE, SLICE) == f"{guest} was asked to shut down and stopped"
    assert stop.stop(host, guest, LEASE, SLICE) is None
    assert host.asked == [soft]
    assert hard not in host.asked
    assert host.names(stop.BOOK) == []


@BOTH
def test_a_guest_that_does_not_listen_is_ended_by_force_after_a_while_and_not_before(
    host: Guests, monkeypatch: pytest.MonkeyPatch, guest: Attachment, soft: str, hard: str
) -> None:
    host.deaf = True
    for _ in range(3):
        with pytest.raises(Conflict, match="ended by force") as waits:
            stop.stop(host, guest, LEASE, SLICE)
        assert waits.value.code == "guest-stopping"
    assert host.asked == [soft]
    monkeypatch.setattr(stop, "_PATIENCE", 0.0)
    assert "ended by force" in str(stop.stop(host, guest, LEASE, SLICE))
    assert host.asked == [soft, hard]
    assert host.names(stop.BOOK) == []


@BOTH
def test_a_guest_that_stopped_between_two_looks_is_told_of(
    host: Guests, guest: Attachment, soft: str, hard: str
) -> None:
    host.deaf = True
    with pytest.raises(Conflict):
        stop.stop(host, guest, LEASE, SLICE)
    host.remove(RUNNING)
    host.remove(PID)
    assert stop.stop(host, guest, LEASE, SLICE) == f"{guest} was asked to shut down and stopped"
    assert host.asked == [soft]
    assert hard not in host.asked


@BOTH
def test_a_guest_that_cannot_be_asked_is_ended_by_force_all_the_same(
    host: Guests, monkeypatch: pytest.MonkeyPatch, guest: Attachment, soft: str, hard: str
) -> None:
    host.refuses = "error: it is paused"
    with pytest.raises(HostError, match="it is paused"):
        stop.stop(host, guest, LEASE, SLICE)
    host.refuses = ""
    monkeypatch.setattr(stop, "_PATIENCE", 0.0)
    assert "ended by force" in str(stop.stop(host, guest, LEASE, SLICE))
    assert host.asked == [soft, hard]


@BOTH
def test_what_force_does_not_end_is_not_said_to_have_stopped(
    host: Guests, monkeypatch: pytest.MonkeyPatch, guest: Attachment, soft: str, hard: str
) -> None:
    host.immortal = True
    with pytest.raises(Conflict):
        stop.stop(host, guest, LEASE, SLICE)
    monkeypatch.setattr(stop, "_PATIENCE", 0.0)
    with pytest.raises(HostError, match="runs all the same"):
        stop.stop(host, guest, LEASE, SLICE)
    assert host.asked == [soft, hard]


def test_a_guest_that_was_started_again_without_the_unit_is_left_alone(host: Guests) -> None:
    host.start(unit="")
    host.remove(lxc.book("c1", LEASE))
    assert stop.stop(host, V1, LEASE, SLICE) is None
    assert stop.stop(host, C1, LEASE, SLICE) is None
    assert host.asked == []


def test_a_name_that_any_container_may_use_stops_nobody(host: Guests) -> None:
    assert stop.stop(host, Attachment.parse("cdi:train"), LEASE, SLICE) is None
    assert host.asked == []
