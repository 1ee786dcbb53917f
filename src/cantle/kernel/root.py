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
from types import TracebackType

from cantle.errors import BadRequest, HostError
from cantle.kernel import tools, whole_file
from cantle.kernel.tools import Ran

#: O_NONBLOCK, since a FIFO in a captured tree must not hang us.
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_WRITE = os.O_WRONLY | os.O_CLOEXEC
_TRY = os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
_PLACE = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
#: sysfs gives at most one page for an attribute.
_PAGE = 4096
_ABSENT = (errno.ENOENT, errno.ENOTDIR)
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
        return _text(self.read_bytes(rel))

    def read_or_none(self, rel: str) -> str | None:
        """Like :meth:`read`, but None when the file, or a directory on the way to it, does not exist."""
        try:
            return self.read(rel)
        except HostError as error:
            if error.errno in _ABSENT:
                return None
            raise

    def read_bytes(self, rel: str) -> bytes:
        """All bytes of a file."""
        try:
            fd = self._open(rel, _READ | self._nofollow)
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
            fd = self._open(parent, _PLACE)
            try:
                os.unlink(name, dir_fd=fd)
            finally:
                os.close(fd)
        except OSError as error:
            if error.errno not in _ABSENT:
                raise self.failed("write", rel, error) from error

    def replace(self, rel: str, data: bytes) -> None:
        """Replace a file whole, or make it (0644) with the directories above it: whenever the machine dies, the old or the new one is
        there. One that is there keeps its owner and mode. For files of the system's, as in ``etc``.

        :raises HostError: ``host-write-failed``, with ELOOP for a link in the file's place; what was there still is.
        """
        _check(rel)
        parent, _, name = rel.rpartition("/")
        try:
            fd = self._made(parent)
            try:
                whole_file.replace(fd, name, data)
            finally:
                os.close(fd)
        except OSError as error:
            raise self.failed("write", rel, error) from error

    def _made(self, rel: str) -> int:
        """A directory, made if it is not there, with those above it."""
        try:
            return self._open(rel, _PLACE)
        except FileNotFoundError:
            if not rel:
                raise
        parent, _, name = rel.rpartition("/")
        above = self._made(parent)
        try:
            os.mkdir(name, 0o755, dir_fd=above)
        except FileExistsError:
            pass  # somebody was faster, or it is a link to nothing, which the next line says
        finally:
            os.close(above)
        return self._open(rel, _PLACE)

    def names(self, rel: str) -> list[str]:
        """The sorted names in a directory; none when it does not exist."""
        try:
            fd = self._open(rel, _LIST)
            try:
                return sorted(os.listdir(fd))
            finally:
                os.close(fd)
        except OSError as error:
            if error.errno in _ABSENT:
                return []
            raise self.failed("read", rel, error) from error

    def link(self, rel: str) -> str | None:
        """The text of a link's target; None when there is nothing there or it is no link."""
        _check(rel)
        try:
            if not self._prefix:
                return os.readlink(f"/{rel}")
            parent, _, name = rel.rpartition("/")
            fd = self._open(parent, _PLACE)
            try:
                return os.readlink(name, dir_fd=fd)
            finally:
                os.close(fd)
        except OSError as error:
            if error.errno in (*_ABSENT, errno.EINVAL):
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
            if error.errno in _ABSENT:
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

    def directory(self, rel: str) -> Directory:
        """One directory, held open to read many of its files. Use it as a context manager.

        :raises HostError: ``host-read-failed``, with errno ENOENT when it does not exist.
        """
        try:
            return Directory(self, rel, self._open(rel, _PLACE))
        except OSError as error:
            raise self.failed("read", rel, error) from error

    def directory_or_none(self, rel: str) -> Directory | None:
        """Like :meth:`directory`, but None when it does not exist."""
        try:
            return self.directory(rel)
        except HostError as error:
            if error.errno in _ABSENT:
                return None
            raise

    def host_path(self, rel: str) -> str:
        """The path as a person on that host would write it, for messages: ``/sys/...`` whatever the root."""
        return f"/{rel}"

    def failed(self, verb: str, rel: str, error: OSError) -> HostError:
        """The kernel's answer as our error. ``verb`` is ``read`` or ``write``."""
        path = self.host_path(rel)
        return HostError(f"host-{verb}-failed", f"cannot {verb} {path}: {error.strerror}", path=path, errno=error.errno)

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
            if error.errno not in (*_ABSENT, errno.ELOOP):
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


class Directory:
    """The files of one directory, for loops over many: plain names, links in place of files refused. Failures as :class:`Root`'s."""

    __slots__ = ("_fd", "_root", "rel")

    def __init__(self, root: Root, rel: str, fd: int) -> None:
        self._root = root
        self._fd = fd
        self.rel = rel

    def __enter__(self) -> Directory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.close(self._fd)

    def read_or_none(self, name: str) -> str | None:
        """The text of an attribute, one trailing newline stripped; None when there is none."""
        data = self.head_or_none(name, _PAGE)
        return None if data is None else _text(data)

    def head_or_none(self, name: str, size: int) -> bytes | None:
        """At most the first ``size`` bytes, by a single read as sysfs wants it; None when there is no such file."""
        try:
            fd = os.open(name, _READ | os.O_NOFOLLOW, dir_fd=self._fd)
            try:
                return os.read(fd, size)
            finally:
                os.close(fd)
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise self._root.failed("read", f"{self.rel}/{name}", error) from error

    def read_in_each(self, name: str) -> list[tuple[str, str]]:
        """The text of the file of this name in each directory of this one, by directory; those without it, and links, are left out."""
        fd = os.open(".", _LIST, dir_fd=self._fd)
        try:
            with os.scandir(fd) as entries:
                places = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        finally:
            os.close(fd)
        found = ((place, self.read_or_none(f"{place}/{name}")) for place in places)
        return [(place, text) for place, text in found if text is not None]

    def has(self, name: str) -> bool:
        """Whether there is anything of this name, a dangling link included."""
        try:
            os.stat(name, dir_fd=self._fd, follow_symlinks=False)
        except OSError as error:
            if error.errno in _ABSENT:
                return False
            raise self._root.failed("read", f"{self.rel}/{name}", error) from error
        return True

    def directory_or_none(self, name: str) -> Directory | None:
        """A directory in this one; None when there is none, or it is a link. Use it as a context manager."""
        rel = f"{self.rel}/{name}"
        try:
            return Directory(self._root, rel, os.open(name, _PLACE | os.O_NOFOLLOW, dir_fd=self._fd))
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise self._root.failed("read", rel, error) from error

    def link_name(self, name: str) -> str | None:
        """The last part of a link's target; None when there is nothing of this name. Anything but a link is a failure."""
        try:
            return os.readlink(name, dir_fd=self._fd).rpartition("/")[2]
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            failed = self._root.failed("read", f"{self.rel}/{name}", error)
            if error.errno != errno.EINVAL:
                raise failed from error
            why = f"{failed.path} is no link, as it is on a host; capture the tree with its links kept (tar, cp -a)"
            raise HostError(failed.code, why, path=failed.path, errno=error.errno) from error


def _check(rel: str) -> None:
    if rel.startswith("/") or "\0" in rel or (".." in rel and ".." in rel.split("/")):
        raise HostError("host-path-refused", f"{rel!r} is not a path below the host's root", path=rel)


def _text(data: bytes) -> str:
    # tar pads sysfs files, whose size the kernel gives as 4096 whatever they hold, with zeros.
    data = data.rstrip(b"\0")
    return (data[:-1] if data.endswith(b"\n") else data).decode("utf-8", "replace")
