"""A Unix socket for programs of the same machine, and who is at its other end (unix(7))."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct

from cantle.errors import Conflict, HostError
from cantle.kernel.root import Root

#: Connections that may wait to be taken.
_BACKLOG = 16
_PEER = struct.Struct("3i")


def listen(root: Root, rel: str) -> socket.socket:
    """Listen at a path below the root, for its owner alone (0600). The directories above it are made. What a dead process left is replaced.

    :raises Conflict: ``local-socket-taken``: a living process listens there.
    :raises HostError: ``host-write-failed``.
    """
    parent, _, name = rel.rpartition("/")
    try:
        os.makedirs(f"{root.path}/{parent}", 0o755, exist_ok=True)
        place = os.open(f"{root.path}/{parent}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return _listening(root, rel, f"/proc/self/fd/{place}/{name}")
        finally:
            os.close(place)
    except OSError as error:
        raise root.failed("write", rel, error) from error


def _listening(root: Root, rel: str, path: str) -> socket.socket:
    """:param path: a short name of the place: an address has room for 107 bytes."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        _free(root, rel, path)
        made.bind(path)
        os.chmod(path, 0o600)  # before anybody can connect: nobody can until it listens
        made.listen(_BACKLOG)
    except BaseException:
        made.close()
        raise
    return made


def _free(root: Root, rel: str, path: str) -> None:
    """Take away what a dead process left there."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise HostError("host-write-failed", f"{root.host_path(rel)} is there and is no socket: move it away")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except OSError:
            os.unlink(path)
            return
    raise Conflict(
        "local-socket-taken",
        f"another process listens on {root.host_path(rel)}: the agent that runs already answers the hooks of guests, "
        "not this one; stop one of the two",
    )


def remove(root: Root, rel: str, ours: socket.socket) -> None:
    """Take the name away, and stop listening. In this order: a process that found nobody listening would have put its own in the name's
    place meanwhile. Whoever waits in ``accept`` is woken."""
    with contextlib.suppress(OSError):
        os.unlink(f"{root.path}/{rel}")
    with contextlib.suppress(OSError):
        ours.shutdown(socket.SHUT_RDWR)
    ours.close()


def peer(connection: socket.socket) -> tuple[int, int]:
    """Pid and uid of whoever connected (``SO_PEERCRED``), as they were then."""
    pid, uid, _gid = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return pid, uid
