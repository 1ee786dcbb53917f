"""AMD GPUs: Radeon with display classes, Instinct from MI300 on as processing accelerators [1200]."""

from __future__ import annotations

from cantle.drivers.gpu import GpuDriver
from cantle.model import classify


class AmdDriver(GpuDriver):
    """Lent whole. ``amdgpu`` offers no mediated types; should a driver do so, they are found as any other parent's."""

    name = "amd"
    vendor = classify.AMD
    native = ("amdgpu",)
    type_words = frozenset({"amdgpu"})
