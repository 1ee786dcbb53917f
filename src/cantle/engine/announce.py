"""Events are written here, in the transaction that changes the state: both are committed, or neither (docs/events.md)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Connection

from cantle.model import uuids
from cantle.model.arq import ArqState
from cantle.model.event import Channel, EventType
from cantle.model.lease import Lease, LeaseState
from cantle.store import lease as lease_store
from cantle.store import outbox
from cantle.store.database import outbox_topic, outlets, wake
from cantle.store.types import Record

#: Characters of a reason that an event carries; a host's message may be long, and receivers limit bodies.
LONGEST_REASON = 1000

_OF_LEASE = {
    LeaseState.PENDING: EventType.LEASE_PENDING,
    LeaseState.ACTIVE: EventType.LEASE_ACTIVE,
    LeaseState.FAILED: EventType.LEASE_FAILED,
    LeaseState.RELEASING: EventType.LEASE_RELEASING,
    LeaseState.CLEANING: EventType.LEASE_CLEANING,
    LeaseState.QUARANTINED: EventType.LEASE_QUARANTINED,
    LeaseState.RELEASED: EventType.LEASE_RELEASED,
}


@dataclass(frozen=True, slots=True)
class Settled:
    """An ARQ whose bind came to its end. ``row`` has `cantle.store.arq.OF_EVENT` and ``lease_uuid``."""

    row: Record
    state: ArqState
    code: str | None = None
    why: str | None = None

    @property
    def for_nova(self) -> bool:
        """Whether the compute service waits for it: it was bound for an instance, with a service token."""
        return self.row.instance_uuid is not None and self.row.lease_uuid is None


def announced_s(connection: Connection, settled: Settled) -> float:
    """For how many seconds it is announced that this bind failed; 0 if it did not, or where the compute service is not told."""
    waits = outlets(connection).nova_waits
    announced = settled.state is ArqState.BIND_FAILED and settled.for_nova
    return waits if waits is not None and announced else 0.0


def arqs_settled(connection: Connection, settled: Sequence[Settled], moment: dt.datetime) -> None:
    """Tell whom it concerns that binds came to their end, well or not."""
    told = outlets(connection)
    if told.nova_waits is not None:
        for_nova = [one for one in settled if one.for_nova]
        done = [one.row for one in for_nova if one.state is ArqState.BOUND]
        failed = [one.row for one in for_nova if one.state is ArqState.BIND_FAILED]
        _post(connection, Channel.NOVA, [_nova(row.arq_uuid, row, "completed") for row in done])
        _post(
            connection,
            Channel.NOVA,
            [{**_nova(row.arq_uuid, row, "failed"), "seconds": told.nova_waits} for row in failed],
        )
    if told.webhook:
        _post(connection, Channel.WEBHOOK, [_webhook_of_arq(one, moment) for one in settled])


def bound_already(connection: Connection, rows: Sequence[Record]) -> None:
    """Tell the compute service again of ARQs (rows of `cantle.store.bind.to_bind`) that it wants bound and that are: it asks again when
    it lost our answer, and may have lost the event with it."""
    if rows and outlets(connection).nova_waits is not None:
        _post(connection, Channel.NOVA, [_nova(row.uuid, row, "completed") for row in rows])


def leases_now(connection: Connection, lease_uuids: set[str]) -> dict[str, Lease]:
    """The leases as they are before a change, for `leases_changed`. Nothing is read where nobody is told."""
    if not lease_uuids or not outlets(connection).webhook:
        return {}
    return lease_store.by_uuids(connection, sorted(lease_uuids))


def leases_changed(connection: Connection, before: Mapping[str, Lease], moment: dt.datetime) -> None:
    """Tell of leases that are in another state than before."""
    if not before:
        return
    after = lease_store.by_uuids(connection, sorted(before))
    changed = [lease for uuid, lease in after.items() if lease.state is not before[uuid].state]
    _post(connection, Channel.WEBHOOK, [_webhook_of_lease(_OF_LEASE[one.state], one, moment) for one in changed])


def lease_told(connection: Connection, kind: EventType, uuid: str, moment: dt.datetime) -> None:
    """Tell something of a lease that is no change of its state: that it ends soon, or that its time is over."""
    if outlets(connection).webhook:
        for lease in lease_store.by_uuids(connection, [uuid]).values():
            lease_is(connection, kind, lease, moment)


def lease_is(connection: Connection, kind: EventType, lease: Lease, moment: dt.datetime) -> None:
    """The same of a lease that is at hand: that it was made, or renewed."""
    if outlets(connection).webhook:
        _post(connection, Channel.WEBHOOK, [_webhook_of_lease(kind, lease, moment)])


def device_told(
    connection: Connection, kind: EventType, bodies: Sequence[tuple[str, dict[str, Any]]], moment: dt.datetime
) -> None:
    """Tell something of devices (uuid, and what is told)."""
    if outlets(connection).webhook:
        _post(connection, Channel.WEBHOOK, [_webhook(kind, uuid, data, moment) for uuid, data in bodies])


def _post(connection: Connection, channel: Channel, rows: Sequence[dict[str, Any]]) -> None:
    if rows:
        outbox.post(connection, [{"uuid": uuids.new(), "channel": channel, **row} for row in rows])
        wake(connection, outbox_topic(channel))


def _nova(arq_uuid: str, row: Record, status: str) -> dict[str, Any]:
    """The body as Nova's ``os-server-external-events`` takes it (contract section 2)."""
    body = {"name": EventType.REQUEST_BOUND, "server_uuid": row.instance_uuid, "tag": arq_uuid, "status": status}
    return {
        "about": arq_uuid,
        "type": EventType.REQUEST_BOUND,
        "body": _json(body),
        "bind_serial": row.bind_serial,
    }


def _webhook_of_arq(one: Settled, moment: dt.datetime) -> dict[str, Any]:
    kind = EventType.ARQ_BOUND if one.state is ArqState.BOUND else EventType.ARQ_FAILED
    data = {
        "uuid": one.row.arq_uuid,
        "state": one.state,
        "device_profile_name": one.row.profile_name,
        "project_id": one.row.project_id,
        "hostname": one.row.hostname,
        "instance_uuid": one.row.instance_uuid,
        "lease_uuid": one.row.lease_uuid,
        "reason_code": one.code,
        "reason": _cut(one.why),
    }
    return _webhook(kind, one.row.arq_uuid, data, moment)


def _webhook_of_lease(kind: EventType, lease: Lease, moment: dt.datetime) -> dict[str, Any]:
    failed = next((arq for arq in lease.arqs if arq.reason_code is not None), None)
    data = {
        "uuid": lease.uuid,
        "state": lease.state,
        "profile_name": lease.profile_name,
        "project_id": lease.project_id,
        "owner": lease.owner,
        "workload": lease.workload,
        "hostname": lease.hostname,
        "expires_at": lease.expires_at,
        "on_expiry": lease.on_expiry,
        "reason_code": failed.reason_code if failed is not None else None,
        "reason": _cut(failed.reason if failed is not None else " ".join(lease.reasons) or None),
    }
    return _webhook(kind, lease.uuid, data, moment)


def _webhook(kind: EventType, about: str, data: dict[str, Any], moment: dt.datetime) -> dict[str, Any]:
    """The body in the form of Standard Webhooks: type, timestamp, data."""
    return {"about": about, "type": kind, "body": _json({"type": kind, "timestamp": moment, "data": data})}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= LONGEST_REASON else text[: LONGEST_REASON - 1] + "…"
