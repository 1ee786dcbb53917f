"""Cards on the way into real containers and out of them, with a failure at each step: afterwards everything is as before."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.real.lxc import MACHINE, Card, Container

from cantle.attach import cdi, lxc
from cantle.errors import CantleError, HostError
from cantle.kernel import container
from cantle.kernel.char_device import Node
from cantle.kernel.root import Root
from cantle.kernel.tools import Ran
from cantle.kernel.undo import Undo


class Meddled(Root):
    """This machine, on which something happens before a tool is run; the tool is run then, unless there is an answer.

    :param tool: its name and a word of its arguments: ``lxc-cgroup devices.allow``, ``cantle.kernel.inject put``.
    """

    def __init__(self, tool: str, happens: Callable[[], Ran | None]) -> None:
        super().__init__("/")
        self._words = tool.split()
        self._happens = happens

    def run(self, argv: Sequence[str], seconds: float) -> Ran:
        """As of the machine."""
        if all(any(word in part for part in argv) for word in self._words):
            answer = self._happens()
            if answer is not None:
                return answer
        return super().run(argv, seconds)


@pytest.fixture
def cards() -> Iterator[list[Card]]:
    """Two stand-ins."""
    made = [Card("/dev/fuse"), Card("/dev/loop-control")]
    yield made
    for one in made:
        one.remove()


@pytest.fixture(params=[True, False], ids=["privileged", "unprivileged"])
def guest(request: pytest.FixtureRequest) -> Iterator[Container]:
    """A running container."""
    made = Container(privileged=request.param)
    try:
        made.start()
        yield made
    finally:
        made.remove()


@contextmanager
def read_only(place: Path) -> Iterator[None]:
    """Nobody can write there meanwhile, root included."""
    subprocess.run(["mount", "--bind", str(place), str(place)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(place)], check=True)
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


def state(guest: Container, cards: Sequence[Card], lease: str) -> dict[str, object]:
    """All that an attachment changes."""
    return {
        "config": guest.config.read_bytes().removesuffix(b"\n"),
        "book": MACHINE.read_or_none(lxc.book(guest.name, lease)),
        "seen": guest.sees("/dev"),
        "opens": [guest.opens(one.node) for one in cards],
    }


def enter(root: Root, guest: Container, lease: str, nodes: Sequence[Node]) -> None:
    with Undo() as undo:
        lxc.enter(root, guest.name, lease, nodes, undo)


def leave(root: Root, guest: Container, lease: str) -> None:
    with Undo() as undo:
        lxc.leave(root, guest.name, lease, undo)


def test_a_configuration_that_cannot_be_written_stops_the_lease_at_its_beginning_and_at_its_end(
    guest: Container, cards: list[Card]
) -> None:
    lease = str(uuid.uuid4())
    nodes = [one.node for one in cards]
    before = state(guest, cards, lease)
    with read_only(guest.home), pytest.raises(HostError, match="let root write there") as caught:
        enter(MACHINE, guest, lease, nodes)
    assert caught.value.code == "host-write-failed"
    assert state(guest, cards, lease) == before
    enter(MACHINE, guest, lease, nodes)
    lent = state(guest, cards, lease)
    assert lent["opens"] == [True, True]
    with read_only(guest.home), pytest.raises(HostError, match="let root write there"):
        leave(MACHINE, guest, lease)
    assert state(guest, cards, lease) == lent
    leave(MACHINE, guest, lease)
    assert state(guest, cards, lease) == before


#: Which tool of which of the two nodes fails, on the way in: the second shows that the first is taken back.
WAY_IN = [(tool, nth) for tool in ("lxc-cgroup devices.allow", "cantle.kernel.inject put") for nth in (1, 2)]
WAY_OUT = [(tool, nth) for tool in ("lxc-cgroup devices.deny", "cantle.kernel.inject take") for nth in (1, 2)]


def _refusing(tool: str, nth: int) -> Meddled:
    """That tool, the nth time and once, as when a write into the cgroup is refused."""
    times = iter(range(1, 100))
    return Meddled(tool, lambda: Ran(1, "Permission denied") if next(times) == nth else None)


@pytest.mark.parametrize(("tool", "nth"), WAY_IN)
def test_a_container_that_refuses_a_step_on_the_way_in_has_nothing_of_the_lease(
    guest: Container, cards: list[Card], tool: str, nth: int
) -> None:
    lease = str(uuid.uuid4())
    before = state(guest, cards, lease)
    with pytest.raises(HostError, match="Permission denied") as caught:
        enter(_refusing(tool, nth), guest, lease, [one.node for one in cards])
    assert caught.value.code == "container-refused"
    assert guest.name in str(caught.value) or "container of process" in str(caught.value)
    assert state(guest, cards, lease) == before
    guest.stop()
    guest.start()
    assert state(guest, cards, lease) == before


@pytest.mark.parametrize(("tool", "nth"), WAY_OUT)
def test_a_container_that_refuses_a_step_on_the_way_out_has_all_of_the_lease_until_the_next_try(
    guest: Container, cards: list[Card], tool: str, nth: int
) -> None:
    lease = str(uuid.uuid4())
    before = state(guest, cards, lease)
    enter(MACHINE, guest, lease, [one.node for one in cards])
    lent = state(guest, cards, lease)
    with pytest.raises(HostError, match="Permission denied"):
        leave(_refusing(tool, nth), guest, lease)
    assert state(guest, cards, lease) == lent
    leave(MACHINE, guest, lease)
    assert state(guest, cards, lease) == before


@pytest.mark.parametrize("tool", ["lxc-cgroup devices.allow", "cantle.kernel.inject put"])
def test_a_container_that_stops_in_between_has_nothing_of_the_lease_when_it_starts_again(
    guest: Container, cards: list[Card], tool: str
) -> None:
    lease = str(uuid.uuid4())
    before = state(guest, cards, lease)

    def stops() -> None:
        guest.stop()

    with pytest.raises(CantleError):
        enter(Meddled(tool, stops), guest, lease, [one.node for one in cards])
    guest.start()
    assert state(guest, cards, lease) == before


def test_a_container_that_stops_on_the_way_out_has_nothing_left_and_its_lease_ends(
    guest: Container, cards: list[Card]
) -> None:
    lease = str(uuid.uuid4())
    before = state(guest, cards, lease)
    enter(MACHINE, guest, lease, [one.node for one in cards])

    def stops() -> None:
        guest.stop()

    with pytest.raises(CantleError):
        leave(Meddled("lxc-cgroup devices.deny", stops), guest, lease)
    leave(MACHINE, guest, lease)
    guest.start()
    assert state(guest, cards, lease) == before


def test_a_container_whose_dev_is_read_only_has_neither_node_nor_permission(
    guest: Container, cards: list[Card]
) -> None:
    lease = str(uuid.uuid4())
    pid = container.init_pid(MACHINE, guest.name)
    argv = ["nsenter", "-t", str(pid), "-m", "-p", "/bin/busybox", "mount", "-o", "remount,ro", "/dev"]
    subprocess.run(argv, check=True)
    before = state(guest, cards, lease)
    with pytest.raises(HostError, match="Read-only file system") as caught:
        enter(MACHINE, guest, lease, [one.node for one in cards])
    assert caught.value.code == "container-refused"
    assert state(guest, cards, lease) == before


def test_a_container_whose_files_are_full_has_neither_node_nor_permission(guest: Container, cards: list[Card]) -> None:
    lease = str(uuid.uuid4())
    nodes = [one.node for one in cards]
    pid = container.init_pid(MACHINE, guest.name)
    inside = ["nsenter", "--target", str(pid), "--mount", "/bin/busybox", "mount", "-t", "tmpfs"]
    owner = guest.home.joinpath("rootfs").stat().st_uid
    options = f"mode=755,uid={owner},gid={owner},nr_inodes="
    subprocess.run([*inside, "-o", f"{options}1", "none", "/dev"], check=True)
    before = state(guest, cards, lease)
    with pytest.raises(HostError, match="No space left on device") as caught:
        enter(MACHINE, guest, lease, nodes)
    assert caught.value.code == "container-refused"
    assert state(guest, cards, lease) == before
    subprocess.run([*inside, "-o", f"remount,{options}2", "none", "/dev"], check=True)
    with pytest.raises(HostError, match="No space left on device"):
        enter(MACHINE, guest, lease, nodes)  # the first has room
    assert state(guest, cards, lease) == before
    subprocess.run([*inside, "-o", f"remount,{options}3", "none", "/dev"], check=True)
    enter(MACHINE, guest, lease, nodes)
    assert state(guest, cards, lease)["opens"] == [True, True]
    leave(MACHINE, guest, lease)
    assert state(guest, cards, lease) == before


def test_a_container_whose_configuration_has_no_room_is_left_as_it_is(guest: Container, cards: list[Card]) -> None:
    """Where containers are kept is full."""
    lease = str(uuid.uuid4())
    guest.stop()
    config = guest.config.read_bytes()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12k", "none", str(guest.home)], check=True)
    try:
        guest.config.write_bytes(config)
        room = os.statvfs(guest.home)
        (guest.home / "filler").write_bytes(bytes(room.f_bavail * room.f_bsize))
        before = sorted(guest.home.iterdir())
        with pytest.raises(HostError, match="No space left on device") as caught:
            enter(MACHINE, guest, lease, [one.node for one in cards])
        assert caught.value.code == "host-write-failed"
        assert sorted(guest.home.iterdir()) == before
        assert guest.config.read_bytes() == config
        assert not MACHINE.exists(lxc.book(guest.name, lease))
    finally:
        subprocess.run(["umount", str(guest.home)], check=True)


def test_a_directory_of_engines_that_cannot_be_written_leaves_them_what_they_had(cards: list[Card]) -> None:
    lease = str(uuid.uuid4())
    place = Path("/", cdi.DYNAMIC)
    place.mkdir(parents=True, exist_ok=True)
    first, second = (one.node for one in cards)
    name = f"cantle-test-{lease[:8]}"
    with read_only(place), pytest.raises(HostError, match="let root write there") as caught:
        cdi.write(MACHINE, lease, name, [first])
    assert caught.value.code == "host-write-failed"
    assert cdi.read(MACHINE, lease) is None
    cdi.write(MACHINE, lease, name, [first])
    lent = cdi.read(MACHINE, lease)
    with read_only(place):
        with pytest.raises(HostError):
            cdi.write(MACHINE, lease, name, [first, second])
        with pytest.raises(HostError):
            cdi.remove(MACHINE, lease)
        assert cdi.read(MACHINE, lease) == lent
    cdi.remove(MACHINE, lease)
    assert cdi.read(MACHINE, lease) is None
