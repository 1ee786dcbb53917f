"""What a simulated host shows, and what it refuses."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cantle import simulate
from cantle.errors import HostError
from cantle.kernel import mdev

T4 = "0000:af:00.0"
M40 = "0000:86:00.0"
NIC = "0000:18:00.0"
TYPES = f"sys/class/mdev_bus/{T4}/mdev_supported_types"
FIRST = "11111111-2222-4333-8444-555555555555"
SECOND = "11111111-2222-4333-8444-666666666666"


def refused(write: Callable[[], None]) -> int | None:
    with pytest.raises(HostError) as caught:
        write()
    assert caught.value.path.startswith("/sys/")
    return caught.value.errno


def offered(root: simulate.SimulatedRoot, parent: str) -> dict[str, int]:
    return {one.type_id: one.available_instances for one in mdev.types(root, parent)}


def everything(root: simulate.SimulatedRoot) -> dict[str, str]:
    """All files and links, by path. What nobody may read (files that only take writes) counts by its being there."""
    found = {}
    for directory, names, files in os.walk(root.path):
        for name in [*names, *files]:
            path = Path(directory, name)
            if path.is_symlink():
                found[os.path.relpath(path, root.path)] = f"-> {path.readlink()}"
            elif path.is_file():
                readable = path.stat().st_mode & 0o400
                found[os.path.relpath(path, root.path)] = path.read_text() if readable else "-"
    return found
