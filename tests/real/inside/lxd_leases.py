"""Leases into containers of LXD: run by tests/real/test_lxd.py where cards are laid over the machine, and a directory for the daemon."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from tests.real.cards import Card
from tests.real.inside.lxc_leases import Host
from tests.real.lxd import Container, Lxd
from tests.real.processes import wait_until

from cantle.attach import incus
from cantle.errors import HostError
from cantle.kernel.char_device import Node
from cantle.kernel.root import Root
from cantle.kernel.undo import Undo

MACHINE = Root("/")
LEASE = "2f1c7e0a-5a7e-4a52-8a53-4cf1a2f0c7d1"


@pytest.fixture(scope="module")
def cards() -> list[Card]:
    """Two cards."""
    return [Card("c1", 128, "/dev/fuse"), Card("c2", 129, "/dev/loop-control")]


@pytest.fixture(scope="module")
def host(cards: list[Card], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """Up, with a profile of one card."""
    made = Host(tmp_path_factory.mktemp("host"))
    try:
        made.start()
        made.run("profile", "create", "card", "--group", "resources:PGPU=1")
        yield made
    finally:
        made.service.stop()


@pytest.fixture(scope="module")
def lxd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lxd]:
    """A daemon that is up."""
    made = Lxd(tmp_path_factory.mktemp("lxd"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture
def guest(lxd: Lxd) -> Iterator[Container]:
    """A container that does not run yet."""
    made = Container(lxd)
    yield made
    made.remove()


def lend(host: Host, guest: Container, *words: str) -> str:
    """The uuid of a lease of a card into it."""
    made = host.run("lease", "create", "card", "--attach", f"incus:{guest.name}", *words, "--wait", "-o", "json")
    return str(json.loads(made)["uuid"])


def free(host: Host) -> int:
    """Cards that can be lent now."""
    return sum(row["free"] for row in json.loads(host.run("capacity", "-o", "json")))


def of(host: Host, cards: list[Card], lease: str) -> tuple[Card, Card]:
    """The card that a lease has, and the other."""
    device = host.lease(lease)["arqs"][0]["attach_handle_info"]["bus"]
    its = next(one for one in cards if one.address.split(":")[1] == device)
    return its, next(one for one in cards if one is not its)


def test_a_lease_starts_its_container_which_has_the_card_through_a_restart_and_until_its_end(
    lxd: Lxd, host: Host, guest: Container, cards: list[Card]
) -> None:
    lease = lend(host, guest, "--start")
    assert guest.state == "RUNNING"
    ours, other = of(host, cards, lease)
    assert guest.opens(ours.node)
    assert not guest.opens(other.node)
    guest.do("restart", "--force")
    assert guest.opens(ours.node)
    host.release(lease)
    assert guest.devices == "{}"
    assert not guest.opens(ours.node)
    assert lxd.run("config", "get", guest.name, "user.by-hand") == "keep me"


def test_a_running_container_gets_two_cards_and_loses_one_at_a_time(
    host: Host, guest: Container, cards: list[Card]
) -> None:
    guest.do("start")
    leases = [lend(host, guest) for _ in cards]
    ours = [of(host, cards, lease)[0] for lease in leases]
    assert [guest.opens(one.node) for one in ours] == [True, True]
    host.release(leases[0])
    assert [guest.opens(one.node) for one in ours] == [False, True]
    host.release(leases[1])
    assert guest.devices == "{}"


def test_a_paused_container_is_not_taken_for_stopped(host: Host, guest: Container) -> None:
    guest.do("start")
    guest.do("pause")
    lease = lend(host, guest, "--start")
    assert incus.runs(MACHINE, guest.name, lease)
    assert guest.state == "FROZEN"
    host.release(lease)


def test_a_container_that_cannot_start_fails_the_lease_and_has_nothing_of_it(
    lxd: Lxd, host: Host, guest: Container
) -> None:
    """The daemon is busy with the failed start for a while, and takes no change."""
    lxd.run("config", "set", guest.name, "raw.lxc", "lxc.mount.entry = /no-such-file mnt none bind 0 0")
    with pytest.raises(AssertionError, match="Incus could not finish PUT") as caught:
        lend(host, guest, "--start")
    assert "could not be taken back" not in str(caught.value)
    wait_until("its card is free again", lambda: free(host) == 2)
    assert guest.devices == "{}"


def test_a_node_that_is_not_there_is_refused_in_the_daemons_words_and_leaves_the_container_as_it_was(
    lxd: Lxd, guest: Container
) -> None:
    guest.do("start")
    with pytest.raises(HostError, match="device path doesn't exist") as caught, Undo() as undo:
        incus.enter(MACHINE, guest.name, LEASE, [Node("/dev/cantle-test-absent", 1, 3)], undo)
    assert caught.value.code == "incus-refused"
    assert guest.devices == "{}"
