"""What an agent must not forget: the last desired state of its host, and where the functions it took came from.

One file on the host's own disk, so that units are there again after a reboot with the server away. Written whole, flushed, then
moved into place: whenever the agent or the host dies, the old or the new state is there.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from cantle.agent import whole_file
from cantle.drivers.driver import Known
from cantle.errors import Conflict, HostError
from cantle.kernel.vfio import Original
from cantle.wire.work import WantedHandle, Work

VERSION = 1
_FILE = "desired.json"
_LOCK = "agent.lock"

_log = logging.getLogger(__name__)


class Desired(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The memory of an agent.

    :param work: the last desired state received; None before the first.
    :param taken: by address of a card that was given to vfio-pci: where its functions came from. Written before anything is touched,
        forgotten when all is given back. A card that is not here was never touched and is never given "back".
    :param known: by address, what each card was when it was last seen well.
    :param adopted: uuids of mediated devices that somebody else made and that we lend: they are kept when they are given back.
    :param leftovers: units we made ready once and that the server names no more: taken back once nobody holds them.
    :param frozen_at: see :mod:`cantle.agent.following`; 0 for a host that is not frozen.
    :param starts: how often an agent has started with this memory.
    :param guests: by uuid of a lent unit, the guest that had it last, in words.
    """

    work: Work | None = None
    taken: dict[str, tuple[Original, ...]] = {}
    known: dict[str, Known] = {}
    adopted: tuple[str, ...] = ()
    leftovers: tuple[WantedHandle, ...] = ()
    frozen_at: int = 0
    starts: int = 0
    guests: dict[str, str] = {}
    version: int = VERSION


class DesiredFile:
    """The file in the agent's state directory.

    :param directory: made with mode 0700 if it is not there.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = Path(directory)
        self._path = self._directory / _FILE

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Let no second agent use this directory meanwhile. The lock ends with the process, however that ends.

        :raises Conflict: ``agent-already-running``.
        :raises HostError: ``agent-state-unwritable``.
        """
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(self._directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise Conflict(
                    "agent-already-running",
                    f"another agent uses {self._directory}; stop it, or give this one its own directory",
                ) from error
            yield
        finally:
            os.close(fd)

    def load(self) -> Desired:
        """What was saved last. A file that cannot be understood is set aside beside it and told in the log: the server knows it all too.

        :raises HostError: ``agent-state-unreadable`` when there is a file that may not be read.
        """
        data = self._read()
        if data is None:
            return Desired()
        found, why = _understood(data)
        if found is not None:
            return found
        aside = self._path.with_suffix(".unusable")
        _log.error("%s cannot be used (%s); it is kept as %s and the server is asked anew", self._path, why, aside.name)
        with contextlib.suppress(OSError):
            self._path.replace(aside)
        return Desired()

    def look(self) -> Desired:
        """The same without setting anything aside: for whoever only wants to know.

        :raises HostError: ``agent-state-unreadable``.
        """
        data = self._read()
        found = _understood(data)[0] if data is not None else None
        return found or Desired()

    def _read(self) -> bytes | None:
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise HostError(
                "agent-state-unreadable",
                f"cannot read {self._path}: {error.strerror}; what was lent here before cannot be restored without it",
                path=str(self._path),
                errno=error.errno,
            ) from error

    def save(self, desired: Desired) -> None:
        """Replace what was saved. When this returns, it is on the disk.

        :raises HostError: ``agent-state-unwritable``; what was saved before is still there.
        """
        try:
            whole_file.replace(self._path, msgspec.json.encode(desired))
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> HostError:
        return HostError(
            "agent-state-unwritable",
            f"cannot write in {self._directory}: {error.strerror}; nothing is changed on the host until it is possible",
            path=str(self._directory),
            errno=error.errno,
        )


def _understood(data: bytes) -> tuple[Desired | None, str]:
    """What a file says, or why it cannot be used."""
    try:
        loaded = msgspec.json.decode(data, type=Desired)
    except msgspec.DecodeError as error:
        return None, str(error)
    if loaded.version != VERSION:
        return None, f"it has version {loaded.version}, this agent knows {VERSION}"
    return loaded, ""
