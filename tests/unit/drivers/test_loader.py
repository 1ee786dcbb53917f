"""Drivers come from entry points, and one that fails costs only its own devices."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import EntryPoint
from pathlib import Path

from tests.unit.drivers.hosts import M40, SEED, T4

from cantle import simulate
from cantle.agent import discover
from cantle.drivers import loader
from cantle.drivers.driver import HostView
from cantle.drivers.mdev import MdevDriver
from cantle.drivers.nvidia import NvidiaDriver
from cantle.model.device import DeviceType, Health, Mode
from cantle.wire.inventory import DeviceReport


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, loader.GROUP)


def test_the_drivers_of_cantle_are_installed_as_entry_points() -> None:
    drivers, problems = loader.load()
    assert {"mdev", "nvidia"} <= {driver.name for driver in drivers}
    assert problems == []


def test_a_driver_that_cannot_be_loaded_is_told_and_the_others_are_there() -> None:
    drivers, problems = loader.load(
        [
            point("nvidia", "cantle.drivers.nvidia:NvidiaDriver"),
            point("acme", "acme_cantle:Driver"),
            point("broken", f"{__name__}:Unmakeable"),
        ]
    )
    assert [driver.name for driver in drivers] == ["nvidia"]
    assert [(problem.source, problem.code) for problem in problems] == [
        ("acme", "driver-not-loadable"),
        ("broken", "driver-not-loadable"),
    ]
    assert "acme_cantle" in problems[0].message


class Unmakeable:
    """Raises when made."""

    def __init__(self) -> None:
        raise RuntimeError("no such library")


class Raising:
    """Raises when it looks."""

    name = "raising"

    def discover(self, host: HostView) -> Sequence[DeviceReport]:
        raise ValueError(f"bad luck on {host.hostname}")


class Greedy:
    """Reports a card of somebody else and one of its own."""

    name = "greedy"

    def discover(self, host: HostView) -> Sequence[DeviceReport]:
        facts = ("acme", host.hostname, "", "", Mode.UNASSIGNABLE, Health.OK)
        return [DeviceReport(T4, DeviceType.PCI, *facts), DeviceReport("zzz", DeviceType.PCI, *facts)]


def test_a_driver_that_raises_hides_no_other(tmp_path: Path) -> None:
    root = simulate.build(simulate.load("t4"), tmp_path / "t4")
    view, _ = discover.look("node1", root, SEED, {})
    found, problems = loader.discover([Raising(), MdevDriver(), NvidiaDriver()], view)
    assert [device.address for device in found] == [M40, T4]
    [problem] = problems
    assert (problem.source, problem.code) == ("raising", "driver-failed")
    assert "ValueError: bad luck on node1" in problem.message


def test_a_device_that_two_drivers_report_is_the_first_ones(tmp_path: Path) -> None:
    root = simulate.build(simulate.load("t4"), tmp_path / "t4")
    view, _ = discover.look("node1", root, SEED, {})
    found, problems = loader.discover([NvidiaDriver(), Greedy()], view)
    assert [(device.address, device.vendor) for device in found] == [(M40, "10de"), (T4, "10de"), ("zzz", "acme")]
    assert [(problem.source, problem.code) for problem in problems] == [("greedy", "device-reported-twice")]
