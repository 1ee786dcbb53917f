"""Noticing that the host's devices changed: the kernel's own uevents, and a look at a few directories where those do not come through.

Uevents are taken from the kernel rather than from udevd (libudev's source ``kernel``): they come without any daemon, and what is
asked after one is read from sysfs, which needs no udev rule to have run.
"""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol

import pyudev

from cantle.errors import HostError
from cantle.kernel import mdev, modules, pci
from cantle.kernel.root import Root

log = logging.getLogger(__name__)

#: Events of other subsystems are none of ours; ``drivers`` tells of a driver that came or went.
SUBSYSTEMS = frozenset({"pci", "mdev", "vfio", "vfio-dev", "drm", "drivers"})
#: Parents of mediated devices say by this property that they are ready, whatever their subsystem (drivers/vfio/mdev/mdev_core.c).
_PARENT_STATE = "MDEV_STATE"

_LISTED = (pci.DEVICES, mdev.DEVICES, mdev.PARENTS, "sys/class/vfio", "sys/class/vfio-dev", "sys/class/drm")
#: How long a thread may sleep in libudev before it looks whether it is to stop.
_SLICE = 0.25


class Events(Protocol):
    """Where hints come from that something changed."""

    def wait(self, seconds: float, stop: threading.Event) -> bool:
        """Sleep for at most so long; True as soon as something happened, False when time is over or ``stop`` is set."""


class Uevents:
    """The kernel's uevents of our subsystems.

    :param monitor: pyudev's monitor to ask, started; None for a new one.
    :raises OSError: this host gives no netlink socket for them.
    :raises ImportError: there is no libudev.
    """

    def __init__(self, monitor: pyudev.Monitor | None = None) -> None:
        if monitor is None:
            monitor = pyudev.Monitor.from_netlink(pyudev.Context(), source="kernel")
            monitor.start()
        self._monitor = monitor

    def wait(self, seconds: float, stop: threading.Event) -> bool:
        """See :class:`Events`."""
        end = time.monotonic() + seconds
        while not stop.is_set():
            left = end - time.monotonic()
            if self._heard(max(0.0, min(left, _SLICE))):
                return True
            if left <= 0:
                break
        return False

    def _heard(self, seconds: float) -> bool:
        try:
            device = self._monitor.poll(seconds)
        except OSError as error:
            if (
                error.errno == errno.ENOBUFS
            ):  # more events than the socket's buffer holds: some were ours, for all we know
                return True
            raise
        return device is not None and (device.subsystem in SUBSYSTEMS or _PARENT_STATE in device.properties)


class NoEvents:
    """Where uevents cannot be had; only the directories tell."""

    def wait(self, seconds: float, stop: threading.Event) -> bool:
        """See :class:`Events`."""
        stop.wait(seconds)
        return False


class Watch:
    """Something changed on this host: iterate over it, and read the host again at each turn.

    It watches from the moment it is made, so make it, read the host, then iterate: nothing in between is missed. It says only that
    something changed, by ``uevent`` or ``listing``; a burst is one turn, which comes when it is quiet for ``settle`` seconds and at
    the latest ``longest`` seconds after its beginning, however long it goes on. Besides, the names in the directories are compared
    every ``poll`` seconds: in containers uevents may not arrive although their socket opens, and a tree of files has none at all.
    It ends when ``stop`` is set.
    """

    def __init__(
        self,
        root: Root,
        stop: threading.Event,
        *,
        settle: float = 0.2,
        longest: float = 0.7,
        poll: float = 2.0,
        events: Events | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root
        self._stop = stop
        self._settle = settle
        self._longest = longest
        self._poll = poll
        self._clock = clock
        self._events = events if events is not None else _events_of(root)
        self._seen = listing(root)

    def __iter__(self) -> Iterator[str]:
        look_at = self._clock() + self._poll
        while not self._stop.is_set():
            if self._wait(look_at - self._clock()):
                self._settled()
                self._seen = listing(self._root)
                yield "uevent"
            elif self._clock() >= look_at:
                look_at = self._clock() + self._poll
                if self._listing_changed():
                    yield "listing"

    def _wait(self, seconds: float) -> bool:
        if seconds <= 0:
            return False
        try:
            return self._events.wait(seconds, self._stop)
        except OSError as error:
            log.warning(
                "no more uevents (%s): from now on only directories are compared, every %g s", error, self._poll
            )
            self._events = NoEvents()
            return False

    def _settled(self) -> None:
        """Swallow the rest of a burst."""
        end = self._clock() + self._longest
        while (left := end - self._clock()) > 0:
            if not self._wait(min(self._settle, left)):
                return

    def _listing_changed(self) -> bool:
        before, self._seen = self._seen, listing(self._root)
        return before != self._seen


def listing(root: Root) -> tuple[object, ...]:
    """The names that change when a device or mediated device comes or goes or changes its driver; cheap, and equal when nothing did."""
    drivers = (f"{modules.PCI_DRIVERS}/{name}" for name in _names(root, modules.PCI_DRIVERS))
    return tuple((rel, _names(root, rel)) for rel in (*_LISTED, *drivers))


def _names(root: Root, rel: str) -> tuple[str, ...]:
    try:
        return tuple(root.names(rel))
    except HostError as error:  # that it can no longer be read is a change too, and one only
        return (error.message,)


def _events_of(root: Root) -> Events:
    if root.path != "/":
        return NoEvents()
    try:
        return Uevents()
    except (ImportError, OSError) as error:
        log.warning("no uevents here (%s): only directories are compared", error)
        return NoEvents()
