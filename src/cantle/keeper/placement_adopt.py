"""Take over providers that a former manager made: their uuids, and with those their allocations, become ours.

Cyborg names a provider ``<host>_<PCI address>`` and gives it the uuid3 of that name (contract section 3), so what is below a host's
compute node with one of our devices' addresses at the end of its name, and either Cyborg's owner trait or such a uuid, was Cyborg's.
With Cyborg's database at hand, that says which provider is which device's, and its device profiles and bound requests are kept too.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from cantle.engine import adoption
from cantle.engine.adoption import Former, TakenProfile, TakenRequest
from cantle.errors import Conflict, NotFound
from cantle.keeper.placement_host import Settings
from cantle.model import uuids
from cantle.model.naming import OWNER_TRAIT
from cantle.model.provider import Form, Operator, Provider, Record
from cantle.placement.tree import find_root
from cantle.store import host as hosts
from cantle.store import provider as store
from cantle.store import publication
from cantle.store.cyborg import Cyborg
from cantle.store.database import Database
from cantle.store.types import Record as Row

if TYPE_CHECKING:
    from cantle.placement.client import PlacementClient  # needs an extra


#: How long keepers leave the host alone.
CLAIM_S = 300.0


@dataclass(frozen=True, slots=True)
class Adoption:
    """A provider that becomes that of one of our deployables, in place of ``instead_of``, a uuid nobody has seen yet.

    :param deployable_id: None for one that is no device's of ours: it is adopted to its end. Nothing more may be taken of it, and it goes
        when nobody has anything of it.
    """

    provider: Provider
    deployable_id: int | None
    instead_of: str
    resource_class: str


@dataclass(frozen=True, slots=True)
class Takeover:
    """What becomes ours of one host; profiles and requests only with Cyborg's database."""

    adoptions: Sequence[Adoption]
    profiles: Sequence[TakenProfile] = ()
    requests: Sequence[TakenRequest] = ()


def is_cyborgs(provider: Provider) -> bool:
    """Whether Cyborg made it: by its owner trait, or by its uuid, since drivers have forgotten the trait (LP 2150557)."""
    return OWNER_TRAIT in provider.traits or provider.uuid == str(uuid.uuid3(uuid.NAMESPACE_DNS, provider.name))


def plan(
    db: Database,
    client: PlacementClient,
    settings: Settings,
    host_id: int,
    hostname: str,
    *,
    leftovers: bool = False,
    cyborg: Cyborg | None = None,
) -> Takeover:
    """What `adopt` would take over. Reads only.

    :param leftovers: also what Cyborg made and is no device's of ours, such as a virtual function that is not offered by itself any more.
    :param cyborg: what Cyborg's database says.
    :raises NotFound: ``host-not-in-placement``.
    :raises Unavailable: ``placement-away``.
    """
    adoptions = _find(db, client, settings, host_id, hostname, leftovers=leftovers, cyborg=cyborg)
    if cyborg is None:
        return Takeover(adoptions)
    formers = _formers(db, client, host_id, adoptions, cyborg)
    with db.read() as connection:
        requests = adoption.requests(connection, host_id, hostname, cyborg, formers)
        return Takeover(adoptions, adoption.profiles(connection, cyborg), requests)


def adopt(
    db: Database,
    client: PlacementClient,
    settings: Settings,
    host_id: int,
    hostname: str,
    *,
    leftovers: bool = False,
    cyborg: Cyborg | None = None,
) -> Takeover:
    """Make what `plan` finds ours: in our database, while no keeper is at the host; then with the owner's trait where it is missing.

    :raises Conflict: ``claim-lost``: a keeper is at it.
    """
    keeper = uuids.new()
    claimed = db.run(lambda connection: publication.claim_now(connection, host_id, hostname, keeper, CLAIM_S))
    if not claimed:
        raise Conflict("claim-lost", f"A keeper is at work on host {hostname}; try again in a moment.")
    try:
        adoptions = _find(db, client, settings, host_id, hostname, leftovers=leftovers, cyborg=cyborg)
        formers = {} if cyborg is None else _formers(db, client, host_id, adoptions, cyborg)
        taken = db.run(
            lambda connection: _take(connection, host_id, hostname, adoptions, cyborg=cyborg, formers=formers)
        )
        for one in adoptions:
            if OWNER_TRAIT not in one.provider.traits:
                client.set_traits(one.provider.uuid, one.provider.generation, {*one.provider.traits, OWNER_TRAIT})
    finally:
        db.run(lambda connection: publication.release(connection, host_id, keeper))
    return taken


