"""Intel GPUs: Flex and Max, lent whole; integrated ones up to the tenth generation, cut by GVT-g (drivers/gpu/drm/i915/gvt)."""

from __future__ import annotations

from cantle.drivers.gpu import GpuDriver
from cantle.kernel.mdev import MdevType
from cantle.model import classify
from cantle.model.isolation import Isolation
from cantle.model.naming import driver_word


class IntelDriver(GpuDriver):
    """GVT-g's types are called ``i915-GVTg_V5_4`` and have no ``name`` file: their ids become their traits."""

    name = "intel"
    vendor = classify.INTEL
    native = ("i915", "xe")
    type_words = frozenset({"i915"})

    def isolation_of(self, offer: MdevType) -> Isolation:
        """GVT-g parts memory and fences, and gives the engines to one after the other (drivers/gpu/drm/i915/gvt/sched_policy.c)."""
        return Isolation.TIME if driver_word(offer.type_id) in self.type_words else Isolation.UNKNOWN
