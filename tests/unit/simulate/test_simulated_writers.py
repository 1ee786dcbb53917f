"""Writers of a simulated host: killed anywhere, many at once, and any sequence of writes."""

from __future__ import annotations

import errno
import multiprocessing
import re
import threading
import uuid as uuids
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.simulate.shown import FIRST, T4, TYPES, everything, offered, refused

from cantle import simulate
from cantle.errors import HostError
from cantle.kernel import mdev
from cantle.simulate.tree import Tree


class DyingTree(Tree):
    """A tree whose process is killed at its nth change."""

    def __init__(self, path: str, left: int) -> None:
        super().__init__(path)
        self.left = left

    def _step(self) -> None:
        if self.left == 0:
            raise Killed
        self.left -= 1

    def put(self, rel: str, text: str, mode: int = 0o444) -> None:
        self._step()
        super().put(rel, text, mode)

    def link(self, rel: str, target: str) -> None:
        self._step()
        super().link(rel, target)

    def remove(self, rel: str) -> None:
        self._step()
        super().remove(rel)


class Killed(BaseException):
    """The end of a process."""


@pytest.mark.parametrize("verb", ["create", "remove"])
def test_a_writer_killed_anywhere_leaves_an_mdev_or_none_but_no_half_one(tmp_path: Path, verb: str) -> None:
    for left in range(60):
        root = simulate.build(simulate.load("mtty"), tmp_path / str(left))
        types = "sys/class/mdev_bus/mtty/mdev_supported_types"
        clean = everything(root)
        if verb == "remove":
            root.write(f"{types}/mtty-2/create", FIRST)
        root.kernel.tree = DyingTree(root.path, left)
        try:
            root.write(
                f"{types}/mtty-2/create" if verb == "create" else f"sys/bus/mdev/devices/{FIRST}/remove",
                FIRST if verb == "create" else "1",
            )
        except Killed:
            again = simulate.SimulatedRoot(root.path)
            if mdev.devices(again):
                assert offered(again, "mtty") == {"mtty-1": 22, "mtty-2": 11}
                again.write(f"sys/bus/mdev/devices/{FIRST}/remove", "1")
            assert {key: value for key, value in everything(again).items() if not key.endswith(".new")} == clean
        else:
            assert left > 3
            return
    raise AssertionError("the write never got through")


def test_many_threads_get_no_more_than_there_is(t4: simulate.SimulatedRoot) -> None:
    answers: list[int | None] = []

    def make() -> None:
        own = simulate.SimulatedRoot(t4.path)
        try:
            own.write(f"{TYPES}/nvidia-223/create", str(uuids.uuid4()))
            answers.append(None)
        except HostError as error:
            answers.append(error.errno)

    threads = [threading.Thread(target=make) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(answers, key=str) == [errno.ENOSPC] * 4 + [None] * 8
    assert len(mdev.devices(t4)) == 8


def _fill(path: str) -> None:
    root = simulate.SimulatedRoot(path)
    for _ in range(3):
        root.write(f"{TYPES}/nvidia-222/create", str(uuids.uuid4()))


def test_several_processes_share_one_host(t4: simulate.SimulatedRoot) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_fill, args=(t4.path,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    assert offered(t4, T4)["nvidia-222"] == 10


UUIDS = [str(uuids.UUID(int=number + 1)) for number in range(6)]
OPERATIONS = st.one_of(
    st.tuples(st.just("create"), st.sampled_from(["mtty-1", "mtty-2", "mtty-9"]), st.sampled_from(UUIDS)),
    st.tuples(st.just("remove"), st.just(""), st.sampled_from(UUIDS)),
    st.tuples(st.just("reboot"), st.just(""), st.just("")),
)


@settings(max_examples=25, deadline=None)
@given(st.lists(OPERATIONS, max_size=25))
def test_any_sequence_of_writes_keeps_the_books_right(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[str, str, str]]
) -> None:
    small = re.sub(
        r"capacity: 24", "capacity: 5", Path(simulate.__file__).with_name("hosts").joinpath("mtty.yaml").read_text()
    )
    root = simulate.build(simulate.description.parse(small.encode(), "small"), tmp_path_factory.mktemp("mtty") / "host")
    sizes = {"mtty-1": 1, "mtty-2": 2}
    alive: dict[str, str] = {}
    for verb, type_id, uuid in operations:
        if verb == "reboot":
            simulate.reboot(root)
            alive.clear()
            continue
        left = 5 - sum(sizes[one] for one in alive.values())
        if verb == "create":
            rel, text = f"sys/class/mdev_bus/mtty/mdev_supported_types/{type_id}/create", uuid
            fits = type_id in sizes and uuid not in alive and sizes[type_id] <= left
        else:
            rel, text = f"sys/bus/mdev/devices/{uuid}/remove", "1"
            fits = uuid in alive
        if fits:
            root.write(rel, text)
            alive = {**alive, uuid: type_id} if verb == "create" else {key: alive[key] for key in alive if key != uuid}
        else:
            assert refused(lambda: root.write(rel, text)) in (errno.ENOENT, errno.EEXIST, errno.ENOSPC)  # noqa: B023
        left = 5 - sum(sizes[one] for one in alive.values())
        assert offered(root, "mtty") == {"mtty-1": left, "mtty-2": left // 2}
        assert {one.uuid: one.type_id for one in mdev.devices(root)} == alive
