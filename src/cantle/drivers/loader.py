"""Finding the drivers and letting each look, so that one which fails hides nothing but its own devices."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from importlib import metadata

from cantle.drivers.driver import Driver, HostView
from cantle.drivers.label import labelled
from cantle.wire.inventory import DeviceReport, Problem

GROUP = "cantle.drivers"

_log = logging.getLogger(__name__)


def load(points: Iterable[metadata.EntryPoint] | None = None) -> tuple[list[Driver], list[Problem]]:
    """Every installed driver, by name, and those that could not be made.

    :param points: in place of what is installed.
    """
    drivers: list[Driver] = []
    problems: list[Problem] = []
    for point in sorted(points if points is not None else metadata.entry_points(group=GROUP), key=lambda one: one.name):
        try:
            drivers.append(point.load()())
        except Exception as error:  # noqa: BLE001 - somebody else's code; reported, and the other drivers go on
            _log.warning("driver %s cannot be loaded", point.name, exc_info=True)
            problems.append(_problem(point.name, "driver-not-loadable", f"{point.value} cannot be loaded", error))
    return drivers, problems


def discover(drivers: Sequence[Driver], host: HostView) -> tuple[list[DeviceReport], list[Problem]]:
    """What all drivers found, by address, and what went wrong. A device that two report is the first one's."""
    found: dict[str, DeviceReport] = {}
    owner: dict[str, str] = {}
    problems: list[Problem] = []
    for driver in drivers:
        try:
            devices = list(driver.discover(host))
        except Exception as error:  # noqa: BLE001 - somebody else's code; reported, and the other drivers go on
            _log.warning("driver %s failed", driver.name, exc_info=True)
            problems.append(_problem(driver.name, "driver-failed", "it could not look for its devices", error))
            continue
        for device in (labelled(host, one) for one in devices):
            if device.address in found:
                message = f"{device.address} is reported by the driver {owner[device.address]} already; that one counts"
                problems.append(Problem(driver.name, "device-reported-twice", message))
                continue
            found[device.address] = device
            owner[device.address] = driver.name
    return [found[address] for address in sorted(found)], problems


def _problem(source: str, code: str, what: str, error: Exception) -> Problem:
    return Problem(source, code, f"{what}: {type(error).__name__}: {error}")
