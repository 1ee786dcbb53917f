"""A tree that answers to ``create`` and ``remove`` as the kernel's mdev core does (drivers/vfio/mdev), with faults on demand."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.unit.kernel.tree import MDEV, MDEV_BUS, Tree

from cantle.kernel.root import Root


class MdevKernel(Root):
    """Wraps a built tree.

    :ivar writes: what was written, in order.
    :ivar fault: asked before every write; an errno to answer in place of doing it, or None.
    :ivar before: called once before the next write: what somebody else does just then.
    :ivar deaf: take writes, and do nothing.
    """

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree.base)
        self.tree = tree
        self.writes: list[tuple[str, str]] = []
        self.fault: int | None = None
        self.before: Callable[[], None] | None = None
        self.deaf = False

    def write(self, rel: str, text: str) -> None:
        super().write(rel, text)
        self.writes.append((rel, text))
        if self.before is not None:
            before, self.before = self.before, None
            before()
        if self.fault is not None:
            self._answer(rel, self.fault)
        if self.deaf:
            return
        if rel.endswith("/create"):
            self._create(rel, text)
        elif rel.endswith("/remove"):
            self.forget(rel.split("/")[-2])

    def forget(self, uuid: str) -> None:
        """Take a mediated device out of the tree."""
        link = Path(self.path, MDEV, uuid)
        place = Path(os.path.realpath(link))
        type_id = os.path.basename(os.readlink(place / "mdev_type"))
        (place.parent / "mdev_supported_types" / type_id / "devices" / uuid).unlink()
        link.unlink()
        shutil.rmtree(place)

    def _create(self, rel: str, uuid: str) -> None:
        _, parent, _, type_id, _ = rel.removeprefix("sys/class/").rsplit("/", 4)
        if os.path.lexists(f"{self.path}/{MDEV}/{uuid}"):
            self._answer(rel, errno.EEXIST)
        if self.read(f"{MDEV_BUS}/{parent}/mdev_supported_types/{type_id}/available_instances") == "0":
            self._answer(rel, errno.EUSERS)
        self.tree.mdev(parent, type_id, uuid)

    def _answer(self, rel: str, number: int) -> None:
        raise self.failed("write", rel, OSError(number, os.strerror(number)))
