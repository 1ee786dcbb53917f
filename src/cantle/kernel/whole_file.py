"""Writing a file of the system's so that, whenever the machine dies, the old or the new one is there and nothing in between."""

from __future__ import annotations

import contextlib
import errno
import os
import stat


def replace(parent: int, name: str, data: bytes, mode: int = 0o644) -> None:
    """Replace a file of an open directory, or make it. One that is there keeps its owner and mode.

    :param parent: file descriptor of the directory.
    :param mode: of one that is made.
    :raises OSError: it could not be written, or (ELOOP) there is something else than a plain file in its place, which is left alone.
    """
    fresh = f".{name}.cantle-new"
    try:
        old = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        old = None
    if old is not None and not stat.S_ISREG(old.st_mode):
        raise OSError(errno.ELOOP, "it is no plain file but a link or a directory")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(fresh, dir_fd=parent)  # of a process that was killed here
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=parent)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            if old is not None:
                os.fchown(fd, old.st_uid, old.st_gid)
            os.fchmod(fd, mode if old is None else stat.S_IMODE(old.st_mode))
            os.fsync(fd)
        os.rename(fresh, name, src_dir_fd=parent, dst_dir_fd=parent)
    except OSError:
        os.unlink(fresh, dir_fd=parent)
        raise
