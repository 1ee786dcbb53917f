"""Cards in real LXC containers: who can open them, and who cannot any more."""

from __future__ import annotations

import os
import signal
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.real.lxc import MACHINE, Card, Container
from tests.real.processes import wait_until

from cantle.attach import lxc, stop
from cantle.errors import CantleError, Conflict, HostError
from cantle.kernel import container
from cantle.kernel.char_device import Node
from cantle.kernel.undo import Undo
from cantle.model.attachment import Attachment, GuestKind


@pytest.fixture
def card() -> Iterator[Card]:
    """A stand-in for a card."""
    made = Card("/dev/fuse")
    yield made
    made.remove()


@pytest.fixture
def control() -> Iterator[Card]:
    """A stand-in for a node that cards share."""
    made = Card("/dev/loop-control")
    yield made
    made.remove()


@pytest.fixture(params=[True, False], ids=["privileged", "unprivileged"])
def guest(request: pytest.FixtureRequest) -> Iterator[Container]:
    """A running container."""
    made = Container(privileged=request.param)
    try:
        made.start()
        yield made
    finally:
        made.remove()


@pytest.fixture
def stranger() -> Iterator[Container]:
    """Another running container on the same host, a privileged one."""
    made = Container(privileged=True)
    try:
        made.start()
        yield made
    finally:
        made.remove()


def enter(guest: Container, *nodes: Node, lease: str | None = None) -> str:
    lease = lease or str(uuid.uuid4())
    with Undo() as undo:
        lxc.enter(MACHINE, guest.name, lease, nodes, undo)
    return lease


def leave(guest: Container, lease: str) -> None:
    with Undo() as undo:
        lxc.leave(MACHINE, guest.name, lease, undo)


def test_a_leased_card_opens_in_its_container_and_in_no_other_and_not_after_release(
    guest: Container, stranger: Container, card: Card
) -> None:
    by_hand = guest.config.read_text()
    before = guest.sees("/dev")
    lease = enter(guest, card.node)
    assert guest.opens(card.node)
    assert guest.sees("/dev") - before == {card.node.path.removeprefix("/dev/")}
    assert not stranger.opens(card.node)
    stranger.run(f"mknod {card.node.path} c {card.node.major} {card.node.minor}")
    assert not stranger.opens(card.node)

    guest.stop()
    guest.start()
    assert guest.opens(card.node)
    assert lxc.stands(MACHINE, guest.name, lease, [card.node])

    leave(guest, lease)
    assert not guest.opens(card.node)
    assert guest.sees("/dev") == before
    pid = container.init_pid(MACHINE, guest.name)
    assert pid is not None
    container.put(MACHINE, pid, card.node)
    assert container.has(MACHINE, pid, card.node)
    assert not guest.opens(card.node)  # what refuses it is that the permission was withdrawn
    container.take(MACHINE, pid, card.node)
    guest.stop()
    guest.start()
    assert not guest.opens(card.node)
    assert guest.config.read_text() == f"{by_hand}\n"


def test_a_node_made_from_outside_opens_in_no_container_that_did_not_lease_it(stranger: Container, card: Card) -> None:
    """The permission is the kernel's: not that there is no node is what keeps a container out."""
    pid = container.init_pid(MACHINE, stranger.name)
    made = f"/proc/{pid}/root{card.node.path}"
    os.mknod(made, stat.S_IFCHR | 0o666, os.makedev(card.node.major, card.node.minor))
    os.chmod(made, 0o666)  # noqa: S103 - that it is refused has no other reason then
    assert not stranger.opens(card.node)


def test_a_program_that_keeps_the_card_open_is_named_until_it_ends(guest: Container, card: Card) -> None:
    lease = enter(guest, card.node)
    with guest.holding(card.node):
        leave(guest, lease)
        assert not guest.opens(card.node)
        with pytest.raises(Conflict, match="sleep") as caught:
            container.check_unused(MACHINE, [card.node])
        assert caught.value.code == "device-held"
    container.check_unused(MACHINE, [card.node])


@pytest.mark.parametrize("listens", [True, False])
def test_a_container_whose_lease_says_so_is_stopped_and_one_without_the_lease_is_not(
    guest: Container, card: Card, monkeypatch: pytest.MonkeyPatch, *, listens: bool
) -> None:
    """One that does not listen is ended by force, later; ``kill -STOP`` makes any container deaf."""
    attachment, unit = Attachment(GuestKind.LXC, guest.name), "0000:af:00.0"
    lease = enter(guest, card.node)
    assert stop.stop(MACHINE, attachment, str(uuid.uuid4()), unit) is None
    pid = container.init_pid(MACHINE, guest.name)
    assert pid is not None
    if not listens:
        os.kill(pid, signal.SIGSTOP)
        monkeypatch.setattr(stop, "_WAIT", 1.0)
        with pytest.raises(Conflict) as caught:
            stop.stop(MACHINE, attachment, lease, unit)
        assert caught.value.code == "guest-stopping"
        assert container.init_pid(MACHINE, guest.name) == pid
        monkeypatch.setattr(stop, "_PATIENCE", 0.0)
    else:
        monkeypatch.setattr(stop, "_WAIT", 30.0)
    said = str(stop.stop(MACHINE, attachment, lease, unit))
    assert ("by force" in said) is not listens
    assert container.init_pid(MACHINE, guest.name) is None
    leave(guest, lease)
    guest.start()
    assert stop.stop(MACHINE, attachment, lease, unit) is None
    assert not guest.opens(card.node)


