"""What a simulated host is made of: a small YAML file, checked in full before anything is built.

.. code-block:: yaml

   name: t4                        # also the name of its directory and host
   iommu: intel                    # intel, amd or none
   functions:                      # PCI functions, see Function
     - {address: "0000:af:00.0", vendor: "10de", device: "1eb8", class: "030200", driver: nvidia, iommu_group: 38}
   numa_nodes:                     # see MemoryNode
     - {number: 0, cpus: 8, socket: 0}
   parents:                        # mediated-device parents that are no PCI functions, see Parent
     - {name: mtty, path: virtual/mtty/mtty, mdev: {capacity: 24, types: [{id: mtty-1, name: Single port serial}]}}

The packaged ones lie in ``hosts/``.
"""

from __future__ import annotations

import os
import re
import stat
from functools import cache
from importlib import resources
from typing import Literal

import msgspec
import yaml

from cantle.errors import BadRequest
from cantle.model.pci import PciAddress

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
#: Of anything that becomes the name of a file.
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}")
_ID = re.compile(r"[0-9a-f]{4}")
_CLASS_ID = re.compile(r"[0-9a-f]{6}")
_PATH = re.compile(rf"virtual(/{_FILE_NAME.pattern})+")
#: More than any real host has; a larger file is a mistake.
_MAX_BYTES = 1 << 20
_MOST = 1023
#: Of MIG: NVIDIA's driver numbers them so.
_MOST_INSTANCES = 15


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all parts: a misspelt field is an error."""


class MdevTypeSpec(_Part, frozen=True):
    """A type a parent offers. ``size`` is what one instance takes of the parent's capacity; ``limit`` caps the number of its instances."""

    id: str
    name: str | None = None
    description: str | None = None
    device_api: str = "vfio-pci"
    size: int = 1
    limit: int | None = None


class MdevSpec(_Part, frozen=True):
    """How a parent lends slices of itself.

    :param capacity: in the unit of its types' sizes, e.g. MiB of frame buffer.
    :param one_type: whether its instances must all be of one type at a time, as NVIDIA's are.
    :param driver: the mdev driver its devices are bound to.
    """

    capacity: int
    types: tuple[MdevTypeSpec, ...]
    one_type: bool = False
    driver: str = "vfio_mdev"


class MigSlice(_Part, frozen=True):
    """A compute instance of a card in MIG mode. ``profile`` is that of its GPU instance: ``1g.5gb``."""

    gpu_instance: int
    compute_instance: int = 0
    profile: str = "1g.5gb"


class Function(_Part, frozen=True, rename={"class_id": "class"}):
    """A PCI function. Ids are hex digits without 0x.

    :param driver: what is bound to it after boot; None for nothing.
    :param drivers: what else on this host knows its ids.
    :param behind: address of the bridge it sits behind, another function of this host.
    :param mdev: what it offers while ``driver`` is bound to it.
    :param sriov_total: how many virtual functions it can have; its virtual functions are the functions that name it as ``physfn``.
    :param physfn: of a virtual function, the address of the one it belongs to.
    :param power_state: ``D0``, or ``D3cold`` for one that sleeps.
    :param resets: the methods by which it can be reset, best first; none for one that cannot be.
    :param config: the first bytes of its configuration space in hex; ``ffffffff`` for one that fell off the bus.
    :param mig: the slices that NVIDIA's driver has cut it into.
    :param serial: 16 hex digits that are this very card's: its Device Serial Number (in the place of ``config``), and what its driver
        says of it.
    """

    address: str
    vendor: str
    device: str
    class_id: str
    subsystem: str = "0000:0000"
    revision: str = "00"
    driver: str | None = None
    drivers: tuple[str, ...] = ()
    behind: str | None = None
    iommu_group: int | None = None
    numa_node: int = -1
    boot_vga: bool | None = None
    mdev: MdevSpec | None = None
    sriov_total: int | None = None
    physfn: str | None = None
    power_state: str = "D0"
    resets: tuple[str, ...] = ("flr", "bus")
    config: str | None = None
    serial: str | None = None
    mig: tuple[MigSlice, ...] = ()


class Parent(_Part, frozen=True):
    """A mediated-device parent that is no PCI function. ``path`` is below ``devices``: ``virtual/mtty/mtty``."""

    name: str
    path: str
    mdev: MdevSpec


