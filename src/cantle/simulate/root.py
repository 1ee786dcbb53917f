"""A simulated host: a directory that is read like the kernel's files, and that reacts to writes as the kernel does.

The directory holds ``sys/``, ``proc/``, ``dev/`` and ``.simulated/`` (the description and a lock). It is the whole state: whoever opens
it again, in this process or another, finds what was there.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from cantle.errors import BadRequest, HostError
from cantle.kernel.root import Root
from cantle.kernel.tools import Ran
from cantle.simulate.description import Description
from cantle.simulate.layout import KERNEL_DIRECTORIES, VFIO_NODES, lay
from cantle.simulate.reactions import Kernel
from cantle.simulate.tree import Tree

_STATE = ".simulated"
_DESCRIPTION = f"{_STATE}/description.json"
_LOCK = f"{_STATE}/lock"


@dataclass(slots=True)
class Fault:
    """A write that will fail: the ``nth`` from now whose path ends in ``ending``."""

    error: int | Callable[[], object]
    ending: str
    nth: int
    after: bool


class SimulatedRoot(Root):
    """Root of a simulated host. Several threads and processes may use one directory; writes happen one at a time.

    :param path: a directory made by :func:`build`.
    :raises BadRequest: ``simulation-foreign`` when it is none.

    ``written`` lists the writes made through this object that the kernel took, as (path, text).
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)
        self._tree = Tree(self.path)
        self.kernel = Kernel(self._tree, _described(self.path))
        self.written: list[tuple[str, str]] = []
        self._faults: list[Fault] = []
        self._tool_faults: list[Ran | HostError] = []
        with self._locked():
            if not all(self._tree.exists(name) for name in KERNEL_DIRECTORIES):
                self._boot()  # whoever rebooted it was killed meanwhile
            self.kernel.settle()

    def write(self, rel: str, text: str) -> None:
        """As :meth:`cantle.kernel.root.Root.write`, and the simulated kernel reacts."""
        with self._locked():
            try:
                fault = self._due(rel)
                if fault is not None and not fault.after:
                    _fail(fault, rel)
                self.kernel.written(self._without_links(rel), text)
                self.written.append((rel, text))
                if fault is not None:
                    _fail(fault, rel)
            except OSError as error:
                raise self.failed("write", rel, error) from error

    def _without_links(self, rel: str) -> str:
        """The path by which the kernel knows a file, whatever links lead there."""
        place = os.path.realpath(self._tree.place(rel))
        if os.path.commonpath((place, self.path)) != self.path:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), place)
        return os.path.relpath(place, self.path)

    def fail(self, error: int | Callable[[], object], ending: str = "", *, nth: int = 1, after: bool = False) -> None:
        """Let one coming write fail, for tests.

        :param error: the errno the kernel answers, or what to call in its place (something that ends the process there, say).
        :param ending: counts only paths that end so; "" counts all.
        :param after: the kernel does its work first, and only then answers with the error.
        """
        self._faults.append(Fault(error, ending, nth, after))

    def run(self, argv: Sequence[str], seconds: float) -> Ran:  # noqa: ARG002 - nothing here takes any time
        """As :meth:`cantle.kernel.root.Root.run`, of the tools that a simulated host has: ``modprobe -- MODULE`` and ``nvidia-smi -i
        ADDRESS mig -lgi``."""
        if self._tool_faults:
            fault = self._tool_faults.pop(0)
            if isinstance(fault, HostError):
                raise fault
            return fault
        with self._locked():
            if argv[0] == "nvidia-smi":
                return self.kernel.nvidia_smi(argv[2])
            return self.kernel.modprobe(argv[-1])

    def fail_tool(self, fault: Ran | HostError) -> None:
        """Let the next tool that is run come to this, and do nothing."""
        self._tool_faults.append(fault)

    def hold(self, uuid_or_address: str, *, pid: int = 4242, command: str = "qemu-system-x86") -> None:
        """Let a process have the VFIO node of a mediated device or function open, as a running guest does."""
        group = self.kernel.group_of(uuid_or_address)
        if not group:
            raise BadRequest("simulation-no-group", f"{uuid_or_address} is in no IOMMU group, so nothing can hold it")
        with self._locked():
            self._tree.put(f"proc/{pid}/comm", command)
            self._tree.directory(f"proc/{pid}/fd")
            number = 3 + len(self._tree.names(f"proc/{pid}/fd"))
            os.symlink(f"/{VFIO_NODES}/{group}", self._tree.place(f"proc/{pid}/fd/{number}"))

    def let_go(self, pid: int = 4242) -> None:
        """End a process started by :meth:`hold`."""
        with self._locked():
            self._tree.remove(f"proc/{pid}")

    def unplug(self, address: str) -> None:
        """Pull a PCI function out. A reboot brings it back.

        :raises OSError: EBUSY while a process holds it, ENODEV when it is not there.
        """
        with self._locked():
            self.kernel.unplug(address)

    def reboot(self) -> None:
        """Forget what a reboot forgets: mediated devices, drivers chosen by hand, processes."""
        with self._locked():
            self._boot()

    def _boot(self) -> None:
        fresh = Tree(os.path.join(self.path, _STATE, "next"))
        fresh.remove("")
        lay(fresh, self.kernel.described)
        for name in KERNEL_DIRECTORIES:
            self._tree.remove(name)
        for name in KERNEL_DIRECTORIES:
            os.rename(fresh.place(name), self._tree.place(name))
        fresh.remove("")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            fd = os.open(os.path.join(self.path, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise HostError(
                "simulation-gone",
                f"the simulated host in {self.path} cannot be used any more: {error.strerror}; start again, and it is built anew",
                path=self.path,
                errno=error.errno,
            ) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def _due(self, rel: str) -> Fault | None:
        due = None
        for fault in list(self._faults):
            if rel.endswith(fault.ending):
                fault.nth -= 1
                if fault.nth == 0:
                    self._faults.remove(fault)
                    due = due or fault
        return due


def build(described: Description, directory: str | os.PathLike[str]) -> SimulatedRoot:
    """Make a host in a directory, or open the one that is there.

    A directory made from another description is made anew, as if the machine had been exchanged: nothing on it survives.

    :raises BadRequest: ``simulation-foreign`` when the directory holds something else; nothing was changed.
    :raises HostError: ``simulation-failed`` when it cannot be made (disk full, no right to write).
    """
    place = os.path.abspath(directory)
    try:
        if not _is_of(place, described):
            _replace(place, described)
    except OSError as error:
        raise HostError(
            "simulation-failed",
            f"cannot make the simulated host {described.name} in {place}: {error.strerror}",
            path=place,
            errno=error.errno,
        ) from error
    return SimulatedRoot(place)


def reboot(root: SimulatedRoot) -> None:
    """See :meth:`SimulatedRoot.reboot`."""
    root.reboot()


def _replace(place: str, described: Description) -> None:
    """Build beside the place and move there in the end: a process killed meanwhile leaves no half host in it."""
    os.makedirs(os.path.dirname(place), exist_ok=True)
    fresh = f"{place}.{secrets.token_hex(4)}.new"
    try:
        tree = Tree(fresh)
        lay(tree, described)
        tree.put(_DESCRIPTION, msgspec.json.encode(described).decode())
        if os.path.isdir(place):
            shutil.rmtree(place)
        os.rename(fresh, place)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _is_of(place: str, described: Description) -> bool:
    """Whether the directory is this very host. One that is another, or none yet, may be replaced; anything else raises."""
    if not os.path.isdir(place) or not os.listdir(place):
        return False
    try:
        return _described(place) == described
    except msgspec.DecodeError:
        return False  # written by another version


def _described(place: str) -> Description:
    """:raises msgspec.DecodeError: when it was written by another version."""
    try:
        with open(os.path.join(place, _DESCRIPTION), "rb") as file:
            return msgspec.json.decode(file.read(), type=Description)
    except FileNotFoundError as error:
        raise BadRequest(
            "simulation-foreign",
            f"{place} holds something that is no simulated host; name an empty or new directory",
            path=place,
        ) from error


def _fail(fault: Fault, rel: str) -> None:
    if callable(fault.error):
        fault.error()
    else:
        raise OSError(fault.error, os.strerror(fault.error), f"/{rel}")
