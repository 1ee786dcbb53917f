"""NVIDIA cards that are cut into MIG slices (Multi-Instance GPU): each compute instance is lent to a container, with the nodes that open
it and no other.

Cantle does not cut: an operator, or mig-parted, does. Slices do not outlive a reboot on most cards; one that is gone is not offered.
"""

from __future__ import annotations

from collections import defaultdict

import msgspec

from cantle.drivers import cards
from cantle.drivers.driver import HostView
from cantle.drivers.slices import deployable_report
from cantle.errors import CantleError
from cantle.kernel import node, nvidia
from cantle.model import classify, isolation
from cantle.model.attach_handle import AttachType
from cantle.model.device import Health, Mode
from cantle.model.isolation import Isolation
from cantle.model.kind import CONTAINERS, GUESTS_LABEL
from cantle.model.naming import custom, device_traits, mdev_type_facts
from cantle.model.pci import PciFunction
from cantle.wire.inventory import DeviceReport, HandleReport

#: Of any slice; its size is a trait: ``CUSTOM_MIG_1G_5GB``.
RESOURCE_CLASS = custom("MIG")


def report(host: HostView, function: PciFunction, slices: list[tuple[int, int]]) -> DeviceReport:
    """A card with its slices: those of one profile are one deployable.

    :param slices: pairs of GPU instance and compute instance; at least one.
    """
    reasons = []
    try:
        profiles = nvidia.mig_profiles(host.root, function.address)
    except CantleError as error:
        profiles = {}
        reasons.append(f"the sizes of its slices are not known: {error.message}")
    offered: dict[str, list[HandleReport]] = defaultdict(list)
    for gpu_instance, compute_instance in slices:
        try:
            node.of_slice(host.root, function.address, gpu_instance, compute_instance)
        except CantleError as error:
            reasons.append(error.message)
            continue
        profile = profiles.get(gpu_instance, "")
        offered[profile].append(_handle(function, gpu_instance, compute_instance, profile))
    address = str(function.address)
    found = cards.report(
        host,
        function,
        Mode.MIG,
        health=Health.DEGRADED if reasons else Health.OK,
        reason="; ".join(dict.fromkeys(reasons)) or "its slices go to containers alone",
        capabilities=(Mode.PASSTHROUGH, Mode.MIG),
        deployables=tuple(
            deployable_report(
                host,
                f"{address}_{profile}" if profile else address,
                driver_name=classify.vendor_word(function.vendor_id),
                resource_class=RESOURCE_CLASS,
                traits=_traits(host, function, profile),
                handles=tuple(handles),
            )
            for profile, handles in sorted(offered.items())
        ),
    )
    return msgspec.structs.replace(found, labels={GUESTS_LABEL: CONTAINERS, isolation.LABEL: _isolation(slices)})


def _isolation(slices: list[tuple[int, int]]) -> Isolation:
    """GPU instances have memory, caches and engines of their own; compute instances of one share all but what computes (NVIDIA MIG User
    Guide, "Concepts"), for which there is no word here."""
    instances = [gpu_instance for gpu_instance, _ in slices]
    return Isolation.HARDWARE if len(set(instances)) == len(instances) else Isolation.UNKNOWN


def _handle(function: PciFunction, gpu_instance: int, compute_instance: int, profile: str) -> HandleReport:
    info = {
        **cards.place(function),
        "gpu_instance": str(gpu_instance),
        "compute_instance": str(compute_instance),
        **({"mig_profile": profile} if profile else {}),
    }
    return HandleReport(f"gi{gpu_instance}ci{compute_instance}", AttachType.NODES, info)


def _traits(host: HostView, function: PciFunction, profile: str) -> tuple[str, ...]:
    traits = device_traits(function.vendor_id, function.device_id)
    if profile:
        traits += (custom("MIG", profile),)
        traits += mdev_type_facts(profile) if host.enabled.type_facts else ()
    return traits
