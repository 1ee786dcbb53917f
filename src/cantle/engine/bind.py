"""Bind ARQs to a host, a provider and an instance, and unbind them. All of one call succeed, or nothing is changed (spec S3.4, S3.5).

A bind claims a unit and tells the host; the host's result, or the deadline, settles it (`cantle.engine.results`, the keeper).
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from sqlalchemy import Connection

from cantle.engine import absent, announce, audit
from cantle.engine.access import need_service, sees
from cantle.engine.clock import BIND_SECONDS, now
from cantle.engine.parting import HOLDING, check_locked, refuse_lent, take_back
from cantle.errors import BadRequest, CantleError, Conflict, Forbidden, NoCapacity
from cantle.model import uuids
from cantle.model.arq import BINDABLE, ArqState
from cantle.model.host import check_name, same_host
from cantle.model.identity import Identity
from cantle.model.kind import for_containers
from cantle.store import bind as store
from cantle.store import claim, deployable, host, owner, parting, provider_pool
from cantle.store.database import Database, host_topic, wake
from cantle.store.faults import LookAgain
from cantle.store.service import why_not
from cantle.store.types import Record


@dataclass(frozen=True, slots=True)
class Bind:
    """One ARQ is to be bound. ``hostname`` may be short or qualified; ``project_id`` (microversion 2.1) is an administrator's word on
    whose it is."""

    arq_uuid: str
    hostname: str
    device_rp_uuid: str
    instance_uuid: str
    project_id: str | None = None


@dataclass(frozen=True, slots=True)
class Unbind:
    """One ARQ is to be unbound."""

    arq_uuid: str


def bind(db: Database, who: Identity, binds: Sequence[Bind]) -> None:
    """Claim a unit for each ARQ and tell the hosts. An ARQ that is bound just so already, or on the way, is left as it is.

    An ARQ belongs to the project its instance belongs to: the one an administrator names here, else the one remembered from the
    instance's earlier ARQs, else the ARQ's own. So an evacuation by an administrator does not take the ARQs from the tenant.

    :raises BadRequest: ``nothing-to-bind``, ``bad-uuid``, ``bad-hostname``, ``host-of-other-provider``, ``instance-has-arqs``.
    :raises Forbidden: ``service-token-needed``, ``project-needs-admin``.
    :raises NotFound: ``arq-not-found``, ``provider-not-found``.
    :raises Conflict: ``arq-not-bindable``, ``arq-of-lease``, ``provider-does-not-fit``, ``provider-out-of-service``.
    :raises NoCapacity: ``no-free-handle``.
    """
    need_service(who)
    asked = _checked(who, binds)

    def work(connection: Connection) -> None:
        host.lock_of_providers(connection, sorted({one.device_rp_uuid for one in asked.values()}))
        rows = store.to_bind(connection, list(asked), sorted({one.instance_uuid for one in asked.values()}))
        arqs = {row.uuid: row for row in rows}
        owners = {row.owned_instance: row.owner for row in rows if row.owned_instance is not None}
        todo = {uuid: one for uuid, one in asked.items() if _must_bind(who, one, arqs.get(uuid))}
        _refuse_strangers(todo, arqs)
        if todo:
            _claim(connection, who, todo, arqs, owners)
        others = [arqs[uuid] for uuid in asked if uuid not in todo]
        announce.bound_already(connection, [row for row in others if row.state == ArqState.BOUND])

    db.run(work)
    audit.note(who, "arq.bind", *asked)


def unbind(db: Database, who: Identity, unbinds: Sequence[Unbind]) -> None:
    """Let ARQs go of their units. An ARQ that holds none is left as it is; a failed one can be bound again afterwards.

    :raises BadRequest: ``nothing-to-bind``.
    :raises Forbidden: ``service-token-needed``.
    :raises NotFound: ``arq-not-found``.
    :raises Conflict: ``arq-of-lease``.
    """
    need_service(who)
    wanted = list(dict.fromkeys(_arq_uuid(one.arq_uuid) for one in unbinds))
    if not wanted:
        raise BadRequest("nothing-to-bind", "No accelerator request is named.")

    def work(connection: Connection) -> None:
        locked = host.lock_of_arqs(connection, wanted)
        found = parting.to_part(connection, wanted)
        check_locked(locked, found)
        rows = [row for row in found if sees(who, row.project_id, row.instance_uuid)]
        known = {row.uuid for row in rows}
        for uuid in wanted:
            if uuid not in known:
                raise absent.arqs([uuid])
        refuse_lent(rows)
        moving = [row for row in rows if row.state != ArqState.UNBOUND]
        moment = now()
        holding = take_back(connection, moving, moment, who)
        if moving and parting.part(connection, [row.id for row in moving], holding, moment) < len(moving):
            raise LookAgain

    db.run(work)
    audit.note(who, "arq.unbind", *wanted)


def _checked(who: Identity, binds: Sequence[Bind]) -> dict[str, Bind]:
    """By ARQ, in the order asked for; uuids in our spelling."""
    asked: dict[str, Bind] = {}
    for one in binds:
        check_name(one.hostname.removesuffix("."))
        if one.project_id is not None and not who.is_admin:
            raise Forbidden(
                "project-needs-admin",
                "Only an administrator may say whose project_id an accelerator request is; leave it out.",
            )
        uuid = _arq_uuid(one.arq_uuid)
        asked[uuid] = replace(
            one,
            arq_uuid=uuid,
            device_rp_uuid=uuids.checked(one.device_rp_uuid, "device_rp_uuid"),
            instance_uuid=uuids.checked(one.instance_uuid, "instance_uuid"),
        )
    if not asked:
        raise BadRequest("nothing-to-bind", "No accelerator request is named.")
    return asked


def _must_bind(who: Identity, one: Bind, row: Record | None) -> bool:
    """Whether anything is left to do for it; refuses what cannot be bound."""
    if row is None or not sees(who, row.project_id, row.instance_uuid):
        raise absent.arqs([one.arq_uuid])
    refuse_lent([row])
    if row.state in BINDABLE:
        return True
    if row.state in HOLDING and _same(one, row):
        return False
    raise Conflict(
        "arq-not-bindable",
        f"Accelerator request {row.uuid} is {row.state}; only one that is Initial or Unbound can be bound. Unbind it first.",
        state=row.state,
    )


def _same(one: Bind, row: Record) -> bool:
    return (
        row.instance_uuid == one.instance_uuid
        and row.device_rp_uuid == one.device_rp_uuid
        and same_host(row.hostname or "", one.hostname)
    )


def _refuse_strangers(todo: Mapping[str, Bind], arqs: Mapping[str, Record]) -> None:
    """An instance's ARQs are bound in one call: others there are left from something that went wrong."""
    instances = {one.instance_uuid for one in todo.values()}
    for row in arqs.values():
        if row.instance_uuid in instances and row.uuid not in todo:
            raise BadRequest(
                "instance-has-arqs",
                f"Instance {row.instance_uuid} has accelerator request {row.uuid} already; delete that first.",
                instance=row.instance_uuid,
            )


