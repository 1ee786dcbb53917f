"""One host between Cantle's wishes and a real Placement, without a database: what the keeper does, in a few lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from tests.placement_service import Placement

from cantle.errors import CantleError
from cantle.model.provider import Node, Record
from cantle.placement.client import PlacementClient
from cantle.placement.sync import Sync
from cantle.placement.tree import HostTree, Outcome
from cantle.placement.wanted import Part, Rules, wanted

T4_2B = "CUSTOM_NVIDIA_1EB8_T4_2B"


def t4(number: int = 0, **how: Any) -> Part:
    """The card of the seed's example (spec S0.9), cut into four."""
    name = f"compute-1_0000:a{number:x}:00.0"
    values = {"resource_class": "VGPU", "traits": frozenset({"OWNER_CYBORG", T4_2B}), "offered": 4, **how}
    return Part(str(uuid4()), name, **values)


def whole(number: int = 0, **how: Any) -> Part:
    """A card that is lent whole."""
    traits = frozenset({"OWNER_CYBORG", "CUSTOM_NVIDIA_20B0"})
    return t4(number, **{"resource_class": "PGPU", "traits": traits, "offered": 1, **how})


class Book:
    """Records in memory."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}

    def take_root(self, root: Node) -> None:
        """As `cantle.placement.sync.Ledger`."""

    def keep(self, records: Sequence[Record]) -> None:
        """As `cantle.placement.sync.Ledger`."""
        self.records.update({record.uuid: record for record in records})

    def forget(self, uuids: Sequence[str]) -> None:
        """As `cantle.placement.sync.Ledger`."""
        for uuid in uuids:
            self.records.pop(uuid, None)


@dataclass
class World:
    """A compute node in Placement, and what Cantle wants below it."""

    placement: Placement
    hostname: str = "compute-1"
    parts: dict[str, Part] = field(default_factory=dict)
    rules: Rules = field(default_factory=Rules)
    book: Book = field(default_factory=Book)
    root: Node | None = None
    troubled: bool = False
    node: str = ""

    def __post_init__(self) -> None:
        self.node = self.node or self.compute_node()

    def compute_node(self, name: str | None = None) -> str:
        """What nova-compute makes; its uuid."""
        uuid = str(uuid4())
        self.placement.call("POST", "/resource_providers", {"name": name or self.hostname, "uuid": uuid})
        return uuid

    def has(self, *parts: Part) -> None:
        """The host has these parts, besides the others."""
        self.parts.update({part.uuid: part for part in parts})

    def becomes(self, part: Part, **how: Any) -> Part:
        """Something of a part changes."""
        self.parts[part.uuid] = replace(self.parts[part.uuid], **how)
        return self.parts[part.uuid]

    def tree(self, *, look: bool = False) -> HostTree:
        """What a `Sync` is given."""
        shall = wanted(self.parts.values(), self.book.records, self.rules)
        return HostTree(
            self.hostname, (self.hostname,), self.root, shall, dict(self.book.records), look or self.troubled
        )

    def sync(self, *, look: bool = False) -> Outcome:
        """One attempt; raises what ends it."""
        self.placement.faults.sent.clear()
        attempt = Sync(PlacementClient(self.placement.adapter()), self.tree(look=look), self.book)
        self.troubled = True
        outcome = attempt.run()
        self.root, self.troubled = outcome.root, bool(outcome.problems)
        return outcome

    def try_sync(self) -> None:
        """One attempt, whatever comes of it."""
        try:
            self.sync()
        except CantleError:
            return

    def settle(self) -> Outcome:
        """Attempts until there is nothing left to do; Placement is well again."""
        self.placement.faults.clear()
        for _ in range(6):
            outcome = self.sync(look=True)
            if not outcome.problems and not outcome.retiring and not outcome.written:
                return outcome
        raise AssertionError(f"it never settles: {outcome}")

    def there(self) -> dict[str, dict[str, Any]]:
        """What Placement has below the compute node: by name, class and inventory and traits."""
        nodes = self.placement.call("GET", f"/resource_providers?in_tree={self.node}")["resource_providers"]
        found = {}
        for node in nodes:
            if node["uuid"] != self.node:
                found[node["name"]] = self.shown(node["uuid"])
        return found

    def shown(self, uuid: str) -> dict[str, Any]:
        """One provider: by class (total, reserved, max_unit), and the traits."""
        path = f"/resource_providers/{uuid}"
        inventories = self.placement.call("GET", f"{path}/inventories")["inventories"]
        shown = {name: (one["total"], one["reserved"], one["max_unit"]) for name, one in inventories.items()}
        return {**shown, "traits": set(self.placement.call("GET", f"{path}/traits")["traits"])}

    def expected(self) -> dict[str, dict[str, Any]]:
        """What should be there when nobody but us was at it and nobody uses anything."""
        found = {}
        for one in wanted(self.parts.values(), {}, self.rules).values():
            if not one.gone:
                reserved = one.total if one.withheld else one.reserved
                found[one.name] = {
                    one.resource_class: (one.total, reserved, one.max_unit),
                    "traits": set(one.traits),
                }
        return found

    def allocate(self, part: Part, count: int = 1, resource_class: str | None = None) -> str:
        """An instance takes something of it, as Nova's scheduler does; its uuid."""
        instance = str(uuid4())
        body = {
            "allocations": {part.uuid: {"resources": {resource_class or part.resource_class: count}}},
            "project_id": str(uuid4()),
            "user_id": str(uuid4()),
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
        }
        self.placement.call("PUT", f"/allocations/{instance}", body)
        return instance

    def release(self, instance: str) -> None:
        """The instance is gone."""
        self.placement.call("DELETE", f"/allocations/{instance}")

    def operator_sets(self, part: Part, **fields: Any) -> None:
        """An operator changes fields of its inventory, with osc-placement say."""
        path = f"/resource_providers/{part.uuid}/inventories/{part.resource_class}"
        standing = self.placement.call("GET", path)
        self.placement.call("PUT", path, {**standing, **fields})
