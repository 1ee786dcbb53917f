"""NVIDIA GPUs (spec S0)."""

from __future__ import annotations

from types import MappingProxyType

from cantle.drivers import mig
from cantle.drivers.driver import HostView
from cantle.drivers.gpu import GpuDriver
from cantle.kernel import nvidia
from cantle.kernel.mdev import MdevType
from cantle.model import classify, isolation
from cantle.model.isolation import Isolation
from cantle.model.kind import PER_GUEST_LABEL
from cantle.model.pci import PciFunction
from cantle.wire.inventory import DeviceReport


class NvidiaDriver(GpuDriver):
    """Tesla, RTX, GeForce and whatever else has NVIDIA's display classes; cut into vGPUs by NVIDIA's host driver."""

    name = "nvidia"
    vendor = classify.NVIDIA
    native = ("nvidia",)
    type_words = frozenset({"nvidia"})
    # Most types allow one vGPU of a card in a guest, and the driver refuses the start of a guest with two (vGPU User Guide, "Multiple
    # vGPU Support", lists those that allow more).
    slice_labels = MappingProxyType({PER_GUEST_LABEL: "1"})

    def isolation_of(self, offer: MdevType) -> Isolation:
        """By the type's name, which says whether it is a MIG instance's."""
        return isolation.of_nvidia_type(offer.name)

    def _cut_otherwise(self, host: HostView, function: PciFunction) -> DeviceReport | None:
        """In MIG slices, unless it is lent whole."""
        lent = host.lent(str(function.address))
        slices = nvidia.mig_slices(host.root, function.address) if function.driver in self.native else []
        if not slices or any("gpu_instance" not in handle.attach_info for handle in lent):
            return None
        return mig.report(host, function, slices)
