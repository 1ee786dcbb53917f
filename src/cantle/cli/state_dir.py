"""The directory that holds everything a running Cantle remembers: database, agents' memory, simulated hosts."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from cantle import errors
from cantle.agent import whole_file

#: Bytes that must fit before anything is begun: enough for a new database.
ROOM = 1 << 20


def default() -> Path:
    """``/var/lib/cantle`` for root, else ``~/.local/state/cantle`` (XDG base directories)."""
    if os.geteuid() == 0:
        return Path("/var/lib/cantle")
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".local" / "state") / "cantle"


class StateDir:
    """The directory, held by this process alone until it ends; the kernel frees a killed holder's lock.

    :param path: made with mode 0700 if it is not there.
    :raises Conflict: ``state-dir-in-use``.
    :raises HostError: ``state-dir-unusable``, ``state-dir-full``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        try:
            made = not self.path.exists()
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _unusable(self.path, error) from error
        try:
            self._hold()
            self._check_room()
        except BaseException:
            os.close(self._lock)
            if made:
                self._unmake()
            raise

    def child(self, *names: str) -> Path:
        """A directory below, made if it is not there."""
        path = self.path.joinpath(*names)
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise _unusable(path, error) from error
        return path

    def write(self, name: str, text: str) -> None:
        """Write a file for this user alone, whole or not at all, and on the disk when this returns."""
        file = self.path / name
        try:
            whole_file.replace(file, text.encode())
        except OSError as error:
            raise _unusable(file, error) from error

    def close(self) -> None:
        """Let another process have it."""
        os.close(self._lock)

    def _hold(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(self._lock, 32).decode("ascii", "replace").strip()
            who = f"process {holder}" if holder.isdigit() else "another process"
            raise errors.Conflict(
                "state-dir-in-use",
                f"{self.path} is used by {who}, a running 'cantle serve'. Stop it, or give this one its own --state-dir.",
            ) from error

    def _check_room(self) -> None:
        """Find out now, before anything is begun, that the disk is full."""
        probe = self.path / "room"
        try:
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)
            with probe.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, ROOM)
        except OSError as error:
            raise _unusable(self.path, error) from error
        finally:
            probe.unlink(missing_ok=True)

    def _unmake(self) -> None:
        """Leave nothing of a start that did not happen."""
        (self.path / "lock").unlink(missing_ok=True)
        self.path.rmdir()


def _unusable(path: Path, error: OSError) -> errors.HostError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return errors.HostError(
            "state-dir-full",
            f"There is no room in {path} ({error.strerror}): {ROOM >> 20} MiB are needed to start. Make room, or "
            "name another place with --state-dir.",
            path=str(path),
            errno=error.errno,
        )
    if error.errno in (errno.EEXIST, errno.ENOTDIR):
        return errors.HostError(
            "state-dir-unusable",
            f"The state directory {path} is, or lies below, something that is no directory. Name another place with --state-dir.",
            path=str(path),
            errno=error.errno,
        )
    return errors.HostError(
        "state-dir-unusable",
        f"Cannot write in the state directory {path}: {error.strerror}. Change its owner or mode, or name another "
        "place with --state-dir.",
        path=str(path),
        errno=error.errno,
    )
