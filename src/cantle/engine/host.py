"""Hosts: look up."""

from __future__ import annotations

from cantle.model.host import Host
from cantle.store import host as store
from cantle.store.database import Database


def list_hosts(db: Database) -> list[Host]:
    """Every host an agent has reported for, by name."""
    with db.read() as connection:
        return store.all_hosts(connection)
