"""Intel GPUs: Flex and Max, lent whole; integrated ones up to the tenth generation, cut by GVT-g (drivers/gpu/drm/i915/gvt)."""

from __future__ import annotations

from cantle.drivers.gpu import GpuDriver
from cantle.model import classify


class IntelDriver(GpuDriver):
    """GVT-g's types are called ``i915-GVTg_V5_4`` and have no ``name`` file: their ids become their traits."""

    name = "intel"
    vendor = classify.INTEL
    native = ("i915", "xe")
    type_words = frozenset({"i915"})
