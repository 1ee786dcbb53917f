"""One directory of the kernel's files, held open to read many of them. :class:`cantle.kernel.root.Root` opens it."""

from __future__ import annotations

import errno
import os
from types import TracebackType

from cantle.errors import HostError

#: O_NONBLOCK, since a FIFO in a captured tree must not hang us.
READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
PLACE = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
#: The kernel's answers that mean: there is no such thing.
ABSENT = (errno.ENOENT, errno.ENOTDIR)
#: sysfs gives at most one page for an attribute.
_PAGE = 4096


class Directory:
    """The files of one directory, for loops over many: plain names, links in place of files refused. Failures as :class:`Root`'s."""

    __slots__ = ("_fd", "rel")

    def __init__(self, rel: str, fd: int) -> None:
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
        return None if data is None else decoded(data)

    def head_or_none(self, name: str, size: int) -> bytes | None:
        """At most the first ``size`` bytes, by a single read as sysfs wants it; None when there is no such file."""
        try:
            fd = os.open(name, READ | os.O_NOFOLLOW, dir_fd=self._fd)
            try:
                return os.read(fd, size)
            finally:
                os.close(fd)
        except OSError as error:
            if error.errno in ABSENT:
                return None
            raise failed("read", f"{self.rel}/{name}", error) from error

    def read_in_each(self, name: str) -> list[tuple[str, str]]:
        """The text of the file of this name in each directory of this one, by directory; those without it, and links, are left out."""
        fd = os.open(".", LIST, dir_fd=self._fd)
        try:
            with os.scandir(fd) as entries:
                places = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        finally:
            os.close(fd)
        found = ((place, self.read_or_none(f"{place}/{name}")) for place in places)
        return [(place, content) for place, content in found if content is not None]

    def has(self, name: str) -> bool:
        """Whether there is anything of this name, a dangling link included."""
        try:
            os.stat(name, dir_fd=self._fd, follow_symlinks=False)
        except OSError as error:
            if error.errno in ABSENT:
                return False
            raise failed("read", f"{self.rel}/{name}", error) from error
        return True

    def directory_or_none(self, name: str) -> Directory | None:
        """A directory in this one; None when there is none, or it is a link. Use it as a context manager."""
        rel = f"{self.rel}/{name}"
        try:
            return Directory(rel, os.open(name, PLACE | os.O_NOFOLLOW, dir_fd=self._fd))
        except OSError as error:
            if error.errno in ABSENT:
                return None
            raise failed("read", rel, error) from error

    def link_name(self, name: str) -> str | None:
        """The last part of a link's target; None when there is nothing of this name. Anything but a link is a failure."""
        try:
            return os.readlink(name, dir_fd=self._fd).rpartition("/")[2]
        except OSError as error:
            if error.errno in ABSENT:
                return None
            refusal = failed("read", f"{self.rel}/{name}", error)
            if error.errno != errno.EINVAL:
                raise refusal from error
            why = f"{refusal.path} is no link, as it is on a host; capture the tree with its links kept (tar, cp -a)"
            raise HostError(refusal.code, why, path=refusal.path, errno=error.errno) from error


def failed(verb: str, rel: str, error: OSError) -> HostError:
    """The kernel's answer about a path below a root as our error. ``verb`` is ``read`` or ``write``."""
    path = f"/{rel}"
    return HostError(f"host-{verb}-failed", f"cannot {verb} {path}: {error.strerror}", path=path, errno=error.errno)


def decoded(data: bytes) -> str:
    """What a file of the kernel's says, one trailing newline stripped. Bytes that are no UTF-8 become U+FFFD."""
    # tar pads sysfs files, whose size the kernel gives as 4096 whatever they hold, with zeros.
    data = data.rstrip(b"\0")
    return (data[:-1] if data.endswith(b"\n") else data).decode("utf-8", "replace")
