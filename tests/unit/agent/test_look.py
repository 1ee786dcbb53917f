"""Looking again: cheap while nothing has changed, and nothing that changes is missed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.drivers.hosts import FIRST, M40, SEED, T4

from cantle import simulate
from cantle.agent import discover
from cantle.agent.look import WHOLE, Looks
from cantle.drivers import loader
from cantle.kernel import mdev
from cantle.wire.inventory import InventoryReport


class Host:
    """A host that is looked at again and again. ``looks`` counts those at everything."""

    def __init__(self, root: simulate.SimulatedRoot) -> None:
        self.root = root
        self.time = 0.0
        self.looks = 0
        self.drivers, _ = loader.load()
        self.again = Looks(root, lambda: self.time)

    def report(self, basis: object = ()) -> InventoryReport:
        return self.again.report(basis, self._whole)

    def _whole(self) -> InventoryReport:
        self.looks += 1
        view, problems = discover.look("node1", self.root, SEED, {})
        return discover.report(view, self.drivers, problems, "start")


@pytest.fixture
def host(t4: simulate.SimulatedRoot) -> Host:
    return Host(t4)


def test_a_host_that_has_not_changed_is_not_read_again_before_its_time(host: Host) -> None:
    first = host.report()
    assert host.report() is first
    assert host.looks == 1
    host.time = WHOLE + 1
    assert host.report() == first
    assert host.looks == 2


def make_and_remove(root: simulate.SimulatedRoot) -> None:
    mdev.create(root, T4, "nvidia-223", FIRST)


def unbind(root: simulate.SimulatedRoot) -> None:
    root.write("sys/bus/pci/drivers/nvidia/unbind", T4)


def pull(root: simulate.SimulatedRoot) -> None:
    root.unplug(M40)


def hang(root: simulate.SimulatedRoot) -> None:
    Path(root.path, "sys/bus/pci/devices", M40, "config").write_bytes(b"\xff" * 64)


@pytest.mark.parametrize("change", [make_and_remove, unbind, pull, hang], ids=lambda one: one.__name__)
def test_every_change_is_seen_at_the_next_look(host: Host, change: Callable[[simulate.SimulatedRoot], None]) -> None:
    Path(host.root.path, "sys/bus/pci/devices", M40, "config").write_bytes(b"\xde\x10\xfd\x17")
    first = host.report()
    change(host.root)
    assert host.report() != first
    assert host.looks == 2


def test_a_device_that_is_exchanged_for_another_of_its_type_is_seen(host: Host) -> None:
    mdev.create(host.root, T4, "nvidia-223", FIRST)
    host.report()
    mdev.remove(host.root, FIRST)
    mdev.create(host.root, T4, "nvidia-223", "99999999-2222-4333-8444-555555555555")
    host.report()
    assert host.looks == 2


def test_what_else_goes_into_a_report_counts_too(host: Host) -> None:
    host.report(("one",))
    host.report(("other",))
    assert host.looks == 2
    host.again.forget()
    host.report(("other",))
    assert host.looks == 3


def test_what_changes_during_a_look_is_seen_at_the_next(host: Host) -> None:
    whole = host._whole

    def changed_meanwhile() -> InventoryReport:
        report = whole()
        mdev.create(host.root, T4, "nvidia-223", FIRST)
        return report

    first = host.again.report((), changed_meanwhile)
    assert host.report() != first
