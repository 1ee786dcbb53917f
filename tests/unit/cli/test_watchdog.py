"""What systemd's watchdog is told: life while every part goes on, nothing once one is stuck."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.unit.cli.serving import PATIENCE

from cantle.cli.watchdog import LONGEST, Watchdog


@pytest.fixture
def stop() -> Iterator[threading.Event]:
    """Set at the end: a watchdog that goes on would tell the next test's systemd."""
    stop = threading.Event()
    yield stop
    stop.set()
    for thread in threading.enumerate():
        if thread.name == "watchdog":
            thread.join(PATIENCE)


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Its end of the socket; it wants to hear from this process every 30 ms."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind(str(tmp_path / "notify"))
        end.settimeout(PATIENCE)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "30000")
        monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
        yield end


class Clock:
    """Stands until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_systemd_hears_of_life_again_and_again_while_nothing_is_stuck(
    systemd: socket.socket, stop: threading.Event
) -> None:
    watchdog = Watchdog()
    watchdog.part("keeper")
    watchdog.start(stop)
    assert [systemd.recv(100) for _ in range(3)] == [b"WATCHDOG=1"] * 3


def test_who_is_not_asked_or_not_meant_tells_nothing(monkeypatch: pytest.MonkeyPatch, stop: threading.Event) -> None:
    before = set(threading.enumerate())
    for usec, pid in (("", ""), ("0", ""), ("soon", ""), ("30000", str(os.getpid() + 1))):
        monkeypatch.setenv("WATCHDOG_USEC", usec)
        monkeypatch.setenv("WATCHDOG_PID", pid)
        Watchdog().start(stop)
    assert set(threading.enumerate()) <= before, "others may just end"


def test_a_part_that_is_stuck_is_named_with_its_place_once_and_forgiven_when_it_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    watchdog = Watchdog(clock=clock)
    stands, go_on = threading.Event(), threading.Event()
    beats = [watchdog.part("keeper")]

    def loses_itself() -> None:
        beat = watchdog.part("agent of gpu1")
        beats.append(beat)
        stands.set()
        go_on.wait(PATIENCE)

    thread = threading.Thread(target=loses_itself)
    thread.start()
    stands.wait(PATIENCE)
    clock.now = LONGEST
    assert watchdog.stuck() == frozenset(), "so long a thing may take"
    clock.now += 1
    beats[0]()
    with caplog.at_level(logging.ERROR):
        assert watchdog.stuck() == watchdog.stuck() == {"agent of gpu1"}
    (line,) = caplog.messages
    assert "the agent of gpu1 is stuck" in line
    assert "loses_itself (test_watchdog.py:" in line
    assert "\n" not in line
    beats[1]()
    assert watchdog.stuck() == frozenset()
    go_on.set()
    thread.join(PATIENCE)


def test_systemd_hears_nothing_more_of_a_process_with_a_part_that_is_stuck(
    systemd: socket.socket, stop: threading.Event
) -> None:
    clock = Clock()
    watchdog = Watchdog(clock=clock)
    beat = watchdog.part("keeper")
    watchdog.start(stop)
    assert systemd.recv(100) == b"WATCHDOG=1"
    clock.now = LONGEST + 1
    systemd.settimeout(0.5)
    with suppress(TimeoutError):
        while systemd.recv(100):  # one may be on its way
            pass
    assert watchdog.stuck() == {"keeper"}
    systemd.settimeout(PATIENCE)
    beat()
    assert systemd.recv(100) == b"WATCHDOG=1"
