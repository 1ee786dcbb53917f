"""Changes are noticed once per burst, within bounds, with or without uevents."""

from __future__ import annotations

import errno
import itertools
import queue
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.kernel_steps.pci_bus import BUS, PciBus

from cantle.kernel import udev
from cantle.kernel.root import Root
from cantle.kernel.udev import Watch, listing


class Script:
    """Uevents at given moments of a clock that moves only by waiting."""

    def __init__(self, moments: Iterator[float], end: float, stop: threading.Event) -> None:
        self.now = 0.0
        self._moments = moments
        self._next = next(moments, float("inf"))
        self._end = end
        self._stop = stop

    def clock(self) -> float:
        return self.now

    def wait(self, seconds: float, stop: threading.Event) -> bool:
        assert stop is self._stop
        assert seconds > 0
        until = self.now + seconds
        heard = self._next <= until
        if heard:
            self.now = max(self.now, self._next)
            self._next = next(self._moments, float("inf"))
        else:
            self.now = until
        if self.now >= self._end:
            stop.set()
        return heard


def turns(host: Root, moments: Iterator[float], end: float) -> list[tuple[float, str]]:
    stop = threading.Event()
    script = Script(moments, end, stop)
    watch = Watch(host, stop, settle=0.2, longest=0.7, poll=2.0, events=script, clock=script.clock)
    return [(round(script.now, 3), why) for why in watch]


def test_a_single_event_is_a_turn_as_soon_as_it_is_quiet(host: PciBus) -> None:
    assert turns(host, iter([0.5]), 3) == [(0.7, "uevent")]


def test_a_burst_is_one_turn(host: PciBus) -> None:
    assert turns(host, iter([1.0, 1.05, 1.1, 1.25, 1.3]), 5) == [(1.5, "uevent")]


def test_a_storm_without_end_gives_a_turn_within_bounds_again_and_again(host: PciBus) -> None:
    found = turns(host, itertools.count(1.0, 0.01), 4.0)
    assert {why for _, why in found} == {"uevent"}
    times = [0.31, *(when for when, _ in found)]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert all(gap <= 0.75 for gap in gaps[1:])
    assert len(found) >= 4


def test_no_event_and_no_change_is_no_turn(host: PciBus) -> None:
    assert turns(host, iter([]), 60) == []


def test_what_uevents_do_not_tell_is_found_by_comparing_directories(host: PciBus) -> None:
    stop = threading.Event()
    script = Script(iter([]), 9, stop)
    watch = Watch(host, stop, poll=2.0, events=script, clock=script.clock)
    host.write(
        f"{BUS}/drivers/nvidia/unbind", "0000:01:00.0"
    )  # before the first turn: watched from the moment it was made
    found = []
    for why in watch:
        found.append((script.now, why))
        if len(found) == 1:
            host.put("sys/bus/mdev/devices/6f2c9d52-5d0c-4b7c-9d0e-5f6f4b8a3c11/x", "")
    assert found == [(2.0, "listing"), (4.0, "listing")]


def test_a_socket_that_breaks_leaves_the_comparing(host: PciBus, caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def wait(self, _seconds: float, _stop: threading.Event) -> bool:
            raise OSError(9, "Bad file descriptor")

    stop = threading.Event()
    times = itertools.chain([0.0, 0.0], itertools.repeat(10.0))  # it waits for events once, then it is time to compare
    watch = Watch(host, stop, poll=2.0, events=Broken(), clock=lambda: next(times))
    host.remove("0000:02:00.0")
    assert next(iter(watch)) == "listing"
    assert "no more uevents ([Errno 9] Bad file descriptor)" in caplog.text


@pytest.mark.parametrize("real", [False, True], ids=["a tree of files", "this machine"])
def test_a_watching_thread_stops_when_told_to(host: PciBus, real: bool) -> None:
    stop = threading.Event()
    watch = Watch(Root() if real else host, stop, poll=3600)
    thread = threading.Thread(target=lambda: list(watch))
    thread.start()
    stop.set()
    thread.join(timeout=30)
    assert not thread.is_alive()


def test_a_watching_thread_notices_a_change_in_a_tree_of_files(host: PciBus) -> None:
    stop = threading.Event()
    heard: queue.Queue[str] = queue.Queue()
    watch = Watch(host, stop, poll=0.01)

    def follow() -> None:
        for why in watch:
            heard.put(why)

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        host.write(f"{BUS}/drivers/nvidia/unbind", "0000:01:00.0")
        assert heard.get(timeout=30) == "listing"
    finally:
        stop.set()
        thread.join(timeout=30)


def test_an_overflowing_socket_counts_as_a_change() -> None:
    class Overflowing:
        def poll(self, _seconds: float) -> None:
            raise OSError(errno.ENOBUFS, "No buffer space available")

    assert udev.Uevents(Overflowing()).wait(1, threading.Event())


def test_a_directory_that_cannot_be_read_is_one_change_and_not_a_crash(host: PciBus, tmp_path: Path) -> None:
    before = listing(host)
    assert listing(host) == before
    drm = tmp_path / "sys/class/drm"
    drm.parent.mkdir(parents=True, exist_ok=True)
    drm.symlink_to("drm")
    assert listing(host) != before
    assert listing(host) == listing(host)
