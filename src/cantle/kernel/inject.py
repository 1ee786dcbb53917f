"""``python -m cantle.kernel.inject put|take PID PATH``: a device node into the mounts of a running container, or out of them.

A program of its own, since a process with threads can enter no other user namespace (setns(2)). The node is bound there from the host,
as liblxc does at a container's start: a container with a user namespace of its own can have none made in it (mknod(2)). The path is walked
part by part and no link is followed: what lies in a container belongs to whoever rules there.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import stat
import sys
from collections.abc import Sequence

# include/uapi/asm-generic/unistd.h; the same on every architecture.
_OPEN_TREE = 428
_MOVE_MOUNT = 429
# include/uapi/linux/mount.h, include/uapi/linux/sched.h, sys/mount.h
_OPEN_TREE_CLONE = 1
_MOVE_MOUNT_F_EMPTY_PATH = 4
_MOVE_MOUNT_T_EMPTY_PATH = 0x40
_CLONE_NEWNS = 0x20000
_CLONE_NEWUSER = 0x10000000
# include/uapi/linux/nsfs.h
_NS_GET_USERNS = 0xB701
_NS_GET_PARENT = 0xB702
_MNT_DETACH = 2
_UMOUNT_NOFOLLOW = 8
_AT_FDCWD = -100

_libc = ctypes.CDLL(None, use_errno=True)
_PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def main(argv: Sequence[str]) -> int:
    """Do what the arguments say. Status 0: it is so now; 1: not, and standard error says why.

    :param argv: ``put`` or ``take``, the pid of the container's init, the node's absolute path, the same outside and inside.
    """
    verb, pid, path = argv
    os.umask(
        0o022
    )  # the agent's own is for files that are nobody else's business; what is made here is for everybody in the container
    try:
        if verb == "put":
            put(int(pid), path)
        else:
            take(int(pid), path)
    except OSError as error:
        print(f"{path}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def put(pid: int, path: str) -> None:
    """Have the host's node in the container.

    :raises OSError: ENODEV when the host has no such character device; ELOOP for a link in the container's way.
    """
    wanted = os.stat(path)
    if not stat.S_ISCHR(wanted.st_mode):
        raise OSError(errno.ENODEV, "it is no character device on the host")
    tree = _checked(_libc.syscall(_OPEN_TREE, _AT_FDCWD, path.encode(), _OPEN_TREE_CLONE | os.O_CLOEXEC))
    _enter(pid)
    parent, name = _parent(path, make=True)
    with contextlib.suppress(FileNotFoundError):
        if os.stat(name, dir_fd=parent, follow_symlinks=False).st_rdev == wanted.st_rdev:
            return
    with contextlib.suppress(FileExistsError):
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=parent))
    place = os.open(name, _PLACE, dir_fd=parent)
    if stat.S_ISLNK(os.fstat(place).st_mode):
        raise OSError(errno.ELOOP, "there is a link in its place")
    flags = _MOVE_MOUNT_F_EMPTY_PATH | _MOVE_MOUNT_T_EMPTY_PATH
    _checked(_libc.syscall(_MOVE_MOUNT, tree, b"", place, b"", flags))


def take(pid: int, path: str) -> None:
    """Have nothing of that name in the container, neither bound nor left over in its files. One whose /dev is the host's keeps the node:
    it is the host's own, and what keeps the container out is that it has no permission any more."""
    of_host = _file(path)
    _enter(pid)
    try:
        parent, name = _parent(path, make=False)
        os.fchdir(parent)
        while _libc.umount2(name.encode(), _MNT_DETACH | _UMOUNT_NOFOLLOW) == 0:
            pass  # bound once more below it
        if ctypes.get_errno() not in (errno.EINVAL, errno.ENOENT):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        left = os.stat(name, follow_symlinks=False)
        if (left.st_dev, left.st_ino) == of_host and left.st_dev == os.fstat(parent).st_dev:
            return
        if stat.S_ISCHR(left.st_mode) or (stat.S_ISREG(left.st_mode) and not left.st_size):
            _unlink(name)
    except (FileNotFoundError, NotADirectoryError):
        return  # whoever rules there has put something else in its way


def _unlink(name: str) -> None:
    """Remove what opens nothing any more. Whoever rules in the container may keep it, and must not keep a lease from its end by that.
    EBUSY: a mount that came along into a user namespace made since is locked there (mount_namespaces(7))."""
    try:
        os.unlink(name)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EPERM, errno.EACCES, errno.EBUSY):
            raise


def _file(path: str) -> tuple[int, int] | None:
    """Which file it is: file system and inode; None when there is none."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _enter(pid: int) -> None:
    """The container's mounts, with the rights of its root: nothing of the host can be harmed from here on."""
    mounts = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    users = _users(mounts)
    if users is None:
        _checked(_libc.setns(mounts, _CLONE_NEWNS))
        return
    os.setgroups([])  # while we may: in a user namespace it can be forbidden
    _checked(_libc.setns(users, _CLONE_NEWUSER))
    _checked(_libc.setns(mounts, _CLONE_NEWNS))
    _become_root()


def _become_root() -> None:
    """The root of the user namespace. One that nobody is mapped into is none that a container was started in: the root of a container
    without one has made it. We stay what that one is, the host's root by number, with rights in that namespace alone."""
    try:
        os.setgid(0)
        os.setuid(0)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise


def _users(mounts: int) -> int | None:
    """The user namespace of the container that has these mounts; None where it has none of its own. That is the one right below ours: those
    below it its own root has made, and may have mapped nobody into (ioctl_ns(2))."""
    ours = os.stat("/proc/self/ns/user")
    found, at = None, fcntl.ioctl(mounts, _NS_GET_USERNS)
    while not os.path.samestat(os.fstat(at), ours):
        found, at = at, fcntl.ioctl(at, _NS_GET_PARENT)
    return found


def _parent(path: str, *, make: bool) -> tuple[int, str]:
    """The directory that a node stands in, and its name there."""
    *parts, name = path.strip("/").split("/")
    place = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in parts:
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, 0o755, dir_fd=place)
        place = os.open(part, _PLACE | os.O_DIRECTORY, dir_fd=place)
    return place, name


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
