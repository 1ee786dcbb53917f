"""Kernel modules, as far as binding devices to drivers needs them. Nothing is ever loaded unless it was asked for."""

from __future__ import annotations

import re

from cantle.errors import BadRequest, HostError
from cantle.kernel.root import Root

PCI_DRIVERS = "sys/bus/pci/drivers"

_RELEASE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+~-]{0,99}")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,55}")


def driver_present(root: Root, driver: str) -> bool:
    """Whether the kernel has this PCI driver now: its module is loaded, or it is built in (then there is no module to see)."""
    return root.exists(f"{PCI_DRIVERS}/{driver}/bind")


def can_be_had(root: Root, module: str) -> bool | None:
    """Whether the kernel has this PCI driver, or a module of its name that ``modprobe`` would find; None where nobody knows: the lists
    of the running kernel's modules are not there, as in a container, a sandbox or a captured tree (depmod(8); Documentation/kbuild)."""
    if driver_present(root, module):
        return True
    place = f"lib/modules/{release(root)}"
    try:
        lists = [root.read_or_none(f"{place}/{name}") for name in ("modules.dep", "modules.builtin")]
    except HostError:
        return None
    if lists[0] is None:
        return None
    name = "[-_]".join(map(re.escape, re.split("[-_]", module)))
    file = re.compile(rf"/{name}\.ko(\.|:|$)", re.MULTILINE)
    return any(file.search(text) is not None for text in lists if text is not None)


def release(root: Root) -> str:
    """Of the running kernel, as ``uname -r`` says it; ``unknown`` where no file does."""
    text = root.read_or_none("proc/sys/kernel/osrelease") or ""
    return text if _RELEASE.fullmatch(text) else "unknown"


def load(root: Root, module: str, *, seconds: float = 30) -> None:
    """Load a module with ``modprobe``; success when it is loaded already or built in.

    :raises BadRequest: ``bad-module-name``.
    :raises HostError: ``module-load-failed`` with the tool's own words; also when ``root`` is a tree of files.
    """
    if _NAME.fullmatch(module) is None:
        raise BadRequest(
            "bad-module-name", f"{module!r} is no module name; write letters, digits, - and _", module=module
        )
    try:
        done = root.run(["modprobe", "--", module], seconds)
    except HostError as error:
        raise _failed(module, error.message) from error
    if done.status != 0:
        raise _failed(module, f"modprobe ended with {done.status}: {done.words or 'it said nothing'}", done.status)


def _failed(module: str, why: str, exit_status: int | None = None) -> HostError:
    return HostError(
        "module-load-failed", f"cannot load the module {module}: {why}", module=module, exit_status=exit_status
    )