def test_what_two_leases_share_goes_with_the_last_of_them(guest: Container, card: Card, control: Card) -> None:
    shared = Node(control.node.path, control.node.major, control.node.minor, shared=True)
    first = enter(guest, card.node, shared)
    second = enter(guest, shared)
    leave(guest, first)
    assert not guest.opens(card.node)
    assert guest.opens(shared)
    leave(guest, second)
    assert not guest.opens(shared)


def test_a_second_pass_over_what_stands_changes_nothing(guest: Container, card: Card) -> None:
    lease = enter(guest, card.node)
    config, book = guest.config.read_text(), MACHINE.read(lxc.book(guest.name, lease))
    enter(guest, card.node, lease=lease)
    assert (guest.config.read_text(), MACHINE.read(lxc.book(guest.name, lease))) == (config, book)
    assert guest.opens(card.node)
    leave(guest, lease)
    leave(guest, lease)
    assert not guest.opens(card.node)


def test_a_node_left_over_in_a_containers_files_is_not_what_it_opens(guest: Container, card: Card) -> None:
    """Another device under the same name, from an earlier boot or a backup."""
    guest.stop()
    left = guest.home / "rootfs" / card.node.path.lstrip("/")
    os.mknod(left, stat.S_IFCHR | 0o666, os.stat("/dev/full").st_rdev)
    with guest.config.open("a") as config:
        config.write("\nlxc.autodev = 0\n")
    guest.start()
    lease = enter(guest, card.node)
    pid = container.init_pid(MACHINE, guest.name)
    assert pid is not None
    assert container.has(MACHINE, pid, card.node)
    assert guest.opens(card.node)
    leave(guest, lease)
    assert not guest.opens(card.node)
    assert not left.exists()


def test_nothing_is_left_in_the_files_of_a_container_that_is_stopped_when_its_lease_ends(
    guest: Container, card: Card
) -> None:
    """Without a /dev of its own, liblxc makes a file for the node to be mounted upon, and leaves it."""
    guest.stop()
    left = guest.home / "rootfs" / card.node.path.lstrip("/")
    os.mknod(left, stat.S_IFCHR | 0o666, os.stat("/dev/full").st_rdev)
    with guest.config.open("a") as config:
        config.write("\nlxc.autodev = 0\n")
    lease = enter(guest, card.node)
    guest.start()
    assert guest.opens(card.node)
    assert left.exists()
    guest.stop()
    leave(guest, lease)
    assert not left.exists()
    guest.start()
    assert not guest.opens(card.node)


