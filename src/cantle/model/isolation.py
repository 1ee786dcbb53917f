"""How a unit is kept apart from what other guests have of the same card. Drivers say it, as a label of the card; nothing is guessed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum

from cantle.model.device import Mode

#: The label that drivers say it by; configuration goes before, as with any label.
LABEL = "isolation"


class Isolation(StrEnum):
    """From the weakest to the strongest, which is how a lease of several units is told."""

    NONE = "none"
    """Others use the same at the same time. No driver of Cantle lends such; a label of configuration may say so."""
    UNKNOWN = "unknown"
    """Nobody who knows the hardware says it."""
    TIME = "time"
    """Memory of its own, and turns on what computes: who is next door is felt, and shares caches and the fate of the card."""
    HARDWARE = "hardware"
    """Nobody else has any of it: a whole card, or a part that the hardware itself keeps apart, memory and what computes."""


#: NVIDIA's types on MIG instances of Ampere and Hopper, one vGPU each: ``GRID A100-1-5C``, where ``GRID A100-5C`` is one of time. From
#: Blackwell on several may share an instance under such a name (NVIDIA vGPU User Guide, "Time-Sliced, MIG-Backed vGPUs").
_ON_INSTANCE = re.compile(r".*-[0-9]-[0-9]+[A-Z]+")
_ALONE_ON_IT = re.compile(r".*\b(?:A30|A100|A800|H20|H100|H200|H800|GH200)[A-Z]*-[0-9]-[0-9]+[A-Z]+")

#: Modes in which there is something to lend.
_LENT = frozenset({Mode.PASSTHROUGH, Mode.MDEV, Mode.VENDOR_VFIO, Mode.SRIOV, Mode.MIG})


def of_nvidia_type(name: str | None) -> Isolation:
    """Of a vGPU type by the name that the driver gives it; None where it gives none."""
    if not name:
        return Isolation.UNKNOWN
    if _ON_INSTANCE.fullmatch(name):
        return Isolation.HARDWARE if _ALONE_ON_IT.fullmatch(name) else Isolation.UNKNOWN
    return Isolation.TIME


def of_device(mode: str, labels: Mapping[str, str] | None) -> Isolation | None:
    """Of each unit of a device; None for one that is never lent."""
    if mode not in _LENT:
        return None
    said = (labels or {}).get(LABEL)
    return Isolation(said) if said in tuple(Isolation) else Isolation.UNKNOWN


def weakest(units: Iterable[Isolation | None]) -> Isolation | None:
    """Of a lease with these units; None while it has none."""
    known = [one for one in units if one is not None]
    return min(known, key=list(Isolation).index, default=None)
