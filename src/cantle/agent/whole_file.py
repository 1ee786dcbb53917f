"""Writing a small file so that, whenever the machine dies, the old or the new one is there and nothing in between."""

from __future__ import annotations

import os
from pathlib import Path


def replace(path: Path, data: bytes) -> None:
    """Replace the file, or make it, for its owner alone (0600). When this returns, it is on the disk.

    :raises OSError: it could not be written; what was there before still is.
    """
    fresh = path.with_suffix(".new")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        os.fchmod(fd, 0o600)  # a file that a dead process left may have had another mode
        file.write(data)
        file.flush()
        os.fsync(fd)
    fresh.replace(path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)  # the new name too
    finally:
        os.close(directory)
