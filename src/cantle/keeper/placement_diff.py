"""What a host has in Placement beside what it shall have, and the writes between: read only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cantle.errors import CantleError
from cantle.keeper.placement_host import Settings, wanted_of
from cantle.model.provider import Inventory, Node, Provider, Record
from cantle.placement.difference import Create, Delete, Difference, Move, SetInventories, SetTraits, Step
from cantle.placement.exchange import ExchangeHeldUp
from cantle.placement.sync import Sync
from cantle.placement.tree import HostTree, Outcome, name_taken
from cantle.store import provider as store
from cantle.store import publication
from cantle.store.database import Database

if TYPE_CHECKING:
    from cantle.placement.client import PlacementClient  # needs an extra


@dataclass(frozen=True, slots=True)
class Line:
    """One provider of a host.

    :param there: what Placement has of it, in words; None for nothing.
    :param shall: what it shall have; None for nothing, or since it is not ours.
    :param writes: what would be written, in order.
    :param why: why it is held back, left alone or going away.
    :param trouble: it is not what it shall be, and nothing is written, for ``why``.
    """

    host: str
    provider: str
    uuid: str
    there: str | None
    shall: str | None
    writes: tuple[str, ...] = ()
    why: str | None = None
    trouble: bool = False


@dataclass(frozen=True, slots=True)
class ReadOnly:
    """`cantle.placement.sync.Ledger` for somebody who only asks."""

    db: Database
    host_id: int

    def take_root(self, root: Node) -> None:
        """Make sure that it is not another host's.

        :raises Conflict: ``provider-of-other-host``.
        """
        with self.db.read() as connection:
            store.check_root(connection, self.host_id, root)

    def keep(self, records: Sequence[Record]) -> None:
        """Never called: nothing is written."""
        raise AssertionError(records)

    def forget(self, uuids: Sequence[str]) -> None:
        """Never called: nothing is written."""
        raise AssertionError(uuids)


@dataclass(frozen=True, slots=True)
class HostDifference:
    """One host's tree.

    :param root: the compute node's provider; None if nothing is to be published and nothing is there.
    :param held_up: why cards do not move into a pool or out of it, though they shall: what follows from that is not written.
    """

    root: Node | None
    lines: Sequence[Line]
    held_up: CantleError | None = None

    @property
    def same(self) -> bool:
        """Whether all is as it shall be."""
        return not any(line.writes or line.trouble for line in self.lines)


def compare(db: Database, client: PlacementClient, settings: Settings, host_id: int, hostname: str) -> HostDifference:
    """Read a host's tree, and what would be written there now. Nothing is written anywhere.

    :raises NotFound: ``host-not-in-placement``.
    :raises Conflict: ``host-renamed``, ``provider-of-other-host``.
    :raises Unavailable: ``placement-away``.
    """
    with db.read() as connection:
        state = publication.state(connection, host_id)
    tree = wanted_of(db, host_id, hostname, state, settings, look=True, pure=True).tree
    if not tree.wanted:
        return HostDifference(tree.root, [])
    attempt = Sync(client, tree, ReadOnly(db, host_id))
    differences = attempt.plan()
    held_up = None
    try:
        attempt.trading(differences)
    except ExchangeHeldUp as error:
        held_up = error.error
    for uuid in _taken(client, tree, differences, attempt.outcome):
        del differences[uuid]
    lines = [*_ours(hostname, tree, differences, attempt.outcome), *_others(hostname, attempt.outcome)]
    return HostDifference(attempt.outcome.root, sorted(lines, key=lambda line: line.provider), held_up)


def _taken(
    client: PlacementClient, tree: HostTree, differences: Mapping[str, Difference], outcome: Outcome
) -> list[str]:
    """Of those that would be made, those whose name another provider has; each is a problem of the outcome then.

    Asked are those whose name is in the tree already, and those that we began to make before: of a new host, none.
    """
    there = {node.name for node in outcome.others or []}
    found = []
    for uuid, one in differences.items():
        name = tree.wanted[uuid].name
        if one.steps and isinstance(one.steps[0], Create) and (name in there or uuid in tree.records):
            error = name_taken(client, tree.hostname, name)
            if error is not None:
                outcome.problems[name] = error
                found.append(uuid)
    return found


def _ours(hostname: str, tree: HostTree, differences: Mapping[str, Difference], outcome: Outcome) -> Iterator[Line]:
    for uuid, one in tree.wanted.items():
        found = differences.get(uuid)
        if found is None:
            error = outcome.problems[one.name]
            yield Line(hostname, one.name, uuid, None, None, why=f"{error.code}: {error.message}", trouble=True)
            continue
        seen = found.before.seen
        there = None if seen is None else provider_words(seen)
        target = provider_after(found)
        writes = tuple(step_words(step) for step in found.steps)
        moves = (
            "its cards are offered by other providers from now on" if one.gone and uuid in tree.trade.heirs else None
        )
        held_back = moves or one.withheld or outcome.overlap.get(uuid) or _misplaced(found)
        shall_have = None if target is None else provider_words(target)
        yield Line(hostname, one.name, uuid, there, shall_have, writes, held_back)


def _misplaced(found: Difference) -> str | None:
    """That somebody gave it another parent."""
    seen = found.before.seen
    parents = [step.parent for step in found.steps if isinstance(step, Move)]
    return None if seen is None or not parents else f"it hangs below {seen.parent}, and belongs below {parents[0]}"


def _others(hostname: str, outcome: Outcome) -> Iterator[Line]:
    for node in outcome.others or []:
        yield Line(hostname, node.name, node.uuid, "not read", None, why="not ours")


def provider_after(found: Difference) -> Provider | None:
    """The provider as it is after the steps."""
    seen = found.before.seen
    provider = seen or Provider("", "", None, 0)
    for step in found.steps:
        if isinstance(step, Delete):
            return None
        if isinstance(step, SetTraits):
            provider = Provider(provider.uuid, provider.name, provider.parent, 0, provider.inventories, step.traits)
        if isinstance(step, SetInventories):
            provider = Provider(provider.uuid, provider.name, provider.parent, 0, step.inventories, provider.traits)
    return provider if seen is not None or found.steps else None


def provider_words(one: Provider) -> str:
    """A provider's inventories and traits in one line."""
    parts = [inventory_words(name, inventory) for name, inventory in sorted(one.inventories.items())]
    return "; ".join([*parts, " ".join(sorted(one.traits))]) if parts or one.traits else "empty"


def inventory_words(name: str, one: Inventory) -> str:
    """``VGPU 8, 2 reserved, 1 at most at once``; and what only an operator sets."""
    words = [f"{name} {one.total}"]
    words += [f"{one.reserved} reserved"] if one.reserved else []
    words += [f"{one.max_unit} at most at once"] if one.max_unit < one.total else []
    words += [f"{one.min_unit} at least at once"] if one.min_unit != 1 else []
    words += [f"in steps of {one.step_size}"] if one.step_size != 1 else []
    words += [f"ratio {one.allocation_ratio:g}"] if one.allocation_ratio != 1 else []
    return ", ".join(words)


def step_words(step: Step) -> str:
    """One write."""
    if isinstance(step, Create):
        return "create"
    if isinstance(step, Delete):
        return "delete"
    if isinstance(step, Move):
        return f"move below {step.parent}"
    if isinstance(step, SetTraits):
        return f"traits: {' '.join(sorted(step.traits))}"
    return "inventory: " + "; ".join(inventory_words(*pair) for pair in sorted(step.inventories.items()))
