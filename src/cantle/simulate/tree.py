"""The files of a simulated host below one directory, and changing single ones as the kernel does: seen whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil


class Tree:
    """The files below one directory. Paths are relative."""

    def __init__(self, path: str) -> None:
        self.path = path

    def place(self, rel: str) -> str:
        """Where a file lies on this machine."""
        return os.path.join(self.path, rel)

    def put(self, rel: str, text: str, mode: int = 0o444) -> None:
        """Make or change a file; a newline is added, as the kernel's files have one. A change is seen whole or not at all."""
        place = self.place(rel)
        data = f"{text}\n".encode() if text else b""
        try:
            self._write(place, data, mode)
        except FileExistsError:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{place}.new")  # of a process that was killed here
            self._write(f"{place}.new", data, mode)
            os.replace(f"{place}.new", place)

    def put_bytes(self, rel: str, data: bytes) -> None:
        """Make a file of these bytes and no newline."""
        self._write(self.place(rel), data, 0o444)

    def link(self, rel: str, target: str) -> None:
        """Make a link, relative as the kernel's are, to another path of the tree."""
        place = self.place(rel)
        text = os.path.relpath(target, os.path.dirname(rel))
        try:
            os.symlink(text, place)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.symlink(text, place)

    def _write(self, place: str, data: bytes, mode: int) -> None:
        """A new file. Few system calls, since a host has hundreds of them."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            fd = os.open(place, flags, mode)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            fd = os.open(place, flags, mode)
        try:
            if data:
                os.write(fd, data)
        finally:
            os.close(fd)

    def directory(self, rel: str) -> None:
        """Make a directory and those above it."""
        os.makedirs(self.place(rel), exist_ok=True)

    def read(self, rel: str) -> str:
        """A file's text without its newline; "" when there is none."""
        try:
            with open(self.place(rel), encoding="utf-8") as file:
                return file.read().removesuffix("\n")
        except FileNotFoundError:
            return ""

    def names(self, rel: str) -> list[str]:
        """The sorted names in a directory; none when it does not exist."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return sorted(os.listdir(self.place(rel)))
        return []

    def target(self, rel: str) -> str:
        """The last part of a link's target; "" when there is no link."""
        try:
            return os.path.basename(os.readlink(self.place(rel)))
        except OSError:
            return ""

    def exists(self, rel: str) -> bool:
        """Whether there is a file, directory or link of this name."""
        return os.path.lexists(self.place(rel))

    def remove(self, rel: str) -> None:
        """Remove a file, a link, or a directory with all in it; nothing happens when it is not there."""
        place = self.place(rel)
        if os.path.isdir(place) and not os.path.islink(place):
            shutil.rmtree(place)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(place)