def _claim(
    connection: Connection,
    who: Identity,
    todo: Mapping[str, Bind],
    arqs: Mapping[str, Record],
    owners: Mapping[str, str],
) -> None:
    chosen = _chosen(connection, todo, arqs)
    moment = now()
    nth: dict[str, count[int]] = defaultdict(count)
    starts = [
        _start(one, arqs[one.arq_uuid], owners, moment) | {"nth": next(nth[one.instance_uuid])} for one in todo.values()
    ]
    projects = {one["arq_id"]: one["to_project"] for one in starts}
    asker = {"lease": None, "now": moment, "by": who.user_id, "request": who.request_id or None}
    takes = [
        {"arq": arqs[uuid].id, "deployable_id": row.id, "project": projects[arqs[uuid].id], **asker}
        for uuid, row in chosen.items()
    ]
    if claim.take(connection, takes) < len(takes):
        if any(row.rp_uuid != todo[uuid].device_rp_uuid for uuid, row in chosen.items()):
            raise LookAgain  # of a pool, what was free when we chose: another unit may be
        names = ", ".join(sorted({row.name for row in chosen.values()}))
        raise NoCapacity(
            "no-free-handle",
            f"{names}: not enough free units for {len(takes)} accelerator requests. 'cantle capacity' shows what is free.",
        )
    if store.start(connection, starts) < len(starts):
        raise LookAgain
    _set_owners(connection, todo, owners)
    for hostname in {row.hostname for row in chosen.values()}:
        wake(connection, host_topic(hostname))


