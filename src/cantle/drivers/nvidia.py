"""NVIDIA GPUs (spec S0)."""

from __future__ import annotations

from cantle.drivers.gpu import GpuDriver
from cantle.model import classify


class NvidiaDriver(GpuDriver):
    """Tesla, RTX, GeForce and whatever else has NVIDIA's display classes; cut into vGPUs by NVIDIA's host driver."""

    name = "nvidia"
    vendor = classify.NVIDIA
    native = ("nvidia",)
    type_words = frozenset({"nvidia"})
