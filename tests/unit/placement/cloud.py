"""Cantle's database and a real Placement with a keeper between them, which can be killed."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import msgspec
from sqlalchemy import event, select, update
from tests.placement_service import Placement
from tests.unit.engine.cloud import Host

from cantle.keeper.placement import Publisher
from cantle.keeper.placement_host import Settings
from cantle.placement.client import PlacementClient
from cantle.store.database import Database
from cantle.store.provider_tables import placement_hosts, placement_providers
from cantle.store.tables import hosts
from cantle.store.types import database_now


@dataclass
class Cloud:
    """Cantle's database, a compute node in Placement, and a keeper between them."""

    db: Database
    placement: Placement
    settings: Settings = field(default_factory=Settings)
    nodes: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.host = Host(self.db)
        self.compute_node("compute-1")

    def compute_node(self, name: str) -> str:
        """What nova-compute makes."""
        self.nodes[name] = str(uuid4())
        self.placement.call("POST", "/resource_providers", {"name": name, "uuid": self.nodes[name]})
        return self.nodes[name]

    def keeper(self, *, patient: bool = False) -> Publisher:
        """A keeper that has just started."""
        client = PlacementClient(self.placement.adapter())
        return Publisher(self.db, client, self.settings, stop=threading.Event(), patient=patient)

    def round(self) -> list[str]:
        """What one round of a keeper sends."""
        self.placement.faults.sent.clear()
        self.keeper().round()
        return [f"{one.method} {one.path}" for one in self.placement.faults.sent]

    def shown(self, node: str = "compute-1") -> dict[str, Any]:
        """By name and class, (total, reserved) of what is below a compute node."""
        found = {}
        for one in self.placement.call("GET", f"/resource_providers?in_tree={self.nodes[node]}")["resource_providers"]:
            if one["uuid"] != self.nodes[node]:
                path = f"/resource_providers/{one['uuid']}/inventories"
                for name, inventory in self.placement.call("GET", path)["inventories"].items():
                    found[f"{one['name']} {name}"] = (inventory["total"], inventory["reserved"])
        return found

    def states(self) -> list[Any]:
        """What is remembered of hosts."""
        with self.db.read() as connection:
            return list(connection.execute(select(placement_hosts).order_by(placement_hosts.c.hostname)))

    def time_passes(self, seconds: float = 3600) -> None:
        """Everything that waits for a time is due; devices are missing for longer. Hosts stay as heard from as they are."""
        with self.db.write() as connection:
            connection.execute(
                update(placement_hosts).values(
                    due_at=database_now(-1), looked_at=database_now(-seconds), claimed_until=database_now(-1)
                )
            )
            connection.execute(
                update(placement_providers)
                .where(placement_providers.c.missing_since.is_not(None))
                .values(missing_since=database_now(-seconds))
            )

    def silent(self, seconds: float) -> None:
        """The host was last heard from so long ago."""
        with self.db.write() as connection:
            connection.execute(update(hosts).values(last_seen=database_now(-seconds)))


AF = "compute-1_0000:af:00.0 VGPU"


def replace_offer(device: Any, *, address: str | None = None, keep: bool = False) -> Any:
    """The device with nothing to offer, or at another address with what it has."""
    changed = {} if keep else {"deployables": ()}
    return msgspec.structs.replace(device, **changed, **({"address": address} if address else {}))


class Killed(BaseException):
    """What SIGKILL is like from inside."""


@contextlib.contextmanager
def commits_up_to(db: Database, number: int) -> Iterator[None]:
    """The transaction of that number is never committed."""
    counted = iter(range(1, 1000))

    def die(_connection: object) -> None:
        if next(counted) == number:
            raise Killed

    event.listen(db._writer, "commit", die)
    try:
        yield
    finally:
        event.remove(db._writer, "commit", die)


def killed_at(cloud: Cloud, number: int) -> None:
    """A round of a keeper that is killed before its request of that number, and after the one before that, if it comes so far."""
    counted = iter(range(1, 1000))

    def die(_method: str, _path: str) -> None:
        if next(counted) == number:
            raise Killed

    cloud.placement.faults.before = die
    with contextlib.suppress(Killed):
        cloud.keeper().round()


def expected(cards: Any) -> dict[str, tuple[int, int]]:
    """What is shown of cards that are all in service."""
    return {
        f"{one.name} {one.resource_class}": (len(one.handles), 0)
        for card in cards
        for one in card.deployables
        if one.handles
    }
