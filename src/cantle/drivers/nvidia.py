"""NVIDIA GPUs (spec S0)."""

from __future__ import annotations

from types import MappingProxyType

from cantle.drivers.gpu import GpuDriver
from cantle.model import classify
from cantle.model.kind import PER_GUEST_LABEL


class NvidiaDriver(GpuDriver):
    """Tesla, RTX, GeForce and whatever else has NVIDIA's display classes; cut into vGPUs by NVIDIA's host driver."""

    name = "nvidia"
    vendor = classify.NVIDIA
    native = ("nvidia",)
    type_words = frozenset({"nvidia"})
    # Most types allow one vGPU of a card in a guest, and the driver refuses the start of a guest with two (vGPU User Guide, "Multiple
    # vGPU Support", lists those that allow more).
    slice_labels = MappingProxyType({PER_GUEST_LABEL: "1"})
