"""Character devices by number (the kernel's Documentation/admin-guide/devices.rst; proc_devices(5))."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass

from cantle.kernel.root import Root

_NUMBER = re.compile(r"([0-9]{1,5}):([0-9]{1,8})")


@dataclass(frozen=True, order=True, slots=True)
class Node:
    """A character device.

    :param path: as the host names it, and its guest too: ``/dev/dri/renderD128``.
    :param shared: all cards of a driver have it together: it says nothing of one card, and alone opens none.
    """

    path: str
    major: int
    minor: int
    shared: bool = False


def number(root: Root, rel: str) -> tuple[int, int] | None:
    """Major and minor out of a ``dev`` file of sysfs; None when there is none."""
    match = _NUMBER.fullmatch((root.read_or_none(rel) or "").strip())
    return None if match is None else (int(match[1]), int(match[2]))


def major(root: Root, *names: str) -> int | None:
    """The major of the first of these drivers that ``proc/devices`` has among its character devices; None when it has none of them."""
    found: dict[str, int] = {}
    for line in (root.read_or_none("proc/devices") or "").split("\n"):
        if line.startswith("Block devices"):
            break
        figure, _, name = line.strip().partition(" ")
        if figure.isdigit():
            found.setdefault(name.strip(), int(figure))
    return next((found[name] for name in names if name in found), None)


def number_of_file(root: Root, rel: str) -> tuple[int, int] | None:
    """Major and minor of a node of this machine, links followed; None when there is none, and in a tree of files."""
    if not root.is_machine:
        return None
    try:
        found = os.stat(f"/{rel}")
    except OSError:
        return None
    return (os.major(found.st_rdev), os.minor(found.st_rdev)) if stat.S_ISCHR(found.st_mode) else None
