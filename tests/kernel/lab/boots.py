"""The boots of one run. All tests of a boot share one start of the guest; a test says which by ``@pytest.mark.boot("name")``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Boot:
    """One start of the guest. ``kernel_arguments`` come on top of those every boot gets. ``nested``: it runs guests of its own."""

    name: str
    purpose: str
    kernel_arguments: tuple[str, ...] = ("intel_iommu=on", "iommu=pt")
    nested: bool = False


#: In the order in which they run. The disk at /keep lives through all of them; everything else of the guest is new each time.
BOOTS = (
    Boot("main", "the default of a test: everything that needs no reboot"),
    Boot("rebooted", "the same machine, started again: what was kept in /keep must be put back"),
    Boot("no-iommu", "the kernel was started without an IOMMU", kernel_arguments=("intel_iommu=off",)),
    Boot("nested", "cards are given to guests of libvirt in the guest", nested=True),
    Boot("nested-rebooted", "the same machine, started again: its guests must get their cards again", nested=True),
)
DEFAULT = BOOTS[0].name
