"""``/v1/pools``: free PCI devices, counted."""

from __future__ import annotations

import msgspec

from cantle.api.call import Call
from cantle.engine import pool as engine
from cantle.model.pool_view import PoolView


class PoolQuery(msgspec.Struct, frozen=True, kw_only=True):
    """``hostname``: this host only."""

    hostname: str | None = None


class Shape(msgspec.Struct, frozen=True):
    """A pool on the wire; the words are those of :class:`cantle.model.pool_view.PoolView`."""

    hostname: str
    vendor_id: str
    product_id: str
    numa_node: int | None
    dev_type: str
    tags: dict[str, str]
    count: int


class Listed(msgspec.Struct, frozen=True):
    """One entry per host, vendor, product, NUMA node, device type and tags."""

    pools: list[Shape]


def list_all(call: Call) -> Listed:
    """All of them, by host."""
    asked: PoolQuery = call.query
    return Listed([_shape(pool) for pool in engine.list_pools(call.db, hostname=asked.hostname)])


def _shape(pool: PoolView) -> Shape:
    return Shape(
        pool.hostname, pool.vendor_id, pool.product_id, pool.numa_node, pool.dev_type, dict(pool.tags), pool.count
    )
