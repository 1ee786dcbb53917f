"""Pools of free PCI devices, and whether requests fit into them together (spec S4.5, S4.6; reference section 1.4).

The rules are those of Nova's ``PciDeviceStats`` (``nova/pci/stats.py``), so that a host that passes here passes there: a pool per
plain device or physical function, the virtual functions of one physical function together; less specialised pools are used first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cantle.model.device_spec import PLACEMENT_TAGS
from cantle.model.numa import NumaPolicy, Sockets, allows, same_sockets

TYPE_PF = "type-PF"
TYPE_VDPA = "vdpa"
#: Types of which Nova says whether they are managed from afar, where a tag does not.
_NETWORK_TYPES = frozenset({"type-VF", TYPE_PF, TYPE_VDPA})

#: Keys of a spec that the scheduler does not match against pools: Placement has matched them.
_IGNORED = PLACEMENT_TAGS | {"rp_uuids"}


@dataclass(frozen=True, slots=True)
class PciDevice:
    """A device that may be given to guests. ``tags`` are those of the whitelist's entry that matched it.

    :param numa_node: None where the kernel does not know.
    :param parent: address of the physical function a virtual one belongs to.
    """

    address: str
    vendor_id: str
    product_id: str
    dev_type: str
    numa_node: int | None = None
    parent: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    rp_uuid: str | None = None

    def pool_keys(self) -> dict[str, str | int | None]:
        """The values that devices of one pool share."""
        keys: dict[str, str | int | None] = {
            "product_id": self.product_id,
            "vendor_id": self.vendor_id,
            "numa_node": self.numa_node,
            "dev_type": self.dev_type,
            **{key: value for key, value in self.tags.items() if key not in PLACEMENT_TAGS},
            "address": self.parent or self.address,
        }
        if self.dev_type in _NETWORK_TYPES:
            keys.setdefault("remote_managed", "false")
        return keys


@dataclass(slots=True)
class Pool:
    """Free devices that are alike: their common values, and their addresses in the order they came."""

    keys: dict[str, str | int | None]
    devices: list[str]
    rp_uuid: str | None = None

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.devices)


@dataclass(frozen=True, slots=True)
class PciRequest:
    """So many devices that match one of the specs, for one guest.

    :param rp_uuids: the providers that Placement has chosen, one entry a device; empty where it was not asked.
    """

    count: int
    specs: tuple[Mapping[str, str], ...]
    numa_policy: NumaPolicy | None = None
    rp_uuids: tuple[str, ...] = ()


@dataclass(slots=True)
class Pools:
    """The pools of one host."""

    pools: list[Pool] = field(default_factory=list)
    sockets: Sockets | None = None
    _of: dict[str, PciDevice] = field(default_factory=dict)

    @classmethod
    def of(cls, devices: Iterable[PciDevice], sockets: Sockets | None = None) -> Pools:
        """The pools that free devices make."""
        made = cls(sockets=sockets)
        for device in devices:
            made.add(device)
        return made

    def add(self, device: PciDevice) -> None:
        """A device is free."""
        keys = device.pool_keys()
        self._of[device.address] = device
        pool = next((pool for pool in self.pools if pool.keys == keys), None)
        if pool is None:
            pool = Pool(keys, [], device.rp_uuid)
            self.pools.append(pool)
            self.pools.sort(key=lambda one: len(one.keys))
        pool.devices.append(device.address)

    def remove(self, address: str) -> None:
        """A device is not free any more; no error for one that was not."""
        for pool in self.pools:
            if address in pool.devices:
                pool.devices.remove(address)
        self.pools = [pool for pool in self.pools if pool.devices]

    def support(self, requests: Sequence[PciRequest], numa_nodes: Collection[int] | None = None) -> bool:
        """Whether all requests fit together: each is served from what those before it have left."""
        trial = Pools([replace(pool, devices=list(pool.devices)) for pool in self.pools], self.sockets, dict(self._of))
        return all(trial._serve(request, numa_nodes) is not None for request in requests)

    def consume(
        self, requests: Sequence[PciRequest], numa_nodes: Collection[int] | None = None
    ) -> list[list[str]] | None:
        """Take the devices for all requests out of the pools: their addresses by request. None, and nothing taken, when they do not fit."""
        before = [replace(pool, devices=list(pool.devices)) for pool in self.pools]
        taken: list[list[str]] = []
        for request in requests:
            served = self._serve(request, numa_nodes)
            if served is None:
                self.pools = before
                return None
            taken.append(served)
        return taken

    def filtered(self, request: PciRequest, numa_nodes: Collection[int] | None = None) -> list[Pool] | None:
        """The pools a request may be served from, best first; None when there are too few devices in them.

        In Nova's order: spec, amount, NUMA, physical functions nobody asked for, vdpa, managed from afar, Placement's choice, live
        migration.
        """
        pools = [pool for pool in self.pools if any(_matches(pool, spec) for spec in request.specs)]
        if _count(pools) < request.count:
            return None
        pools = _of_nodes(pools, request, numa_nodes, self.sockets)
        if _count(pools) < request.count:
            return None
        pools = _unasked(pools, request)
        pools = _of_providers(pools, request)
        pools = _migratable(pools, request)
        return pools if _count(pools) >= request.count else None

    def _serve(self, request: PciRequest, numa_nodes: Collection[int] | None) -> list[str] | None:
        pools = self.filtered(request, numa_nodes)
        if not pools:
            return None
        taken: list[str] = []
        if request.rp_uuids:
            for pool in pools:
                taken += _tail(pool, request.rp_uuids.count(str(pool.rp_uuid)))
        else:
            for pool in pools:
                taken += _tail(pool, min(pool.count, request.count - len(taken)))
        self.pools = [pool for pool in self.pools if pool.devices]
        for address in taken:
            self._without_relatives(address)
        return taken

    def _without_relatives(self, address: str) -> None:
        """A physical function goes together with its virtual ones, a virtual one takes its physical one out of the pools."""
        device = self._of[address]
        if device.dev_type == TYPE_PF:
            for one in [other.address for other in self._of.values() if other.parent == address]:
                self.remove(one)
        elif device.parent is not None:
            self.remove(device.parent)


def _tail(pool: Pool, count: int) -> list[str]:
    return [pool.devices.pop() for _ in range(count)]


def _count(pools: Iterable[Pool]) -> int:
    return sum(pool.count for pool in pools)


def _matches(pool: Pool, spec: Mapping[str, str]) -> bool:
    """Whether every value of a spec is the pool's, in whatever case."""
    return all(_folded(pool.keys.get(key)) == value.lower() for key, value in spec.items() if key not in _IGNORED)


