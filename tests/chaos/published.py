"""Looking into Placement from outside: whether a host is published as it was asked for, and whether what must always hold does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import select
from tests.chaos import placement
from tests.chaos.roles import HOST, OUTLETS, Place

from cantle.engine.capacity import list_capacity
from cantle.errors import BadRequest
from cantle.keeper.placement_diff import compare
from cantle.keeper.placement_host import Settings
from cantle.model.pci import PciAddress
from cantle.store.database import Database
from cantle.store.provider_tables import placement_hosts, placement_providers

#: By card, or POOL: class, and (total, reserved).
Tree = Mapping[str, Mapping[str, tuple[int, int]]]
POOL = "pool"


def missing(place: Place, wanted: Tree) -> str | None:
    """What Placement does not have as it was asked for; None when all is there and nobody is at it."""
    found = {_card(one["name"]): _amounts(place, one["uuid"]) for one in _children(place)}
    if found != wanted:
        return f"Placement has {found}"
    db = Database.open(place.database, check=False, outlets=OUTLETS)
    try:
        with db.read() as connection:
            (row,) = connection.execute(select(placement_hosts)).all()
    finally:
        db.close()
    busy = row.claimed_by is not None or row.code is not None or row.waiting is not None
    return f"the keeper is at it: {row.code}, {row.waiting}" if busy else None


def broken(place: Place) -> list[str]:
    """What must always hold and does not, once everything has come to rest."""
    db = Database.open(place.database, check=False, outlets=OUTLETS)
    try:
        return [*_strays(place, db), *_units(place, db), *_writes(place, db)]
    finally:
        db.close()


def _strays(place: Place, db: Database) -> Iterator[str]:
    """Providers that nobody remembers, and the reverse; what nobody would know for ours."""
    with db.read() as connection:
        known = set(connection.execute(select(placement_providers.c.uuid)).scalars())
    there = {one["uuid"]: one["name"] for one in _children(place)}
    yield from (f"{there[uuid]} is an orphan" for uuid in sorted(set(there) - known))
    yield from (f"{uuid} is remembered and not there" for uuid in sorted(known - set(there)))
    for uuid, name in there.items():
        traits = _ask(place, f"/resource_providers/{uuid}/traits")["traits"]
        if "OWNER_CYBORG" not in traits:
            yield f"{name} has the traits {traits}"


def _units(place: Place, db: Database) -> Iterator[str]:
    """Every unit that is free here can be taken there, and no other."""
    free = sum(one.free for one in list_capacity(db) if one.in_service)
    room = 0
    for one in _children(place):
        used = _ask(place, f"/resource_providers/{one['uuid']}/usages")["usages"]
        amounts = _amounts(place, one["uuid"])
        room += sum(max(0, total - reserved - used[name]) for name, (total, reserved) in amounts.items())
        yield from (
            f"{one['name']} has a {name} with nothing in it" for name, (total, _) in amounts.items() if total == 0
        )
    if room != free:
        yield f"{free} units are free, and Placement has room for {room}"


def _writes(place: Place, db: Database) -> Iterator[str]:
    """A keeper has nothing to do."""
    with db.read() as connection:
        number = connection.execute(select(placement_hosts.c.host_id)).scalar_one()
    client = placement.client(place.placement_port)
    found = compare(db, client, Settings(pool_identical=place.pooled), number, HOST)
    yield from (f"{line.provider} would be written: {line.writes}" for line in found.lines if line.writes)


def root(place: Place) -> str:
    """The uuid of the compute node."""
    (found,) = _ask(place, f"/resource_providers?name={HOST}")["resource_providers"]
    return str(found["uuid"])


def provider(place: Place, card: str) -> str | None:
    """The uuid of a card's provider; None while it has none."""
    return next((one["uuid"] for one in _children(place) if _card(one["name"]) == card), None)


def amounts_of(place: Place, card: str) -> dict[str, tuple[int, int]]:
    """What there is of a card, by class: (total, reserved)."""
    uuid = provider(place, card)
    return {} if uuid is None else _amounts(place, uuid)


def _children(place: Place) -> list[dict[str, Any]]:
    node = root(place)
    found = _ask(place, f"/resource_providers?in_tree={node}")["resource_providers"]
    return [one for one in found if one["uuid"] != node]


def _amounts(place: Place, uuid: str) -> dict[str, tuple[int, int]]:
    found = _ask(place, f"/resource_providers/{uuid}/inventories")["inventories"]
    return {name: (one["total"], one["reserved"]) for name, one in found.items()}


def _card(name: str) -> str:
    rest = name.removeprefix(f"{HOST}_")
    try:
        return str(PciAddress.parse(rest))
    except BadRequest:
        return POOL


def _ask(place: Place, path: str) -> Any:
    return placement.look(place.placement_port, "GET", path)
