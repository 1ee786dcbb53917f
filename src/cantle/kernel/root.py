"""The kernel's files below a directory: ``/`` on a host, any other directory for a captured or simulated tree.

Every path is relative to the root and has no leading slash: ``sys/bus/pci/devices``. Links are resolved as if the root
were ``/`` (what ``openat2`` calls ``RESOLVE_IN_ROOT``): an absolute link starts again at the root, and ``..`` stops
there. So a captured tree can never make us read, or a simulated one make us write, the machine we run on.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence

from cantle.errors import BadRequest, HostError
from cantle.kernel import tools, whole_file
from cantle.kernel.directory import ABSENT, LIST, PLACE, READ, Directory, decoded, failed
from cantle.kernel.tools import Ran, Talk

__all__ = ["Directory", "Root"]

_WRITE = os.O_WRONLY | os.O_CLOEXEC
_TRY = os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
#: The kernel's own limit of links in one path (path_resolution(7)).
_MAX_LINKS = 40


class Root:
    """Reads and writes kernel files below one directory.

    All failures are :class:`~cantle.errors.HostError` with ``path`` as the host names it and ``errno``; codes
    ``host-read-failed``, ``host-write-failed`` and ``host-path-refused``. Keeps no open file and no state between calls:
    safe to share between threads.
    """

    def __init__(self, path: str | os.PathLike[str] = "/") -> None:
        """:raises BadRequest: ``bad-root`` when ``path`` is no directory."""
        self.path = os.path.realpath(path)
        if not os.path.isdir(self.path):
            raise BadRequest(
                "bad-root",
                f"{os.fspath(path)!r} is not a directory; name the one that holds the tree's sys/",
                path=os.fspath(path),
            )
        self._prefix = "" if self.path == "/" else self.path
        # What a file's name links to may be any device of this machine: not even opened. Directories are harmless to open.
        self._nofollow = os.O_NOFOLLOW if self._prefix else 0

    @property
    def is_machine(self) -> bool:
        """Whether this is the machine we run on, and no tree of files."""
        return not self._prefix

    def read(self, rel: str) -> str:
        """The text of a file, one trailing newline stripped. Bytes that are no UTF-8 become U+FFFD."""
        return decoded(self.read_bytes(rel))

    def read_or_none(self, rel: str) -> str | None:
        """Like :meth:`read`, but None when the file, or a directory on the way to it, does not exist."""
        try:
            return self.read(rel)
        except HostError as error:
            if error.errno in ABSENT:
                return None
            raise

    def read_bytes(self, rel: str) -> bytes:
        """All bytes of a file."""
        try:
            fd = self._open(rel, READ | self._nofollow)
            try:
                chunks = []
                while chunk := os.read(fd, 1 << 16):
                    chunks.append(chunk)
            finally:
                os.close(fd)
        except OSError as error:
            raise self.failed("read", rel, error) from error
        return b"".join(chunks)

    def write(self, rel: str, text: str) -> None:
        """Hand ``text`` to the kernel in a single write to a file that exists already, as its attributes need it."""
        data = text.encode()
        try:
            fd = self._open(rel, _WRITE | self._nofollow)
            try:
                written = os.write(fd, data)
            finally:
                os.close(fd)
        except OSError as error:
            raise self.failed("write", rel, error) from error
        if written != len(data):
            path = self.host_path(rel)
            raise HostError("host-write-failed", f"{path} took {written} of {len(data)} bytes of {text!r}", path=path)

    def remove(self, rel: str) -> None:
        """Remove a file; nothing happens when it is not there. For files of the system's, as in ``etc``: the kernel's cannot be removed."""
        _check(rel)
        parent, _, name = rel.rpartition("/")
        try:
            fd = self._open(parent, PLACE)
            try:
                os.unlink(name, dir_fd=fd)
            finally:
                os.close(fd)
        except OSError as error:
            if error.errno not in ABSENT:
                raise self.failed("write", rel, error) from error

    def replace(self, rel: str, data: bytes, mode: int = 0o644) -> None:
        """Replace a file whole, or make it with the directories above it: whenever the machine dies, the old or the new one is there. One
        that is there keeps its owner and mode. For files of the system's, as in ``etc``.

        :raises HostError: ``host-write-failed``, with ELOOP for a link in the file's place; what was there still is.
        """
        _check(rel)
        parent, _, name = rel.rpartition("/")
        try:
            fd = self._made(parent)
            try:
                whole_file.replace(fd, name, data, mode)
            finally:
                os.close(fd)
        except OSError as error:
            raise self.failed("write", rel, error) from error

    def _made(self, rel: str) -> int:
        """A directory, made if it is not there, with those above it."""
        try:
            return self._open(rel, PLACE)
        except FileNotFoundError:
            if not rel:
                raise
        parent, _, name = rel.rpartition("/")
        above = self._made(parent)
        try:
            os.mkdir(name, 0o755, dir_fd=above)
            os.chmod(name, 0o755, dir_fd=above)  # noqa: S103 - others read what is for them, whatever this process's umask is
        except FileExistsError:
            pass  # somebody was faster, or it is a link to nothing, which the next line says
        finally:
            os.close(above)
        return self._open(rel, PLACE)

    def names(self, rel: str) -> list[str]:
        """The sorted names in a directory; none when it does not exist."""
        try:
            fd = self._open(rel, LIST)
            try:
                return sorted(os.listdir(fd))
            finally:
                os.close(fd)
        except OSError as error:
            if error.errno in ABSENT:
                return []
            raise self.failed("read", rel, error) from error

    def link(self, rel: str) -> str | None:
        """The text of a link's target; None when there is nothing there or it is no link."""
        _check(rel)
        try:
            if not self._prefix:
                return os.readlink(f"/{rel}")
            parent, _, name = rel.rpartition("/")
            fd = self._open(parent, PLACE)
            try:
                return os.readlink(name, dir_fd=fd)
            finally:
                os.close(fd)
        except OSError as error:
            if error.errno in (*ABSENT, errno.EINVAL):
                return None
            raise self.failed("read", rel, error) from error

    def link_name(self, rel: str) -> str | None:
        """The last part of a link's target (``nvidia`` for ``../../bus/pci/drivers/nvidia``); None as for :meth:`link`."""
        target = self.link(rel)
        return None if target is None else target.rpartition("/")[2]

    def exists(self, rel: str) -> bool:
        """Whether there is a file or directory of this name, links followed."""
        try:
            os.close(self._open(rel, os.O_PATH | os.O_CLOEXEC))
        except OSError as error:
            if error.errno in ABSENT:
                return False
            raise self.failed("read", rel, error) from error
        return True

    def is_taken(self, rel: str) -> bool | None:
        """Whether somebody has a device node open that the kernel lets one open at a time (EBUSY). If nobody has, it is open for a moment.

        None when it cannot be told so: no such device, no right to open it, or this is a tree of files.
        """
        _check(rel)
        if self._prefix:
            return None
        try:
            fd = os.open(f"/{rel}", _TRY)
        except OSError as error:
            return True if error.errno == errno.EBUSY else None
        try:
            return False if stat.S_ISCHR(os.fstat(fd).st_mode) else None
        finally:
            os.close(fd)

    def run(self, argv: Sequence[str], seconds: float) -> Ran:
        """Run one of the machine's own tools (:func:`cantle.kernel.tools.run`).

        :raises HostError: ``tool-not-run``; a tree of files has none.
        """
        if self._prefix:
            raise HostError(
                "tool-not-run", f"{self.path} is a tree of files, and only the machine itself can run {argv[0]}"
            )
        return tools.run(argv, seconds)

    def talk(self, argv: Sequence[str]) -> Talk:
        """Start one of the machine's own tools and read what it says as it says it (:class:`cantle.kernel.tools.Talk`).

        :raises HostError: ``tool-not-run``; a tree of files has none.
        """
        if self._prefix:
            raise HostError(
                "tool-not-run", f"{self.path} is a tree of files, and only the machine itself can run {argv[0]}"
            )
        return Talk(argv)

    def directory(self, rel: str) -> Directory:
        """One directory, held open to read many of its files. Use it as a context manager.

        :raises HostError: ``host-read-failed``, with errno ENOENT when it does not exist.
        """
        try:
            return Directory(rel, self._open(rel, PLACE))
        except OSError as error:
            raise self.failed("read", rel, error) from error

    def directory_or_none(self, rel: str) -> Directory | None:
        """Like :meth:`directory`, but None when it does not exist."""
        try:
            return self.directory(rel)
        except HostError as error:
            if error.errno in ABSENT:
                return None
            raise

    def host_path(self, rel: str) -> str:
        """The path as a person on that host would write it, for messages: ``/sys/...`` whatever the root."""
        return f"/{rel}"

    def failed(self, verb: str, rel: str, error: OSError) -> HostError:
        """The kernel's answer as our error. ``verb`` is ``read`` or ``write``."""
        return failed(verb, rel, error)

    def _open(self, rel: str, flags: int) -> int:
        """Open below the root.

        The kernel walks the path and tells where it arrived. Only if that is outside or nowhere do we walk it by ourselves, which
        takes ten times as long.
        """
        _check(rel)
        if not self._prefix:
            return os.open(f"/{rel}", flags)
        try:
            fd = os.open(f"{self._prefix}/{rel}", flags)
        except OSError as error:
            if error.errno not in (*ABSENT, errno.ELOOP):
                raise
        else:
            if self._is_inside(fd):
                return fd
            os.close(fd)
        return os.open(self._resolve(rel), flags | os.O_NOFOLLOW)

    def _is_inside(self, fd: int) -> bool:
        try:
            place = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            return False
        return place.startswith(f"{self._prefix}/") or place == self._prefix

    def _resolve(self, rel: str) -> str:
        """The place of ``rel`` on this machine, free of links. What does not exist is left for the caller to find out."""
        todo = rel.split("/")[::-1]
        done: list[str] = []
        links = 0
        while todo:
            part = todo.pop()
            if part == "..":
                del done[-1:]
            elif part not in ("", "."):
                try:
                    target = os.readlink("/".join((self._prefix, *done, part)))
                except OSError:
                    done.append(part)
                    continue
                links += 1
                if links > _MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                if target.startswith("/"):
                    done.clear()
                todo += target.split("/")[::-1]
        return "/".join((self._prefix, *done))


def _check(rel: str) -> None:
    if rel.startswith("/") or "\0" in rel or (".." in rel and ".." in rel.split("/")):
        raise HostError("host-path-refused", f"{rel!r} is not a path below the host's root", path=rel)
