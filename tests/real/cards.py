"""A host with cards that are not there: PCI functions with render nodes, laid over this machine's own in a mount namespace.

What stands behind a node is a character device that every kernel has. All else is this machine's: processes, cgroups, containers. It has no
IOMMU then, so its cards go to containers.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from cantle.kernel.char_device import Node

_FUNCTIONS = Path("/sys/bus/pci/devices")
_NODES = Path("/dev/dri")

#: Everything that is laid over the machine goes with the namespace.
_LAID = """
set -e
mount -t tmpfs none /sys/bus/pci/devices
mkdir -p /dev/dri
mount -t tmpfs none /dev/dri
exec "$@"
"""


def laid(argv: Sequence[str]) -> list[str]:
    """The command that runs this one where cards can be laid. It needs a mount namespace of its own around it."""
    return ["sh", "-c", _LAID, "sh", *argv]


class Card:
    """One card, on the driver amdgpu, with a render node.

    :param bus: of its address: ``c1`` for ``0000:c1:00.0``.
    :param number: of its render node, 128 and more.
    :param likeness: the device that its node opens.
    """

    def __init__(self, bus: str, number: int, likeness: str) -> None:
        self.address = f"0000:{bus}:00.0"
        self._render = f"renderD{number}"
        self._place = _FUNCTIONS / self.address
        self._place.mkdir()
        ids = {"CLASS": "120000", "ID": "1002:74A1", "SUBSYS_ID": "1002:74A1"}
        (self._place / "uevent").write_text("".join(f"PCI_{key}={value}\n" for key, value in ids.items()))
        (self._place / "numa_node").write_text("-1\n")
        (self._place / "driver").symlink_to("../../drivers/amdgpu")
        self.becomes(likeness)

    def becomes(self, likeness: str) -> None:
        """Its node has another number from now on, as after its driver was loaded anew."""
        number = os.stat(likeness).st_rdev
        self.node = Node(f"{_NODES}/{self._render}", os.major(number), os.minor(number))
        place = self._place / "drm" / self._render
        place.mkdir(parents=True, exist_ok=True)
        (place / "dev").write_text(f"{self.node.major}:{self.node.minor}\n")
        Path(self.node.path).unlink(missing_ok=True)
        os.mknod(self.node.path, stat.S_IFCHR | 0o666, number)
        os.chmod(self.node.path, 0o666)  # noqa: S103 - as NVIDIA's are; the umask took it away
