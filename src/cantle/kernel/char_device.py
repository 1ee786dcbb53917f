"""Character devices by number (the kernel's Documentation/admin-guide/devices.rst; proc_devices(5))."""

from __future__ import annotations

import re
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