class MemoryNode(_Part, frozen=True):
    """A NUMA node. ``cpus`` is how many CPUs it has, 0 for memory alone; ``socket`` is the one they are on, None where nobody knows."""

    number: int
    cpus: int = 4
    socket: int | None = None


class Description(_Part, frozen=True):
    """A whole host. ``modules`` are loaded kernel modules besides the drivers; ``cmdline`` is what the kernel was started with.

    :param numa_nodes: none: its kernel knows of no NUMA.
    :param loadable: modules that ``modprobe`` finds on it besides those.
    :param names: what its ``pci.ids`` says: a vendor's name by ``10de``, a device's by ``10de:1eb8``.
    """

    name: str
    summary: str = ""
    iommu: Literal["intel", "amd", "none"] = "none"
    cmdline: str = "quiet"
    modules: tuple[str, ...] = ()
    loadable: tuple[str, ...] = ()
    functions: tuple[Function, ...] = ()
    parents: tuple[Parent, ...] = ()
    numa_nodes: tuple[MemoryNode, ...] = ()
    names: dict[str, str] = {}

    def function(self, address: str) -> Function | None:
        """The function at an address in sysfs's form."""
        return next((one for one in self.functions if one.address == address), None)


def packaged() -> list[str]:
    """Names of the descriptions that come with Cantle."""
    entries = resources.files("cantle.simulate").joinpath("hosts").iterdir()
    return sorted(entry.name.removesuffix(".yaml") for entry in entries if entry.name.endswith(".yaml"))


def load(name_or_file: str) -> Description:
    """A packaged description by its name, or one from a file (anything with a ``/`` or a ``.`` in it is a file).

    :raises BadRequest: ``simulation-unknown``, ``simulation-unreadable`` or ``simulation-malformed``, naming file, field and mend.
    """
    if _NAME.fullmatch(name_or_file):
        if name_or_file not in packaged():
            raise BadRequest(
                "simulation-unknown",
                f"there is no simulated host {name_or_file!r}; there are {', '.join(packaged())}, or name a YAML file",
                name=name_or_file,
            )
        return _packaged(name_or_file)
    return parse(_read(name_or_file), name_or_file)


@cache
def _packaged(name: str) -> Description:
    """Read once: a description never changes, and its YAML takes as long to read as its host to lay out."""
    return parse(resources.files("cantle.simulate").joinpath("hosts", f"{name}.yaml").read_bytes(), name)


def parse(data: bytes, source: str) -> Description:
    """Check the text of a description. :raises BadRequest: ``simulation-malformed``."""
    try:
        described = msgspec.convert(yaml.safe_load(data), Description)
    except (yaml.YAMLError, msgspec.ValidationError, RecursionError, ValueError) as error:
        raise _malformed(source, " ".join(str(error).split())) from error
    _check(described, source)
    return described


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise _malformed(path, "it is no file but a directory, a pipe or a device")
            if status.st_size > _MAX_BYTES:
                raise _malformed(path, f"the file has more than {_MAX_BYTES} bytes")
            return file.read(_MAX_BYTES)
    except OSError as error:
        raise BadRequest(
            "simulation-unreadable", f"cannot read the simulated host {path!r}: {error.strerror}", path=path
        ) from error


def _without_waiting(path: str, flags: int) -> int:
    """Opening a named pipe would wait until somebody writes to it."""
    return os.open(path, flags | os.O_NONBLOCK)


