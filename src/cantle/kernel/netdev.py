"""Network interfaces and the PCI functions they belong to (Documentation/ABI/testing/sysfs-class-net)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from cantle.errors import BadRequest
from cantle.kernel.root import Root
from cantle.model.pci import PciAddress

_INTERFACES = "sys/class/net"
#: What the kernel takes for a name (dev_valid_name()); nothing else may become part of a path.
_NAME = re.compile(r"(?!\.\.?$)[^/:\s\0]{1,15}")


def functions(root: Root, names: Iterable[str]) -> dict[str, str]:
    """The address of the PCI function of each of these interfaces, by name. Without those that are not there or are no PCI function's:
    while a guest has a function, or it is bound to vfio-pci, its interface is gone.

    :raises HostError: ``host-read-failed``.
    """
    found: dict[str, str] = {}
    for name in names:
        owner = root.link_name(f"{_INTERFACES}/{name}/device") if _NAME.fullmatch(name) else None
        try:
            found[name] = str(PciAddress.parse(owner or ""))
        except BadRequest:  # none, a virtual one, or one on another bus
            continue
    return found
