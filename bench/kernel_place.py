"""Where the simulated kernel of a measurement lies: in memory, as the real kernel's files do.

``/sys`` is no disk: a file there costs microseconds. On a slow disk the making of one simulated mediated device, which is many files, can
take longer than everything else that is measured.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MEMORY = Path("/dev/shm")  # noqa: S108 (a directory of a random name is made in it)


@contextmanager
def kernel_place() -> Iterator[Path]:
    """A new directory, in memory where the machine lets us, and gone afterwards."""
    memory = _MEMORY if os.access(_MEMORY, os.W_OK | os.X_OK) and _is_tmpfs(_MEMORY) else None
    with tempfile.TemporaryDirectory(prefix="cantle-bench-", dir=memory) as place:
        yield Path(place)


def told(place: Path) -> str:
    """Where it is, in words for what is printed."""
    return "memory" if place.is_relative_to(_MEMORY) else "the disk"


def _is_tmpfs(path: Path) -> bool:
    mounts = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    return any(mount.split()[1:3] == [str(path), "tmpfs"] for mount in mounts)
