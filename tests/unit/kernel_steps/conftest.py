"""Hosts for the tests of changes to a host."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.kernel_steps.pci_bus import PciBus


def lab(path: Path) -> PciBus:
    """A graphics card of four functions in one IOMMU group behind its port, and a network card and a disk in groups of their own."""
    bus = PciBus(path)
    bus.driver("vfio-pci")
    bus.driver("nvidia", "10de:1e04")
    bus.driver("nouveau", "10de:1e04")
    bus.driver("snd_hda_intel", "10de:10f7")
    bus.driver("xhci_hcd", "10de:1ad6")
    bus.driver("pcieport", "8086:1901")
    bus.driver("e1000e", "8086:10d3")
    bus.driver("nvme", "1b36:0010")
    bus.function("0000:00:01.0", "060400", "8086:1901", driver="pcieport", group=1)
    bus.function("0000:01:00.0", "030000", "10de:1e04", driver="nvidia", group=1)
    bus.function("0000:01:00.1", "040300", "10de:10f7", driver="snd_hda_intel", group=1)
    bus.function("0000:01:00.2", "0c0330", "10de:1ad6", driver="xhci_hcd", group=1)
    bus.function("0000:01:00.3", "0c8000", "10de:1ad7", group=1)
    bus.function("0000:02:00.0", "020000", "8086:10d3", driver="e1000e", group=2)
    bus.function("0000:03:00.0", "010802", "1b36:0010", driver="nvme", group=3)
    return bus


@pytest.fixture
def host(tmp_path: Path) -> PciBus:
    """See :func:`lab`."""
    return lab(tmp_path)
