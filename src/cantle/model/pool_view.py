"""Free PCI devices of a host that are alike, for people (spec S4.5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cantle.model.offer import Offer
from cantle.model.pool import PciDevice, Pools

#: Keys that every pool has; all others are tags.
_PLAIN = ("vendor_id", "product_id", "numa_node", "dev_type", "address", "remote_managed")


@dataclass(frozen=True, slots=True)
class PoolView:
    """So many free devices of one vendor, product, NUMA node (None: unknown), device type and tags on a host."""

    hostname: str
    vendor_id: str
    product_id: str
    numa_node: int | None
    dev_type: str
    count: int
    tags: Mapping[str, str] = field(default_factory=dict)


def devices(offers: Iterable[Offer]) -> list[PciDevice]:
    """The free devices among what a host offers: one for each unit that is given to guests as it is."""
    return [
        PciDevice(
            address=offer.address if offer.kind.dev_type != "type-VF" else f"{offer.address}/{number}",
            vendor_id=offer.kind.vendor_id,
            product_id=offer.kind.product_id,
            dev_type=offer.kind.dev_type,
            numa_node=offer.numa_node,
            parent=offer.address if offer.kind.dev_type == "type-VF" else None,
            tags=offer.kind.labels,
        )
        for offer in offers
        if offer.kind.dev_type and offer.out_of_service is None
        for number in range(offer.free)
    ]


def views(hostname: str, offers: Iterable[Offer]) -> list[PoolView]:
    """The pools of a host, those of cards that differ by their address alone put together."""
    counts: Counter[tuple[str, str, int | None, str, tuple[tuple[str, str], ...]]] = Counter()
    for pool in Pools.of(devices(offers)).pools:
        keys = pool.keys
        node = keys["numa_node"]
        tags = tuple(sorted((key, str(value)) for key, value in keys.items() if key not in _PLAIN))
        plain = (str(keys["vendor_id"]), str(keys["product_id"]), node if isinstance(node, int) else None)
        counts[(*plain, str(keys["dev_type"]), tags)] += pool.count
    found = [
        PoolView(hostname, vendor, product, node, dev_type, count, dict(tags))
        for (vendor, product, node, dev_type, tags), count in counts.items()
    ]
    return sorted(
        found, key=lambda one: (one.vendor_id, one.product_id, -1 if one.numa_node is None else one.numa_node)
    )
