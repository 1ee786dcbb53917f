"""Leases into real containers, from the command to the card: run by tests/real/test_lxc_leases.py where cards are laid over the machine."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.real.cards import Card
from tests.real.lxc import MACHINE, Container
from tests.real.processes import Service, free_port, wait_until

from cantle.attach import lxc
from cantle.attach.hooks.installed import LXC
from cantle.kernel import container
from cantle.wire.hook import LENT, SOCKET

#: Bound of the hooks that are installed here.
SECONDS = 4


class Host:
    """Cantle on this machine."""

    def __init__(self, directory: Path) -> None:
        self._url = f"http://127.0.0.1:{free_port()}"
        place = self._url.removeprefix("http://")
        words = ["serve", "--listen", place, "--state-dir", str(directory / "state")]
        argv = [sys.executable, "-m", "cantle.cli.main", *words]
        self.service = Service("cantle", argv, directory)

    def start(self) -> None:
        """Until its agent answers hooks and its cards are known."""
        self.service.start(lambda: os.path.exists(f"/{SOCKET}") and len(self.cards()) == 2)

    def kill(self) -> None:
        """As by the kernel when memory is short."""
        self.service.stop(signal_number=signal.SIGKILL)

    def run(self, *words: str) -> str:
        """What a command prints; it must succeed."""
        argv = [sys.executable, "-m", "cantle.cli.main", "--url", self._url, *words]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def cards(self) -> list[str]:
        argv = [sys.executable, "-m", "cantle.cli.main", "--url", self._url, "capacity", "-o", "json"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
        return [row["device_address"] for row in json.loads(done.stdout)] if done.returncode == 0 else []

    def lend(self, guest: Container, *words: str) -> str:
        """The uuid of a lease of a card into a container."""
        made = self.run("lease", "create", "card", "--attach", f"lxc:{guest.name}", *words, "--wait", "-o", "json")
        return str(json.loads(made)["uuid"])

    def lease(self, uuid: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("lease", "show", uuid, "-o", "json"))
        return found

    def release(self, uuid: str) -> None:
        self.run("lease", "release", uuid, "--wait")


@pytest.fixture(scope="module")
def cards() -> list[Card]:
    """Two cards whose numbers are in another order than their addresses."""
    return [Card("c1", 129, "/dev/fuse"), Card("c2", 128, "/dev/loop-control")]


@pytest.fixture(scope="module")
def host(cards: list[Card], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """Up, with the hooks of containers installed."""
    made = Host(tmp_path_factory.mktemp("host"))
    try:
        made.start()
        made.run("agent", "hooks", "install", "--seconds", str(SECONDS))
        made.run("profile", "create", "card", "--group", "resources:PGPU=1")
        yield made
    finally:
        made.run("agent", "hooks", "remove")
        made.service.stop()


@pytest.fixture
def guests() -> Iterator[list[Container]]:
    """Two privileged containers and an unprivileged one, all running."""
    made: list[Container] = []
    try:
        for privileged in (True, False, True):
            made.append(Container(privileged=privileged))
            made[-1].start()
        yield made
    finally:
        for one in made:
            one.remove()


def node_of(host: Host, cards: list[Card], lease: str) -> Card:
    """The card that a lease has."""
    info = host.lease(lease)["arqs"][0]["attach_handle_info"]
    return next(
        one for one in cards if one.address == f"{info['domain']}:{info['bus']}:{info['device']}.{info['function']}"
    )


def leased(guest: Container) -> set[str]:
    """The nodes of cards that it sees."""
    return guest.sees("/dev/dri 2>/dev/null")


def test_each_container_has_exactly_its_card_through_restarts_of_itself_and_of_the_agent(
    host: Host, cards: list[Card], guests: list[Container]
) -> None:
    first, unprivileged, stranger = guests
    by_hand = [one.config.read_text() for one in guests]
    leases = [host.lend(first), host.lend(unprivileged)]
    ours, theirs = (node_of(host, cards, one) for one in leases)
    assert {ours.address, theirs.address} == {one.address for one in cards}

    def holds() -> None:
        assert first.opens(ours.node)
        assert unprivileged.opens(theirs.node)
        assert leased(first) == {Path(ours.node.path).name}
        assert leased(unprivileged) == {Path(theirs.node.path).name}
        assert leased(stranger) == set()
        for guest, foreign in ((first, theirs), (stranger, ours), (stranger, theirs)):
            pid = container.init_pid(MACHINE, guest.name)
            place = Path(f"/proc/{pid}/root/tmp/smuggled")
            os.mknod(place, stat.S_IFCHR | 0o666, os.makedev(foreign.node.major, foreign.node.minor))
            place.chmod(0o666)
            said = guest.run("if (exec 3<>/tmp/smuggled); then echo opened; else echo refused; fi")
            place.unlink()
            assert said == "refused"

    holds()
    for one in (first, unprivileged):
        one.stop()
        one.start()
    holds()
    host.kill()
    holds()
    host.start()
    holds()
    host.kill()
    first.stop()
    first.start()  # its hook asks nobody, and lets it start
    holds()
    host.start()
    holds()
    for lease in leases:
        host.release(lease)
    for guest in guests:
        assert leased(guest) == set()
        assert not guest.opens(ours.node)
        assert not guest.opens(theirs.node)
        guest.stop()
        guest.start()
        assert not guest.opens(ours.node)
    assert [one.config.read_text().removesuffix("\n") for one in guests] == by_hand


@pytest.mark.parametrize("away", [False, True])
def test_a_number_that_changed_while_the_container_was_stopped_is_the_one_that_it_may_open(
    host: Host, cards: list[Card], guests: list[Container], *, away: bool
) -> None:
    """liblxc has read the number of before when its hook asks. ``away``: nobody is there to be asked, so it is put right later."""
    guest = guests[0]
    lease = host.lend(guest)
    card = node_of(host, cards, lease)
    before = card.node
    try:
        guest.stop()
        if away:
            host.kill()
        card.becomes("/dev/full")
        guest.start()
        if away:
            assert not guest.opens(card.node)
            host.start()
        wait_until("it opens the number of now", lambda: guest.opens(card.node))
        text = MACHINE.read(lxc.book(guest.name, lease))
        assert f"c {card.node.major}:{card.node.minor} rw" in text
        assert f"c {before.major}:{before.minor} rw" not in text
        pid = container.init_pid(MACHINE, guest.name)
        os.mknod(f"/proc/{pid}/root/tmp/before", stat.S_IFCHR | 0o666, os.makedev(before.major, before.minor))
        wait_until(
            "it does not open the number of before",
            lambda: guest.run("if (exec 3<>/tmp/before); then echo opened; else echo refused; fi") == "refused",
        )
    finally:
        card.becomes("/dev/fuse" if card is cards[0] else "/dev/loop-control")
        host.release(lease)


def test_a_lease_says_that_its_container_has_stopped_and_that_it_runs_again(
    host: Host, guests: list[Container]
) -> None:
    guest = guests[1]
    lease = host.lend(guest)

    def reason() -> object:
        requests = json.loads(host.run("arq", "list", "-o", "json"))
        return next(one["reason_code"] for one in requests if one["lease_uuid"] == lease)

    assert reason() is None
    guest.stop()
    wait_until("it is said", lambda: reason() == "guest-stopped")
    guest.start()
    wait_until("it is not said any more", lambda: reason() is None)
    assert host.lease(lease)["state"] == "active"
    host.release(lease)


def test_a_stopped_container_is_started_with_its_lease_and_its_hook_is_answered(
    host: Host, cards: list[Card], guests: list[Container]
) -> None:
    """Whoever starts it is the agent itself, which must not wait for its own hook."""
    guest = guests[1]
    guest.stop()
    said = host.service.log_size()
    lease = host.lend(guest, "--start")
    assert guest.opens(node_of(host, cards, lease).node)
    assert "starts without Cantle's agent" not in host.service.log_tail(1000, since=said)
    host.release(lease)


def test_a_container_starts_though_the_agent_hangs_and_it_is_said(
    host: Host, cards: list[Card], guests: list[Container]
) -> None:
    guest = guests[0]
    lease = host.lend(guest)
    guest.stop()
    host.service.signal(signal.SIGSTOP)
    try:
        guest.start()
        assert guest.opens(node_of_name(cards, leased(guest)).node)
        said = (guest.home / "log").read_text()
        assert f"lxc:{guest.name} has a lease and starts without Cantle's agent" in said
        assert "did not answer in time" in said
    finally:
        host.service.signal(signal.SIGCONT)
    host.release(lease)


def node_of_name(cards: list[Card], names: set[str]) -> Card:
    [name] = names
    return next(one for one in cards if one.node.path.endswith(f"/{name}"))


def _asked_by(uid: int) -> str:
    """What another user is answered, or the name of the error that he meets."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setuid(uid)
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(20)
                connection.connect(f"/{SOCKET}")
                connection.sendall(b'{"event":"leases","kind":"lxc","name":"c1"}\n')
                os.write(writing, connection.recv(65536))
        except OSError as error:
            os.write(writing, type(error).__name__.encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        said = told.read().decode()
    os.waitpid(child, 0)
    return said


def test_only_root_is_answered(host: Host) -> None:
    """By the socket's mode; and where somebody widened that, by who is at the other end."""
    assert json.loads(_asked_by(0))["units"] == []
    assert _asked_by(65534) == "PermissionError"
    os.chmod(f"/{SOCKET}", 0o666)  # noqa: S103 - that is the test
    told = _asked_by(65534)
    os.chmod(f"/{SOCKET}", 0o600)
    assert json.loads(told)["code"] == "not-root"


def test_what_the_hooks_need_is_there_while_there_is_a_lease_and_names_nobody_after(
    host: Host, guests: list[Container]
) -> None:
    guest = guests[2]
    lease = host.lend(guest)
    assert f"lxc.hook.pre-start = /{LXC} starting {guest.name} {lease} " in MACHINE.read(lxc.book(guest.name, lease))
    assert json.loads(MACHINE.read(LENT))["guests"] == [f"lxc:{guest.name}"]
    host.release(lease)
    wait_until("nobody has a lease", lambda: json.loads(MACHINE.read(LENT))["guests"] == [])
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(f"/{SOCKET}")
        connection.sendall(b"no question\n")
        assert json.loads(connection.recv(65536))["code"] == "hook-question-unreadable"
