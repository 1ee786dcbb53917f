"""One host between the database and Placement: what it shall have there, read off the database; and what came of an attempt, in words."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection

from cantle.errors import CantleError
from cantle.keeper.placement_shape import Pools, Shape, shape
from cantle.model.device import Health
from cantle.model.device_spec import Candidate
from cantle.model.kind import for_containers
from cantle.model.pci import PciAddress
from cantle.model.provider import Node
from cantle.placement.overlap import NovaConf, lent, withheld
from cantle.placement.pool import Card, pooled
from cantle.placement.tree import HostTree, Outcome
from cantle.placement.wanted import Part, Rules, wanted
from cantle.store import provider as store
from cantle.store import provider_pool
from cantle.store.database import Database
from cantle.store.service import why_not
from cantle.store.types import Record as Row

#: Something to do in a transaction that holds the claim.
Work = Callable[[Connection], None]


@dataclass(frozen=True, slots=True)
class Settings:
    """What ``[placement]`` says.

    :param names: by host name, what its provider is called, where it has not the host's name.
    :param domain: what makes a short host name a qualified one; "" for nothing.
    :param pool_identical: whether interchangeable whole cards of a host are one provider.
    :param nova: nova.conf files of compute nodes, for what those lend by themselves.
    :param missing_grace_s: for how long a device that its host does not name any more is kept in Placement, all reserved.
    """

    rules: Rules = field(default_factory=Rules)
    names: Mapping[str, str] = field(default_factory=dict)
    domain: str = ""
    missing_grace_s: float = 86400.0
    pool_identical: bool = False
    nova: tuple[NovaConf, ...] = ()

    def names_of(self, hostname: str) -> tuple[str, ...]:
        """What the provider of a host may be called: what was said, else the qualified name, else the short one (LP 2139369)."""
        if hostname in self.names:
            return (self.names[hostname],)
        short = hostname.partition(".")[0]
        if short != hostname:
            return hostname, short
        return (f"{hostname}.{self.domain}", hostname) if self.domain else (hostname,)


@dataclass(frozen=True, slots=True)
class HostWork:
    """What a `Sync` needs.

    :param shape: which cards are offered as one.
    :param leaving: names of providers that wait for a lease of ours to end.
    """

    tree: HostTree
    shape: Shape
    leaving: Sequence[str] = ()


def wanted_of(
    db: Database,
    host_id: int,
    hostname: str,
    state: Row | None,
    settings: Settings,
    *,
    look: bool,
    pure: bool = False,
    keep_shape: bool = False,
) -> HostWork:
    """What a host shall have, as the database is now.

    :param state: its row of `placement_hosts`; None if nothing was ever published of it.
    :param pure: write nothing, for somebody who only asks.
    :param keep_shape: what is published as one stays so, and the other way round.
    """
    with db.read() as connection:
        rows = store.parts(connection, host_id)
        bound = store.bound(connection, host_id)
        remembered = store.records(connection, host_id, settings.missing_grace_s)
        standing = provider_pool.of_host(connection, host_id)
    cards = [_card(row, remembered, bound.get(row.id, {}), pooled_now=row.id in standing) for row in rows]
    formed = shape(cards, standing, remembered, pool=settings.pool_identical, keep=keep_shape)
    pools = formed.wanted
    if not pure:
        _mark_missing(db, rows, remembered)
    parts = pooled(hostname, cards, pools)
    records = {uuid: record for uuid, (record, _missing, _vanished) in remembered.items()}
    shall = wanted(parts, records, settings.rules)
    root = Node(state.root_uuid, state.root_name, None, 0) if state is not None and state.root_uuid else None
    addresses = {row.id: row.device_address for row in rows}
    placed = [(_published(card, pools), addresses[card.number]) for card in cards]
    by_file = _lent_by_files(settings, rows, placed)
    tree = HostTree(
        hostname,
        settings.names_of(hostname),
        root,
        shall,
        records,
        look,
        overlap={**(json.loads(state.notes) if state is not None and state.notes else {}), **by_file},
        collide=lambda found, theirs: {**withheld(placed, lent(found, theirs)), **by_file},
        trade=formed.trade,
    )
    leaving = [
        one.name for part in parts if (one := shall.get(part.uuid)) and not one.gone and part.lent > part.offered
    ]
    return HostWork(tree, formed, leaving)


def _lent_by_files(settings: Settings, rows: Sequence[Row], placed: Sequence[tuple[Part, str]]) -> dict[str, str]:
    """By provider uuid, what is held back for what nova.conf files say."""
    found: dict[str, str] = {}
    for nova in settings.nova:
        devices = [
            Candidate(row.vendor_id, row.product_id, PciAddress.parse(row.device_address))
            for row in rows
            if row.control_path_type == "PCI"
        ]
        found |= withheld(placed, nova.lends(devices))
    return found


def _mark_missing(db: Database, rows: Sequence[Row], remembered: Mapping[str, tuple[object, bool, bool]]) -> None:
    """Begin or end the grace of devices that went missing or came back. It runs by the database's clock."""
    gone = {row.rp_uuid for row in rows if row.health == Health.MISSING}
    begin = sorted(uuid for uuid, (_record, missing, _vanished) in remembered.items() if uuid in gone and not missing)
    end = sorted(uuid for uuid, (_record, missing, _vanished) in remembered.items() if uuid not in gone and missing)
    if begin or end:
        db.run(lambda connection: store.mark_missing(connection, begin, end))