def _chosen(connection: Connection, todo: Mapping[str, Bind], arqs: Mapping[str, Record]) -> dict[str, Record]:
    """By ARQ, the deployable it is bound on: that of the provider, or of a pool the first that has a unit left."""
    asked = sorted({one.device_rp_uuid for one in todo.values()})
    providers = deployable.providers(connection, asked)
    pools = provider_pool.members(connection, [uuid for uuid in asked if uuid not in providers])
    free = {row.id: row.free for rows in pools.values() for row in rows}
    chosen: dict[str, Record] = {}
    for uuid, one in todo.items():
        if one.device_rp_uuid in pools:
            chosen[uuid] = _of_pool(one, arqs[uuid], pools[one.device_rp_uuid], free)
        else:
            _check_provider(one, arqs[uuid], providers.get(one.device_rp_uuid))
            chosen[uuid] = providers[one.device_rp_uuid]
            _check_guests(chosen[uuid])
    return chosen


def _of_pool(one: Bind, arq: Record, members: Sequence[Record], free: dict[int, int]) -> Record:
    """The first member that has a unit left and is in service; ``free`` counts down. A pool that has none is in the state of its first."""
    why: CantleError | None = None
    for row in members:
        try:
            _check_provider(one, arq, row)
        except CantleError as error:
            why = why or error
            continue
        if free[row.id] > 0:
            free[row.id] -= 1
            return row
        full = NoCapacity(
            "no-free-handle",
            f"Pool {one.device_rp_uuid} on {row.hostname}: no free unit is left. 'cantle capacity' shows what is free.",
        )
        why = why if isinstance(why, NoCapacity) else full
    assert why is not None  # noqa: S101 - a pool has members
    raise why


def _check_provider(one: Bind, arq: Record, provider: Record | None) -> None:
    if provider is None:
        raise absent.provider(one.device_rp_uuid)
    if not same_host(provider.hostname, one.hostname):
        raise BadRequest(
            "host-of-other-provider",
            f"Provider {provider.name} belongs to host {provider.hostname}, not to {one.hostname}.",
        )
    if (why := why_not(provider)) is not None:
        raise Conflict("provider-out-of-service", f"Nothing can be bound on {provider.name}: {why}.")
    wanting = [f"resource class {arq.resource_class}"] if arq.resource_class != provider.resource_class else []
    wanting += [trait for trait in arq.required if trait not in provider.traits]
    wanting += [f"no {trait}" for trait in arq.forbidden if trait in provider.traits]
    if wanting:
        raise Conflict(
            "provider-does-not-fit",
            f"Accelerator request {arq.uuid} wants {', '.join(wanting)}; {provider.name} is "
            f"{provider.resource_class} with {', '.join(provider.traits) or 'no traits'}.",
        )


def _check_guests(provider: Record) -> None:
    """A pool has no such members: see :mod:`cantle.placement.pool`."""
    if for_containers(provider.labels):
        raise Conflict(
            "containers-only",
            f"{provider.name} goes to containers alone, and an instance is a virtual machine: borrow it with 'cantle lease create --attach "
            "lxc:NAME' or 'cdi:NAME'.",
        )


def _start(one: Bind, arq: Record, owners: Mapping[str, str], moment: dt.datetime) -> dict[str, Any]:
    return {
        "arq_id": arq.id,
        "to_hostname": one.hostname,
        "to_rp": one.device_rp_uuid,
        "to_instance": one.instance_uuid,
        "to_project": one.project_id or owners.get(one.instance_uuid) or arq.project_id,
        "seconds": BIND_SECONDS,
        "now": moment,
    }


def _set_owners(connection: Connection, todo: Mapping[str, Bind], owners: Mapping[str, str]) -> None:
    """An administrator's word replaces what was remembered."""
    named = {one.instance_uuid: one.project_id for one in todo.values() if one.project_id is not None}
    changed = {instance: project for instance, project in named.items() if owners.get(instance, project) != project}
    if changed:
        owner.replace(connection, changed)


def _arq_uuid(text: str) -> str:
    uuid = uuids.canonical(text)
    if uuid is None:
        raise absent.arqs([text])
    return uuid
