"""The files of a container that does not run: what lies in its directory where a device node belongs.

A mount needs a file to stand on. liblxc makes an empty one and leaves it behind; others leave a node of an earlier boot, whose number is
another device's by now.
"""

from __future__ import annotations

import contextlib
import os
import stat

from cantle.kernel.root import Root

_PLACE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def sweep(root: Root, rootfs: str, path: str) -> None:
    """Remove the device node or the empty file of this path from a container's directory; anything else stays. No link is followed: what
    lies in there belongs to whoever rules in the container. What is the host's own stays too: a container may have the host's files.

    :param rootfs: absolute, as the host has it.
    :param path: absolute, as the container has it.
    :raises HostError: ``host-write-failed``.
    """
    rel = rootfs.strip("/")
    *parts, name = path.strip("/").split("/")
    try:
        with contextlib.ExitStack() as opened:
            place = _open(opened, f"{root.path}/{rel}", None)
            for part in parts:
                place = _open(opened, part, place)
            found = os.stat(name, dir_fd=place, follow_symlinks=False)
            if _is_of_host(root, path, found):
                return
            if stat.S_ISCHR(found.st_mode) or (stat.S_ISREG(found.st_mode) and not found.st_size):
                os.unlink(name, dir_fd=place)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise root.failed("write", f"{rel}/{path.strip('/')}", error) from error


def _is_of_host(root: Root, path: str, found: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.lstat(f"{root.path}/{path.strip('/')}"), found)
    except OSError:
        return False


def _open(opened: contextlib.ExitStack, name: str, above: int | None) -> int:
    fd = os.open(name, _PLACE, dir_fd=above)
    opened.callback(os.close, fd)
    return fd
