"""Hooks whose agent is away, silent or wrong: no guest is kept from starting, and one with a lease is told why it may lack its devices."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import pytest
from tests.unit.agent.hooking import FOR_EVER, SHORT, install, lend, run, starts, unit
from tests.unit.agent.service import Service, running

from cantle import simulate
from cantle.attach.hooks import installed
from cantle.kernel import local_socket, mdev
from cantle.kernel.root import Root
from cantle.wire.hook import LENT, LIMIT, SOCKET


def _lent(root: Root, *guests: str, units: tuple[str, ...] = ()) -> None:
    root.replace(LENT, json.dumps({"guests": guests, "units": units}).encode())


def test_a_guest_without_a_lease_waits_for_no_agent(t4: simulate.SimulatedRoot) -> None:
    """Whether nobody listens, or one that never answers: the hook would wait longer than the test may take."""
    install(t4)
    assert starts(t4, "v1") == ""
    _lent(t4, "libvirt:v2")
    assert starts(t4, "v1") == ""
    with _mute(t4):
        assert starts(t4, "v1", '<address uuid="11111111-2222-4333-8444-555555555555"/>') == ""


@pytest.mark.parametrize("mute", [False, True])
def test_a_guest_with_a_lease_starts_all_the_same_and_it_is_said_why_its_devices_may_be_missing(
    t4: simulate.SimulatedRoot, *, mute: bool
) -> None:
    install(t4, seconds=SHORT)
    _lent(t4, "libvirt:v1", "lxc:c1")
    with _mute(t4) if mute else nullcontext():
        for said in (
            starts(t4, "v1"),
            run(t4, installed.LXC, "starting", "c1", "a-lease", "195:1", "c1", "lxc", "pre-start"),
        ):
            assert "has a lease and starts without Cantle's agent" in said
            assert ("did not answer in time" in said) is mute


def test_a_guest_with_a_lease_waits_for_an_agent_that_is_just_being_restarted(
    service: Service, host: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    install(host)
    with running(service, host, tmp_path / "agent", local_socket=SOCKET):
        slice_ = unit(lend(service))
    mdev.remove(host, slice_)
    said: list[str] = []
    guest = threading.Thread(target=lambda: said.append(starts(host, "v1", f'<address uuid="{slice_}"/>')))
    ending = local_socket.listen(host, SOCKET)
    ending.settimeout(FOR_EVER / 2)
    guest.start()
    connection, _ = ending.accept()
    with connection:
        assert connection.recv(LIMIT)  # it was asked, and ends before it answers
        local_socket.remove(host, SOCKET, ending)
    with running(service, host, tmp_path / "agent", local_socket=SOCKET):
        guest.join(FOR_EVER)
        assert said == [""]
        assert [one.uuid for one in mdev.devices(host)] == [slice_]


@pytest.mark.parametrize("answer", [b"", b"nonsense\n", b"[]\n", b"{" + b" " * (2 << 20)])
def test_an_answer_that_is_none_keeps_no_guest(t4: simulate.SimulatedRoot, answer: bytes) -> None:
    install(t4, seconds=SHORT)
    _lent(t4, "libvirt:v1")
    with _mute(t4, answer):
        assert "has a lease and starts without" in starts(t4, "v1")


@pytest.mark.parametrize(
    "words", [("v1", "start", "begin"), ("v1", "prepare", "end"), ("v1", "migrate", "begin"), ("v1",), ()]
)
def test_nothing_is_asked_at_other_moments(t4: simulate.SimulatedRoot, words: tuple[str, ...]) -> None:
    install(t4)
    _lent(t4, "libvirt:v1")
    assert run(t4, installed.LIBVIRT, *words) == ""


def test_a_hook_whose_parts_were_taken_away_keeps_no_guest(t4: simulate.SimulatedRoot) -> None:
    install(t4)
    t4.remove(installed.ASK)
    _lent(t4, "libvirt:v1")
    assert starts(t4, "v1") == ""


@contextmanager
def _mute(root: Root, answer: bytes | None = None) -> Iterator[None]:
    """An agent that takes every question and answers none; or with these bytes."""
    listening = local_socket.listen(root, SOCKET)
    kept: list[socket.socket] = []

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                kept.append(connection)
                if answer is not None:
                    connection.recv(LIMIT)
                    connection.sendall(answer)
                    connection.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(FOR_EVER)
        local_socket.remove(root, SOCKET, listening)
        for connection in kept:
            connection.close()