def _find(
    db: Database,
    client: PlacementClient,
    settings: Settings,
    host_id: int,
    hostname: str,
    *,
    leftovers: bool,
    cyborg: Cyborg | None,
) -> list[Adoption]:
    with db.read() as connection:
        rows = store.parts(connection, host_id)
        known = store.records(connection, host_id, 0.0)
    root = find_root(client, hostname, settings.names_of(hostname))
    places = {} if cyborg is None else cyborg.places
    ours = {row.rp_uuid for row in rows} | set(known)
    found = []
    for node in client.tree(root.uuid).values():
        if node.uuid == root.uuid or node.uuid in ours:
            continue
        place = places.get(node.uuid)
        row = _match(node.name, rows) if place is None else _at(place.address, rows)
        if row is None and leftovers:
            provider = client.provider(node)
            if place is not None or is_cyborgs(provider):
                found.append(Adoption(provider, None, "", next(iter(provider.inventories), "")))
        # One we were about to make, and could not since this one has its name, was seen by nobody.
        if row is not None and (row.rp_uuid not in known or client.node(row.rp_uuid) is None):
            provider = client.provider(node)
            if place is not None or is_cyborgs(provider):
                found.append(Adoption(provider, row.id, row.rp_uuid, row.resource_class))
    return found


def _providers(connection: Connection, host_id: int, adoptions: Sequence[Adoption]) -> dict[str, int]:
    """By uuid of the provider, number of the deployable, as it is when these are adopted."""
    now = {row.rp_uuid: row.id for row in store.parts(connection, host_id)}
    return now | {one.provider.uuid: one.deployable_id for one in adoptions if one.deployable_id is not None}


def _formers(
    db: Database, client: PlacementClient, host_id: int, adoptions: Sequence[Adoption], cyborg: Cyborg
) -> dict[str, Former]:
    """By uuid, each provider that Cyborg's requests have something of; a request to Placement each."""
    with db.read() as connection:
        providers = _providers(connection, host_id, adoptions)
    found = {}
    for rp_uuid in sorted({one.rp_uuid for one in cyborg.requests if one.rp_uuid is not None} & set(providers)):
        try:
            found[rp_uuid] = Former(providers[rp_uuid], frozenset(client.allocations(rp_uuid)))
        except NotFound:
            continue
    return found


def _take(
    connection: Connection,
    host_id: int,
    hostname: str,
    adoptions: Sequence[Adoption],
    *,
    cyborg: Cyborg | None,
    formers: Mapping[str, Former],
) -> Takeover:
    hosts.lock(connection, [host_id])
    for one in adoptions:
        if one.deployable_id is not None:
            store.change_uuid(connection, one.deployable_id, one.instead_of, one.provider.uuid)
    store.keep(connection, host_id, [_record(one) for one in adoptions])
    if cyborg is None:
        return Takeover(adoptions)
    profiles = adoption.profiles(connection, cyborg)
    requests = adoption.requests(connection, host_id, hostname, cyborg, formers)
    return Takeover(adoptions, profiles, adoption.take(connection, host_id, hostname, profiles, requests))


def _at(address: str, rows: Sequence[Row]) -> Row | None:
    """The deployable of the device at an address, if that has one alone."""
    matching = [row for row in rows if row.device_address == address]
    return matching[0] if len(matching) == 1 else None


def _match(name: str, rows: Sequence[Row]) -> Row | None:
    """The deployable whose device's address the name ends in; the address alone must not fit two."""
    matching = [row for row in rows if name == row.name or name.endswith(f"_{row.device_address}")]
    return matching[0] if len(matching) == 1 else None


def _record(one: Adoption) -> Record:
    """As if we had written what is there: changes of the type later replace Cyborg's own traits. Its ``max_unit`` (Cyborg writes the
    total) and a reservation are kept, for instances rely on the one and an operator may have made the other."""
    provider = one.provider
    traits = frozenset(
        name for name in provider.traits if name == OWNER_TRAIT or name.startswith(("CUSTOM_NVIDIA_", "CUSTOM_PCI_"))
    )
    forms = tuple(
        Form(name, inventory.total, 0, inventory.max_unit, traits) for name, inventory in provider.inventories.items()
    )
    standing = provider.inventories.get(one.resource_class)
    operator = Operator() if standing is None else Operator(standing.reserved, standing.max_unit)
    return Record(provider.uuid, provider.name, forms=forms, operator=operator, unsure=True)
