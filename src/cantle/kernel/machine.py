"""Which machine this is, and which boot of it."""

from __future__ import annotations

from cantle.errors import HostError
from cantle.kernel.root import Root

#: machine-id(5): made at installation, the same from boot to boot; copied with a disk image unless somebody sees to it.
_MACHINE = "etc/machine-id"
#: Made anew by the kernel at each boot (Documentation/admin-guide/sysctl/kernel.rst, "random").
_BOOT = "proc/sys/kernel/random/boot_id"


def machine_id(root: Root) -> str:
    """The machine's own id; "" where it has none (yet) or it cannot be read."""
    text = _text(root, _MACHINE)
    return "" if text == "uninitialized" else text


def boot_id(root: Root) -> str:
    """The kernel's id of this boot; "" where it cannot be read."""
    return _text(root, _BOOT)


def _text(root: Root, rel: str) -> str:
    try:
        return (root.read_or_none(rel) or "").strip()
    except HostError:
        return ""
