"""Pools of free PCI devices (spec S4.5)."""

from __future__ import annotations

import logging

from sqlalchemy import Connection

from cantle.engine import absent
from cantle.model.pool_view import PoolView, views
from cantle.store import host, kind, offer
from cantle.store.database import Database

_log = logging.getLogger(__name__)


def list_pools(db: Database, *, hostname: str | None = None) -> list[PoolView]:
    """All pools, or those of one host; by host, vendor, product and NUMA node.

    :raises NotFound: ``host-not-found``.
    """
    with db.read() as connection:
        if hostname is not None and host.find(connection, hostname) is None:
            raise absent.host(hostname)
        return _pools(connection, hostname)


def log_pools(db: Database, hostname: str) -> None:
    """Put a host's pools into the log: its devices have changed."""
    if not _log.isEnabledFor(logging.INFO):
        return
    with db.read() as connection:
        found = _pools(connection, hostname)
    told = "; ".join(f"{one.count} x {one.vendor_id}:{one.product_id} {one.dev_type} {_where(one)}" for one in found)
    _log.info("pools of %s: %s", hostname, told or "none")


def _where(pool: PoolView) -> str:
    node = "on an unknown node" if pool.numa_node is None else f"on node {pool.numa_node}"
    return " ".join([node, *(f"{key}={value}" for key, value in pool.tags.items())])


def _pools(connection: Connection, hostname: str | None) -> list[PoolView]:
    given = [one for one in kind.all_kinds(connection) if one.dev_type]
    return [
        pool for name, offers in offer.by_host(connection, given, hostname=hostname) for pool in views(name, offers)
    ]