def _card(
    row: Row, remembered: Mapping[str, tuple[object, bool, bool]], bound: Mapping[str, int], *, pooled_now: bool
) -> Card:
    """A row in the pure rules' words. A member of a pool has no grace of its own: missing, it is one unit reserved for as long. What is
    missing and not published any more is not published again before it is back."""
    over = remembered[row.rp_uuid][2] if row.rp_uuid in remembered else not pooled_now
    part = _part(row, vanished=row.health == Health.MISSING and over)
    return Card(row.id, part, row.mode, row.model, row.numa_node, bound)


def _published(card: Card, pools: Pools) -> Part:
    """The part under the uuid it is published under."""
    return replace(card.part, uuid=pools[card.number][0]) if card.number in pools else card.part


def _part(row: Row, *, vanished: bool) -> Part:
    return Part(
        uuid=row.rp_uuid,
        name=row.name,
        resource_class=row.resource_class,
        traits=frozenset(row.traits),
        offered=row.total,
        lent=row.used,
        held_back=row.held_back,
        out_of_service=why_not(row),
        vanished=vanished,
        # Nova's libvirt driver names the parent of a mediated device by a PCI address, and has no other way (openstack-stack, 3).
        attachable=row.control_path_type != "PARENT" and not for_containers(row.labels),
    )


@dataclass(frozen=True, slots=True)
class Published:
    """What came of an attempt.

    :param looked: the tree was read.
    :param error: what ended the attempt.
    :param leaving: providers that wait for a lease of ours to end.
    """

    outcome: Outcome
    looked: bool
    error: CantleError | None = None
    leaving: Sequence[str] = ()

    @property
    def first_error(self) -> CantleError | None:
        """What went wrong; of several, one."""
        return self.error or next(iter(self.outcome.problems.values()), None)

    @property
    def problem(self) -> str | None:
        """What went wrong, in words."""
        first, more = self.first_error, len(self.outcome.problems) - 1
        if first is None:
            return None
        return f"{first.message} And {more} more." if more > 0 else first.message

    @property
    def waiting(self) -> str | None:
        """What waits for somebody to let go of it, or for an operator."""
        names = sorted({*self.outcome.retiring, *self.leaving})
        retiring = [f"retiring: {', '.join(names)}"] if names else []
        return "; ".join([*retiring, *sorted(set(self.outcome.overlap.values()))]) or None

    @property
    def notes(self) -> str | None:
        """JSON text of what is held back, since the compute service lends the same: uuid and words."""
        return json.dumps(dict(self.outcome.overlap)) if self.outcome.overlap else None
