"""The windows of memory that a PCI function asks for: ``resource`` in its directory (Documentation/PCI/sysfs-pci.rst)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cantle.kernel import pci
from cantle.kernel.root import Root
from cantle.model.pci import PciAddress

#: The first six lines are the base address registers; after them come the ROM, bridges' windows and those of virtual functions.
_REGISTERS = 6
_LINE = re.compile(r"0x([0-9a-f]{1,16}) 0x([0-9a-f]{1,16}) 0x([0-9a-f]{1,16})")
#: Flags of linux/ioport.h: IORESOURCE_MEM_64, IORESOURCE_PREFETCH. Only windows with both may lie above 4 GiB behind a bridge.
_HIGH = 0x00100000 | 0x00002000


def high_windows(root: Root, address: PciAddress) -> Iterator[int]:
    """Bytes of each window of a function that may lie above 4 GiB. None where the host does not tell them."""
    text = root.read_or_none(f"{pci.DEVICES}/{address}/resource") or ""
    for line in text.split("\n")[:_REGISTERS]:
        match = _LINE.fullmatch(line)
        if match is not None:
            start, end, flags = (int(part, 16) for part in match.groups())
            if end > start and flags & _HIGH == _HIGH:
                yield end - start + 1
