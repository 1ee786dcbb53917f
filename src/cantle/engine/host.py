"""Hosts: look up."""

from __future__ import annotations

from cantle.errors import NotFound
from cantle.model.host import Host
from cantle.model.page import Page
from cantle.store import host as store
from cantle.store.database import Database


def list_hosts(
    db: Database, *, hostname: str | None = None, up: bool | None = None, page: Page | None = None
) -> list[Host]:
    """Hosts an agent has reported for, by name unless the page says otherwise.

    :raises BadRequest: ``bad-sort-key``, ``marker-not-found``.
    """
    with db.read() as connection:
        return store.listed(connection, {"hostname": hostname}, up=up, page=page)


def get_host(db: Database, hostname: str) -> Host:
    """One host.

    :raises NotFound: ``host-not-found``.
    """
    with db.read() as connection:
        found = store.listed(connection, {"hostname": hostname})
    if not found:
        raise NotFound("host-not-found", f"There is no host {hostname}.", hostname=hostname)
    return found[0]
