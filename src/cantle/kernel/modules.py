"""Kernel modules, as far as binding devices to drivers needs them. Nothing is ever loaded unless it was asked for."""

from __future__ import annotations

import re
import shutil
import subprocess

from cantle.errors import BadRequest, HostError
from cantle.kernel.root import Root

PCI_DRIVERS = "sys/bus/pci/drivers"

#: modprobe sits in sbin, which the PATH of services and ordinary users may lack.
_SEARCH = "/usr/sbin:/sbin:/usr/bin:/bin"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,55}")
_TAIL = 400


def driver_present(root: Root, driver: str) -> bool:
    """Whether the kernel has this PCI driver now: its module is loaded, or it is built in (then there is no module to see)."""
    return root.exists(f"{PCI_DRIVERS}/{driver}/bind")


def load(root: Root, module: str, *, seconds: float = 30) -> None:
    """Load a module with ``modprobe``; success when it is loaded already or built in.

    :raises BadRequest: ``bad-module-name``.
    :raises HostError: ``module-load-failed`` with the tool's own words; also when ``root`` is not this machine.
    """
    if _NAME.fullmatch(module) is None:
        raise BadRequest(
            "bad-module-name", f"{module!r} is no module name; write letters, digits, - and _", module=module
        )
    if root.path != "/":
        raise _failed(module, f"{root.path} is a tree of files, and only the machine itself can load modules")
    tool = shutil.which("modprobe", path=_SEARCH)
    if tool is None:
        raise _failed(module, f"there is no modprobe in {_SEARCH}; install kmod")
    try:
        done = subprocess.run(
            [tool, "--", module], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise _failed(module, f"modprobe did not end within {seconds:g} s") from error
    except OSError as error:
        raise _failed(module, f"{tool} does not run: {error.strerror}") from error
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip()[-_TAIL:] or "it said nothing"
        raise _failed(module, f"modprobe ended with {done.returncode}: {words}", exit_status=done.returncode)


def _failed(module: str, why: str, exit_status: int | None = None) -> HostError:
    return HostError(
        "module-load-failed", f"cannot load the module {module}: {why}", module=module, exit_status=exit_status
    )
