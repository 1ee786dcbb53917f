"""The kernel's files below a directory: ``/`` on a host, any other directory for a captured or simulated tree.

Every path is relative to the root and has no leading slash: ``sys/bus/pci/devices``. Links are resolved as if the root were ``/``
(as ``openat2`` does with ``RESOLVE_IN_ROOT``): an absolute link starts again at the root, and ``..`` stops there. So a
captured tree can never make us read, or a simulated one make us write, the machine we run on.
"""

from __future__ import annotations

import errno
import os

from cantle.errors import BadRequest, HostError

#: O_NONBLOCK, since a FIFO in a captured tree must not hang us.
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_WRITE = os.O_WRONLY | os.O_CLOEXEC
#: sysfs gives at most one page for an attribute.
_PAGE = 4096
_ABSENT = (errno.ENOENT, errno.ENOTDIR)
#: The kernel's own limit of links in one path (path_resolution(7)).
_MAX_LINKS = 40


class Root:
    """Reads and writes kernel files below one directory.

    All failures are :class:`~cantle.errors.HostError` with ``path`` as the host names it and ``errno``; codes
    ``host-read-failed``, ``host-write-failed`` and ``host-path-refused``. Holds no open files and no state: safe to share between threads.
    """

    def __init__(self, path: str | os.PathLike[str] = "/") -> None:
        """:raises BadRequest: ``bad-root`` when ``path`` is no directory."""
        self.path = os.path.realpath(path)
        if not os.path.isdir(self.path):
            raise BadRequest(
                "bad-root",
                f"{os.fspath(path)!r} is not a directory; name one that holds a sys/ directory",
                root=os.fspath(path),
            )
        self._prefix = "" if self.path == "/" else self.path

    def read(self, rel: str) -> str:
        """The text of a file, one trailing newline stripped. Bytes that are no UTF-8 become U+FFFD."""
        try:
            data = _read_all(self._locate(rel))
        except OSError as error:
            raise self._failed("read", rel, error) from error
        return _text(data)

    def read_or_none(self, rel: str) -> str | None:
        """Like :meth:`read`, but None when the file, or a directory on the way to it, does not exist."""
        try:
            data = _read_all(self._locate(rel))
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise self._failed("read", rel, error) from error
        return _text(data)

    def write(self, rel: str, text: str) -> None:
        """Hand ``text`` to the kernel in a single write to a file that exists already, as its attributes need it."""
        data = text.encode()
        try:
            fd = os.open(self._locate(rel), _WRITE)
            try:
                written = os.write(fd, data)
            finally:
                os.close(fd)
        except OSError as error:
            raise self._failed("write", rel, error) from error
        if written != len(data):
            raise HostError(
                "host-write-failed",
                f"{self.host_path(rel)} took only {written} of {len(data)} bytes of {text!r}",
                path=self.host_path(rel),
            )

    def names(self, rel: str) -> list[str]:
        """The sorted names in a directory; none when it does not exist."""
        try:
            return sorted(os.listdir(self._locate(rel)))
        except OSError as error:
            if error.errno in _ABSENT:
                return []
            raise self._failed("read", rel, error) from error

    def link(self, rel: str) -> str | None:
        """The text of a link's target; None when there is nothing there or it is no link."""
        parent, _, name = rel.rpartition("/")
        try:
            return os.readlink(f"{self._locate(parent)}/{name}")
        except OSError as error:
            if error.errno in (*_ABSENT, errno.EINVAL):
                return None
            raise self._failed("read", rel, error) from error

    def link_name(self, rel: str) -> str | None:
        """The last part of a link's target (``nvidia`` for ``../../bus/pci/drivers/nvidia``); None as for :meth:`link`."""
        target = self.link(rel)
        return target.rpartition("/")[2] if target is not None else None

    def exists(self, rel: str) -> bool:
        """Whether there is a file or directory of this name, links followed."""
        try:
            os.stat(self._locate(rel))
        except OSError as error:
            if error.errno in _ABSENT:
                return False
            raise self._failed("read", rel, error) from error
        return True

    def host_path(self, rel: str) -> str:
        """The path as a person on that host would write it, for messages: ``/sys/...`` whatever the root."""
        return f"/{rel}"

    def directory(self, rel: str) -> Directory:
        """One directory whose files are read many at a time: its links are resolved once."""
        try:
            return Directory(self, rel, self._locate(rel))
        except OSError as error:
            raise self._failed("read", rel, error) from error

    def _failed(self, verb: str, rel: str, error: OSError) -> HostError:
        path = self.host_path(rel)
        return HostError(f"host-{verb}-failed", f"cannot {verb} {path}: {error.strerror}", path=path, errno=error.errno)

    def _locate(self, rel: str) -> str:
        """The place of ``rel`` on this machine, free of links if the root is not ``/`` itself."""
        if rel.startswith("/") or ".." in rel.split("/") or "\0" in rel:
            raise HostError("host-path-refused", f"{rel!r} is no path below the host's root", path=rel)
        if not self._prefix:
            return f"/{rel}"
        return self._resolve(rel)

    def _resolve(self, rel: str) -> str:
        """Walk ``rel`` part by part, restarting at the root for absolute links. What does not exist is left for the caller to find out."""
        todo = rel.split("/")[::-1]
        done: list[str] = []
        links = 0
        while todo:
            part = todo.pop()
            if part in ("", "."):
                continue
            if part == "..":
                del done[-1:]
                continue
            try:
                target = os.readlink("/".join((self._prefix, *done, part)))
            except OSError:
                done.append(part)
                continue
            links += 1
            if links > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), rel)
            if target.startswith("/"):
                done.clear()
            todo += target.split("/")[::-1]
        return "/".join((self._prefix, *done))


class Directory:
    """The files of one directory, for loops over many: plain names, no links followed. Failures as those of :class:`Root`."""

    __slots__ = ("_place", "_root", "rel")

    def __init__(self, root: Root, rel: str, place: str) -> None:
        self._root = root
        self._place = place
        self.rel = rel

    def read_or_none(self, name: str) -> str | None:
        """The text of an attribute, one trailing newline stripped; None when there is none."""
        data = self.head_or_none(name, _PAGE)
        return None if data is None else _text(data)

    def head_or_none(self, name: str, size: int) -> bytes | None:
        """The first ``size`` bytes at most, in a single read; None when there is no such file."""
        try:
            fd = os.open(f"{self._place}/{name}", _READ)
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise self._failed(name, error) from error
        try:
            return os.read(fd, size)
        except OSError as error:
            raise self._failed(name, error) from error
        finally:
            os.close(fd)

    def link_name(self, name: str) -> str | None:
        """The last part of a link's target; None when there is nothing there or it is no link."""
        try:
            return os.readlink(f"{self._place}/{name}").rpartition("/")[2]
        except OSError as error:
            if error.errno in (*_ABSENT, errno.EINVAL):
                return None
            raise self._failed(name, error) from error

    def _failed(self, name: str, error: OSError) -> HostError:
        return self._root._failed("read", f"{self.rel}/{name}", error)


def _read_all(place: str) -> bytes:
    fd = os.open(place, _READ)
    try:
        chunks = []
        while chunk := os.read(fd, 1 << 16):
            chunks.append(chunk)
    finally:
        os.close(fd)
    return b"".join(chunks)


def _text(data: bytes) -> str:
    text = data.decode(errors="replace")
    return text[:-1] if text.endswith("\n") else text