def test_a_link_in_a_container_leads_nobody_out_of_it(
    stranger: Container, card: Card, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whoever rules in a container may have put anything in the node's place."""
    outside = tmp_path_factory.mktemp("outside") / "file"
    stranger.run(f"/bin/busybox ln -s {outside} {card.node.path}")
    lease = str(uuid.uuid4())
    with pytest.raises(HostError, match="link in its place") as caught, Undo() as undo:
        lxc.enter(MACHINE, stranger.name, lease, [card.node], undo)
    assert caught.value.code == "container-refused"
    assert not outside.exists()
    assert not MACHINE.exists(lxc.book(stranger.name, lease))
    assert "cantle" not in stranger.config.read_text().replace(stranger.name, "")
    stranger.run(f"/bin/busybox rm {card.node.path}; mknod {card.node.path} c {card.node.major} {card.node.minor}")
    assert not stranger.opens(card.node)


@pytest.mark.parametrize("runs", [True, False])
def test_a_container_that_has_the_hosts_dev_costs_the_host_no_node(card: Card, *, runs: bool) -> None:
    """People bind all of /dev into a privileged container: the node inside is the host's own."""
    made = Container(privileged=True)
    try:
        with made.config.open("a") as config:
            config.write("\nlxc.autodev = 0\nlxc.mount.entry = /dev dev none bind 0 0\n")
        made.start()
        assert not made.opens(card.node)
        lease = enter(made, card.node)
        assert made.opens(card.node)
        if not runs:
            made.stop()
        leave(made, lease)
        assert MACHINE.exists(card.node.path.lstrip("/"))
        if runs:
            assert not made.opens(card.node)
    finally:
        made.remove()


def test_links_in_a_stopped_containers_files_lead_nobody_out_of_it(
    guest: Container, card: Card, tmp_path: Path
) -> None:
    """Its /dev is another directory of the host's, or the node's name another file's."""
    guest.stop()
    name = card.node.path.removeprefix("/dev/")
    (tmp_path / name).touch()
    inside = guest.home / "rootfs/dev"
    inside.rmdir()
    inside.symlink_to(tmp_path)
    lease = enter(guest, card.node)
    lxc.refresh(MACHINE, guest.name, lease, [card.node])
    leave(guest, lease)
    assert (tmp_path / name).exists()
    inside.unlink()
    inside.mkdir()
    (inside / name).symlink_to(tmp_path / name)
    lease = enter(guest, card.node)
    lxc.refresh(MACHINE, guest.name, lease, [card.node])
    leave(guest, lease)
    assert (tmp_path / name).exists()


@pytest.fixture
def below(card: Card) -> Iterator[Node]:
    """A card whose node is in a directory of its own, as those in /dev/dri are."""
    directory = Path("/dev") / f"cantle-test-{uuid.uuid4().hex[:8]}"
    directory.mkdir()
    node = Node(f"{directory}/{Path(card.node.path).name}", card.node.major, card.node.minor)
    os.link(card.node.path, node.path)
    yield node
    os.unlink(node.path)
    directory.rmdir()


def test_a_directory_that_is_made_for_a_node_is_open_to_all_in_the_container(guest: Container, below: Node) -> None:
    """The agent's own files are for nobody else: its unit has UMask=0077."""
    before = os.umask(0o077)
    try:
        lease = enter(guest, below)
    finally:
        os.umask(before)
    assert guest.opens(below)
    assert guest.run(f"/bin/busybox stat -c %a {Path(below.path).parent}") == "755"
    leave(guest, lease)


def test_a_link_in_the_place_of_a_nodes_directory_is_not_followed(guest: Container, below: Node) -> None:
    guest.run(f"/bin/busybox ln -s /tmp {Path(below.path).parent}")
    with pytest.raises(HostError, match="Not a directory") as caught:
        enter(guest, below)
    assert caught.value.code == "container-refused"
    assert not any((guest.home / "rootfs/tmp").iterdir())


@pytest.mark.parametrize(
    "trick",
    [
        "umount {node}; rm -r {place}; ln -s /tmp {place}",
        "umount {node}; rm -r {place}; touch {place}",
        "umount {node}; rm {node}; ln -s /bin/busybox {node}",
        "umount {node}; rm {node}; mkdir {node}",
        "umount {node}; echo mine > {node}",
        "mount -o remount,ro /dev",
    ],
)
def test_a_container_keeps_its_lease_from_ending_by_nothing_that_it_does_to_its_files(
    guest: Container, below: Node, trick: str
) -> None:
    lease = enter(guest, below)
    words = trick.format(node=below.path, place=Path(below.path).parent).split("; ")
    guest.run(" && ".join(f"/bin/busybox {one}" for one in words))
    leave(guest, lease)
    assert not guest.opens(below)
    assert not MACHINE.exists(lxc.book(guest.name, lease))
    assert guest.run("/bin/busybox ls /bin/busybox") == "/bin/busybox"


@pytest.mark.parametrize("mapped", ["", "-r"], ids=["unmapped", "mapped"])
@pytest.mark.parametrize("before", [True, False], ids=["shut-in-before", "shut-in-after"])
@pytest.mark.parametrize("privileged", [True, False], ids=["privileged", "unprivileged"])
def test_a_container_keeps_its_lease_from_ending_by_no_user_namespace_of_its_own(
    card: Card, *, privileged: bool, before: bool, mapped: str
) -> None:
    """Its init is what its root makes of it: here one in a user namespace, that nobody may be mapped into. What was mounted before cannot
    be unmounted there (mount_namespaces(7)), and is its own business: it opens nothing."""
    made = Container(privileged=privileged)
    try:
        init = made.home / "rootfs/bin/labinit"
        init.write_text(
            "#!/bin/sh\nwhile [ ! -e /tmp/now ]; do /bin/busybox sleep 0.1; done\n"
            f"exec /bin/busybox unshare -U {mapped} -m /bin/busybox sleep 600\n"
        )
        now = made.home / "rootfs/tmp/now"
        if before:
            now.touch()
        made.start()
        pid = container.init_pid(MACHINE, made.name)
        lease = "" if before else enter(made, card.node)
        now.touch()
        wait_until(
            "its init has shut itself in",
            lambda: Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"/bin/busybox\0sleep"),
        )
        lease = lease or enter(made, card.node)
        assert container.has(MACHINE, pid or 0, card.node)
        leave(made, lease)
        assert not MACHINE.exists(lxc.book(made.name, lease))
        assert container.has(MACHINE, pid or 0, card.node) is not before
        if mapped or not privileged:  # nobody can enter the other one, liblxc's own tools neither
            assert not made.opens(card.node)
    finally:
        made.remove()


def test_a_card_that_the_host_lacks_stops_the_lease_before_the_container_is_touched(
    guest: Container, card: Card
) -> None:
    by_hand = guest.config.read_text()
    gone = Node(f"{card.node.path}-gone", card.node.major, card.node.minor)
    with pytest.raises(CantleError) as caught:
        enter(guest, card.node, gone)
    assert caught.value.code == "node-missing"
    assert guest.config.read_text() == by_hand
    assert not guest.opens(card.node)
