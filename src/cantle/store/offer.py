"""What hosts offer, for choosing and for explaining."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

from sqlalchemy import Connection, Text, and_, bindparam, case, exists, func, not_, select, true, type_coerce

from cantle.model.device import Mode
from cantle.model.kind import Kind
from cantle.model.offer import Offer
from cantle.store.deployable import FAILING, FREE, USED
from cantle.store.kind_tables import kinds
from cantle.store.service import IN_SERVICE, SERVICE, out_of_service, with_intents
from cantle.store.tables import attach_handles, claims, deployables, device_profiles, devices, hosts, leases
from cantle.store.types import Record, sockets

_COLUMNS = (
    deployables.c.id,
    deployables.c.host_id,
    deployables.c.rp_uuid,
    deployables.c.kind,
    devices.c.numa_node,
    hosts.c.sockets,
    *SERVICE,
)
_PLACES = with_intents(
    deployables.join(devices, devices.c.id == deployables.c.device_id).join(hosts, hosts.c.id == deployables.c.host_id)
)
_IS_OF_KINDS = deployables.c.kind.in_(bindparam("kinds", expanding=True))
_ON_HOSTS = (
    select(*_COLUMNS, USED, FREE, FAILING.label("failing"))
    .select_from(_PLACES)
    .where(_IS_OF_KINDS, deployables.c.host_id.in_(bindparam("host_ids", expanding=True)))
)

#: Units of every deployable in one go, for whoever looks at all of them.
_counted = (
    select(
        attach_handles.c.deployable_id,
        func.count(claims.c.id).label("used"),
        func.sum(case((and_(attach_handles.c.present, claims.c.id.is_(None)), 1), else_=0)).label("free"),
    )
    .select_from(attach_handles.outerjoin(claims, claims.c.attach_handle_id == attach_handles.c.id))
    .group_by(attach_handles.c.deployable_id)
    .subquery()
)
#: What is read of each card where all are: in the order of `Offer`'s fields. Why one is out of service is read beside it, since few are.
_LEAN = (
    deployables.c.id,
    deployables.c.rp_uuid,
    deployables.c.host_id,
    hosts.c.hostname,
    devices.c.address,
    deployables.c.kind,
)
_SOCKETS = type_coerce(hosts.c.sockets, Text)
_ALL = (
    select(
        *_LEAN,
        func.coalesce(_counted.c.used, 0).label("used"),
        func.coalesce(_counted.c.free, 0).label("free"),
        devices.c.numa_node,
        _SOCKETS,
        IN_SERVICE.label("in_service"),
        deployables.c.total,
    )
    .select_from(_PLACES.outerjoin(_counted, _counted.c.deployable_id == deployables.c.id))
    .where(_IS_OF_KINDS)
)
_OF_HOST = (
    select(*_LEAN, USED, FREE, devices.c.numa_node, _SOCKETS, IN_SERVICE.label("in_service"), deployables.c.total)
    .select_from(_PLACES)
    .where(_IS_OF_KINDS, hosts.c.hostname == bindparam("hostname"))
)
_OUT = select(deployables.c.id, *SERVICE).select_from(_PLACES).where(_IS_OF_KINDS, not_(IN_SERVICE))
_OUT_OF_HOST = _OUT.where(hosts.c.hostname == bindparam("hostname"))

#: Rows that are taken from the database's answer at once: one by one costs as much again.
_AT_ONCE = 2000

#: A request by name, beside every kind there is: one statement for both.
_ASKED = (
    select(
        device_profiles.c.id,
        device_profiles.c.name,
        device_profiles.c.groups,
        device_profiles.c.extra_specs,
        kinds.c.digest,
        kinds.c.facts,
    )
    .select_from(device_profiles.outerjoin(kinds, true()))
    .where(device_profiles.c.name == bindparam("called"))
)

#: By host, since a host with cards of several kinds counts once under a reason that they share.
_PER_KIND = (
    select(deployables.c.kind, hosts.c.hostname, func.count().label("cards"))
    .join(hosts, hosts.c.id == deployables.c.host_id)
    .where(deployables.c.kind.is_not(None), deployables.c.kind.not_in(bindparam("kinds", expanding=True)))
    .group_by(deployables.c.kind, hosts.c.hostname)
)

#: Cards that offer nothing, by what they are. Screens are no cards that anybody would look for here.
_PER_MODE = (
    select(
        devices.c.mode,
        func.count().label("cards"),
        func.count(devices.c.host_id.distinct()).label("hosts"),
        func.min(hosts.c.hostname + " " + devices.c.address).label("example"),
    )
    .join(hosts, hosts.c.id == devices.c.host_id)
    .where(devices.c.mode != Mode.DISPLAY_ONLY, ~exists().where(deployables.c.device_id == devices.c.id))
    .group_by(devices.c.mode)
)

_LENT_UNTIL = (
    select(func.min(leases.c.expires_at))
    .select_from(
        claims.join(leases, leases.c.id == claims.c.lease_id).join(
            deployables, deployables.c.id == claims.c.deployable_id
        )
    )
    .where(deployables.c.kind.in_(bindparam("kinds", expanding=True)), leases.c.released_at.is_(None))
)


def asked(connection: Connection, name: str) -> Sequence[Record]:
    """The profile or flavor of that name: rows of id, name, groups, extra_specs, and digest and facts of a kind each (NULL if there is
    none). No row: no such name."""
    return connection.execute(_ASKED, {"called": name}).all()


def on_hosts(connection: Connection, host_ids: Collection[int], known: Collection[Kind]) -> list[Offer]:
    """What these hosts offer of these kinds."""
    by_digest = {kind.digest: kind for kind in known}
    values = {"host_ids": list(host_ids), "kinds": sorted(by_digest)}
    return [_offer(row, by_digest[row.kind]) for row in connection.execute(_ON_HOSTS, values)]


def by_host(
    connection: Connection, known: Collection[Kind], *, hostname: str | None = None
) -> Iterator[tuple[str, list[Offer]]]:
    """All hosts with what they offer of these kinds, in the order of their names; cards in that of their addresses. Two
    statements. Sorted here: the database would write a whole cloud to its disk for it."""
    by_digest = {kind.digest: kind for kind in known}
    values: dict[str, object] = {"kinds": sorted(by_digest)}
    if hostname is not None:
        values["hostname"] = hostname
    whole = hostname is None
    reasons = {row.id: out_of_service(row) for row in connection.execute(_OUT if whole else _OUT_OF_HOST, values)}
    found: dict[str, list[Offer]] = defaultdict(list)
    for rows in connection.execute(_ALL if whole else _OF_HOST, values).partitions(_AT_ONCE):
        for number, provider, host, name, address, kind, used, free, node, board, well, total in rows:
            # Of what went out of service since the first statement it is not known why: it was in service then.
            reason = None if well else reasons.get(number)
            facts = (by_digest[kind], int(used), int(free), node, reason, sockets(board))
            found[name].append(Offer(number, provider, host, name, address, *facts, total=total))
    for name in sorted(found):
        yield name, sorted(found[name], key=lambda one: (one.address, one.deployable_id))


def per_kind(connection: Connection, without: Collection[str]) -> dict[str, dict[str, int]]:
    """Of every kind but these, by its digest: how many cards each host has."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for kind, hostname, cards in connection.execute(_PER_KIND, {"kinds": sorted(without)}):
        found[kind][hostname] = cards
    return found


def per_mode(connection: Connection, hostname: str | None = None) -> Sequence[Record]:
    """mode, cards, hosts, example (host and address of one) of the cards that offer nothing, in the whole cloud or on one host."""
    query = _PER_MODE if hostname is None else _PER_MODE.where(hosts.c.hostname == hostname)
    return connection.execute(query).all()


def lent_until(connection: Connection, known: Collection[str]) -> dt.datetime | None:
    """When the first lease that holds something of these kinds ends by itself."""
    found: dt.datetime | None = connection.execute(_LENT_UNTIL, {"kinds": sorted(known)}).scalar()
    return found


def _offer(row: Record, kind: Kind) -> Offer:
    return Offer(
        deployable_id=row.id,
        rp_uuid=row.rp_uuid,
        host_id=row.host_id,
        hostname=row.hostname,
        address=row.device_address,
        kind=kind,
        used=int(row.used),
        free=int(row.free),
        numa_node=row.numa_node,
        out_of_service=out_of_service(row),
        sockets=row.sockets,
        failing=bool(row.failing),
    )
