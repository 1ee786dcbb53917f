"""Looking from outside whether what was asked for has come about, and whether what must always hold does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from sqlalchemy import select
from tests.chaos import published
from tests.chaos.client import Client
from tests.chaos.receiver import HOOK, NOVA, read
from tests.chaos.roles import HOST, M40, OUTLETS, T4, Place
from tests.chaos.scenario import OFFERED, End, Facts

from cantle.agent.desired import Desired
from cantle.kernel import mdev
from cantle.kernel.root import Root
from cantle.model.arq import ArqState
from cantle.store.database import Database
from cantle.store.tables import arqs, attach_handles, claims, hosts, outbox


def missing(client: Client, end: End, facts: Facts) -> str | None:
    """What is not yet as it was asked for; None when all is.

    :raises OSError: nobody answers just now.
    """
    (host,) = client.once("GET", "/v1/hosts")["hosts"] or [{"up": False}]
    if not host["up"]:
        return "the host has not reported"
    rows = client.once("GET", "/v1/capacity")["capacity"]
    offered: Counter[str] = Counter()
    for row in rows:
        offered[row["device_address"]] += row["total"] if row["in_service"] else 0
    if offered != (end.offered or OFFERED):
        return f"offered is {offered}"
    used = sum(row["used"] for row in rows)
    if used != end.lent:
        return f"{used} units are lent or being taken back"
    if end.leases is not None:
        states = Counter(one["state"] for one in client.once("GET", "/v1/leases?include_released=true")["leases"])
        if states != end.leases:
            return f"leases are {dict(states)}"
    states = Counter(one["state"] for one in client.once("GET", "/v2/accelerator_requests")["arqs"])
    del states["Initial"]
    asked = Counter({"BindStarted" if state == "BindFailed" else state: n for state, n in end.states.items()})
    if states != asked:
        return f"accelerator requests are {dict(states)}"
    unheard = _unheard(client.place, end, facts)
    return published.missing(client.place, end.published) if unheard is None and end.published is not None else unheard


def _unheard(place: Place, end: End, facts: Facts) -> str | None:
    if end.nova:
        told = nova_statuses(place)
        for uuid in facts["arqs"]:
            if told.get(uuid, set()) != end.nova:
                return f"Nova has heard {told.get(uuid)} of {uuid}"
    kinds = Counter(one["body"]["type"] for one in read(place.heard) if one["path"] == HOOK)
    unheard = end.told - set(kinds)
    return f"the webhook has not heard {unheard}" if unheard else None


def nova_statuses(place: Place) -> dict[str, set[str]]:
    """What Nova has heard, by ARQ."""
    told: dict[str, set[str]] = {}
    for one in read(place.heard):
        if one["path"] == NOVA:
            for event in one["body"]["events"]:
                told.setdefault(event["tag"], set()).add(event["status"])
    return told


def settled(place: Place) -> bool:
    """Whether no event is on its way, save those that are repeated."""
    db = Database.open(place.database, check=False, outlets=OUTLETS)
    try:
        with db.read() as connection:
            rows = connection.execute(select(outbox).where(outbox.c.ended_at.is_(None))).all()
    finally:
        db.close()
    return all(row.repeat_until is not None and row.claimed_by is None and not row.problem for row in rows)


def broken(place: Place, end: End) -> list[str]:
    """What must always hold and does not, once everything has come to rest and nobody runs any more."""
    db = Database.open(place.database, check=False, outlets=OUTLETS)
    try:
        with db.read() as connection:
            rows = connection.execute(
                select(claims, attach_handles.c.uuid, attach_handles.c.attach_type, arqs.c.state)
                .join_from(claims, attach_handles, attach_handles.c.id == claims.c.attach_handle_id)
                .outerjoin(arqs, arqs.c.id == claims.c.arq_id)
            ).all()
            found = connection.execute(select(arqs)).all()
            events = connection.execute(select(outbox)).all()
            names = connection.execute(select(hosts.c.hostname)).scalars().all()
    finally:
        db.close()
    problems = [*_claims(rows, end), *_host(place, rows, end), *_events(place, events), *_states(found, end)]
    return problems if names == [HOST] else [*problems, f"hosts are {names}"]


def _claims(rows: Any, end: End) -> Iterator[str]:
    units = Counter(row.attach_handle_id for row in rows)
    yield from (f"unit {unit} is lent {count} times" for unit, count in units.items() if count > 1)
    holders = Counter(row.arq_id for row in rows)
    yield from (f"request {arq} holds {count} units" for arq, count in holders.items() if count > 1)
    for row in rows:
        if not row.wanted or row.state != ArqState.BOUND:
            yield f"the claim on {row.uuid} is stuck: wanted {row.wanted}, its request {row.state}, {row.reason}"
    if len(rows) != end.lent:
        yield f"{len(rows)} claims, {end.lent} units were to be lent"


def _host(place: Place, rows: Any, end: End) -> Iterator[str]:
    root = Root(place.tree)
    wanted = {row.uuid for row in rows if row.attach_type == "MDEV"}
    there = {one.uuid for one in mdev.devices(root)}
    if there != wanted:
        yield f"mediated devices that nobody lent: {there - wanted}; lent ones that are not there: {wanted - there}"
    cards = {"vfio-pci" if row.attach_type == "PCI" else None for row in rows} - {None}
    driver = root.link_name(f"sys/bus/pci/devices/{M40}/driver")
    if (end.offered or OFFERED)[M40] and driver != (cards.pop() if cards else "nvidia"):
        yield f"{M40} is on {driver}"
    whole = (end.offered or OFFERED)[T4] == 1
    driver = root.link_name(f"sys/bus/pci/devices/{T4}/driver")
    if driver != ("vfio-pci" if whole else "nvidia"):
        yield f"{T4} is on {driver}"
    memory = msgspec.json.decode((place.state / "desired.json").read_bytes(), type=Desired)
    known = {handle.uuid for handle in memory.work.wanted} if memory.work is not None else set()
    if known != {row.uuid for row in rows}:
        yield f"the agent's disk has units {known}"
    if (M40 in memory.taken) != any(row.attach_type == "PCI" for row in rows):
        yield f"the agent's disk says that {set(memory.taken)} were taken"


def _events(place: Place, events: Any) -> Iterator[str]:
    lines = read(place.heard)
    hooks = {one["id"] for one in (*read(place.heard_before), *lines) if one["path"] == HOOK}
    for row in events:
        if row.outcome not in ("delivered", "withdrawn") and row.repeat_until is None:
            yield f"event {row.body} ended as {row.outcome}: {row.problem}"
        elif row.outcome == "delivered" and row.channel == "webhook" and row.uuid not in hooks:
            yield f"event {row.body} counts as delivered and was never heard"
    for tag, statuses in nova_statuses(place).items():
        if len(statuses) > 1:
            yield f"Nova heard {statuses} of {tag}"
    yield from _order([one["body"] for one in lines if one["path"] == HOOK])


def _order(bodies: list[Mapping[str, Any]]) -> Iterator[str]:
    """Of one lease nothing comes after its release but repetitions of what came before."""
    seen: dict[str, list[str]] = {}
    for body in bodies:
        kinds = seen.setdefault(body["data"]["uuid"], [])
        if body["type"] not in kinds:
            kinds.append(body["type"])
    for about, kinds in seen.items():
        if "lease.released" in kinds and kinds[-1] != "lease.released":
            yield f"of {about} was told {kinds}"
        if {"arq.bound", "arq.failed"} <= set(kinds):
            yield f"of {about} was told {kinds}"


def _states(found: Any, end: End) -> Iterator[str]:
    states = Counter(str(row.state) for row in found)
    del states[ArqState.INITIAL]
    if states != end.states:
        yield f"accelerator requests are {dict(states)}"