def _folded(value: str | int | None) -> str | int | None:
    return value.lower() if isinstance(value, str) else value


def _of_nodes(
    pools: list[Pool],
    request: PciRequest,
    nodes: Collection[int] | None,
    sockets: Sockets | None,
) -> list[Pool]:
    """Pools of the right NUMA nodes. The strictest set that is large enough is taken, whatever the policy would allow."""
    if not nodes:
        return pools
    policy = request.numa_policy or NumaPolicy.LEGACY
    strict = [pool for pool in pools if _on(pool, nodes, NumaPolicy.REQUIRED)]
    if policy is NumaPolicy.REQUIRED or _count(strict) >= request.count:
        return strict
    if policy is NumaPolicy.SOCKET:
        near = same_sockets(nodes, sockets)
        return [pool for pool in pools if pool.keys["numa_node"] in near]
    legacy = [pool for pool in pools if _on(pool, nodes, NumaPolicy.LEGACY)]
    if policy is NumaPolicy.LEGACY or _count(legacy) >= request.count:
        return legacy
    return sorted(pools, key=lambda pool: not _on(pool, nodes, NumaPolicy.LEGACY))


def _on(pool: Pool, nodes: Collection[int], policy: NumaPolicy) -> bool:
    node = pool.keys["numa_node"]
    return allows(policy, node if isinstance(node, int) else None, nodes)


def _unasked(pools: list[Pool], request: PciRequest) -> list[Pool]:
    """Without physical functions, vdpa devices and devices managed from afar, unless a spec asks for them."""
    for kind in (TYPE_PF, TYPE_VDPA):
        if all(spec.get("dev_type") != kind for spec in request.specs):
            pools = [pool for pool in pools if pool.keys["dev_type"] != kind]
    if all(spec.get("remote_managed") != "true" for spec in request.specs):
        pools = [pool for pool in pools if pool.keys.get("remote_managed") != "true"]
    return pools


def _of_providers(pools: list[Pool], request: PciRequest) -> list[Pool]:
    """Pools of the providers Placement chose, with as many devices as it took from each."""
    if not request.rp_uuids:
        return pools
    return [
        pool
        for pool in pools
        if pool.rp_uuid in request.rp_uuids and pool.count >= request.rp_uuids.count(str(pool.rp_uuid))
    ]


def _migratable(pools: list[Pool], request: PciRequest) -> list[Pool]:
    """Where all specs say the same of live migration, pools that say it too."""
    said = {spec.get("live_migratable") for spec in request.specs}
    if said in ({"true"}, {"false"}):
        return [pool for pool in pools if {pool.keys.get("live_migratable")} == said]
    return pools