def _check(described: Description, source: str) -> None:
    _require(_NAME, described.name, "name", source)
    for module in (*described.modules, *described.loadable):
        _require(_FILE_NAME, module, "modules", source)
    for key, words in described.names.items():
        _require(re.compile(rf"{_ID.pattern}(:{_ID.pattern})?"), key, "names", source)
        _require(re.compile(r"[ -~]{1,200}"), words, f"names: {key}", source)
    addresses = [_check_function(function, source) for function in described.functions]
    _distinct(addresses, "functions: address", source)
    for function in described.functions:
        if function.behind is not None and function.behind not in addresses:
            raise _malformed(source, f"functions: {function.address} is behind {function.behind}, which is not there")
        if function.iommu_group is not None and described.iommu == "none":
            raise _malformed(source, f"functions: {function.address} has an iommu_group, but iommu is none")
        if function.physfn is not None and function.physfn not in addresses:
            raise _malformed(source, f"functions: {function.address} belongs to {function.physfn}, which is not there")
        _check_no_loop(described, function, source)
    for parent in described.parents:
        _require(_FILE_NAME, parent.name, "parents: name", source)
        _require(_PATH, parent.path, f"parents: {parent.name}: path", source)
        _check_mdev(parent.mdev, f"parents: {parent.name}", source)
    _distinct([parent.name for parent in described.parents] + addresses, "parents: name", source)
    _distinct([parent.path for parent in described.parents], "parents: path", source)
    for one in described.numa_nodes:
        if not (0 <= one.number <= _MOST and 0 <= one.cpus <= _MOST and -1 < (one.socket or 0) <= _MOST):
            raise _malformed(source, f"numa_nodes: {one.number}: numbers from 0 to {_MOST} are possible")
    _distinct([str(one.number) for one in described.numa_nodes], "numa_nodes: number", source)


def _check_function(function: Function, source: str) -> str:
    where = f"functions: {function.address}"
    try:
        canonical = str(PciAddress.parse(function.address))
    except BadRequest as error:
        raise _malformed(source, f"{where}: {error.message}") from error
    if canonical != function.address:
        raise _malformed(source, f"{where}: write the address as {canonical}")
    _require(_ID, function.vendor, f"{where}: vendor", source)
    _require(_ID, function.device, f"{where}: device", source)
    _require(_CLASS_ID, function.class_id, f"{where}: class", source)
    _require(re.compile(rf"{_ID.pattern}:{_ID.pattern}"), function.subsystem, f"{where}: subsystem", source)
    _require(re.compile(r"[0-9a-f]{2}"), function.revision, f"{where}: revision", source)
    _require(re.compile(r"D[0-3](hot|cold)?"), function.power_state, f"{where}: power_state", source)
    _require(re.compile(r"([0-9a-f]{2})*"), function.config or "", f"{where}: config", source)
    _require(re.compile(r"([0-9a-f]{16})?"), function.serial or "", f"{where}: serial", source)
    for driver in (*function.drivers, *filter(None, [function.driver])):
        _require(_FILE_NAME, driver, f"{where}: driver", source)
    for one in function.mig:
        _require(re.compile(r"[0-9]+g\.[0-9]+gb([+-][a-z0-9.]+)*"), one.profile, f"{where}: mig: profile", source)
        if not (0 <= one.gpu_instance < _MOST_INSTANCES and 0 <= one.compute_instance < _MOST_INSTANCES):
            raise _malformed(source, f"{where}: mig: instances are numbered from 0 to {_MOST_INSTANCES - 1}")
    if function.mdev is not None:
        _check_mdev(function.mdev, where, source)
        if function.driver is None:
            raise _malformed(source, f"{where}: it has mdev types, so name the driver that offers them")
    return canonical


def _check_mdev(mdev: MdevSpec, where: str, source: str) -> None:
    _require(_FILE_NAME, mdev.driver, f"{where}: mdev: driver", source)
    for one in mdev.types:
        _require(_FILE_NAME, one.id, f"{where}: mdev: types: id", source)
        if one.size < 1:
            raise _malformed(source, f"{where}: mdev: {one.id}: size is {one.size}, it must be at least 1")
    _distinct([one.id for one in mdev.types], f"{where}: mdev: types: id", source)


def _check_no_loop(described: Description, function: Function, source: str) -> None:
    seen = {function.address}
    bridge = function.behind
    while bridge is not None:
        if bridge in seen:
            raise _malformed(source, f"functions: {function.address} is behind itself")
        seen.add(bridge)
        above = described.function(bridge)
        bridge = above.behind if above is not None else None


def _require(pattern: re.Pattern[str], text: str, field: str, source: str) -> None:
    if not pattern.fullmatch(text):
        raise _malformed(source, f"{field}: {text!r} does not match {pattern.pattern}")


def _distinct(names: list[str], field: str, source: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise _malformed(source, f"{field}: {', '.join(twice)} is there twice")


def _malformed(source: str, message: str) -> BadRequest:
    return BadRequest("simulation-malformed", f"the simulated host {source}: {message}", source=source)
