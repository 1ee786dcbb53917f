"""Claims: which unit is lent for which ARQ, or is still being taken back."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, case, delete, insert, literal, select, update

from cantle.model.identity import Identity
from cantle.store.arq import OF_EVENT
from cantle.store.attachment_table import attachments
from cantle.store.deployable import FREE, USED
from cantle.store.prepared import Prepared
from cantle.store.service import FOLLOWED, LENDABLE_NOW, OPEN, with_intents
from cantle.store.tables import arqs, attach_handles, claims, deployables, devices, hosts, leases
from cantle.store.types import Record, RowId, UtcTime, database_now, name

_taken = claims.alias("taken")
_NAME = name()
_NOBODY = {"project": None, "by": None, "request": None}

#: What exists already goes before what would have to be made: the key of an adopted unit ends with its uuid (drivers/slices.py).
_ADOPTED_FIRST = case((attach_handles.c.key.endswith(attach_handles.c.uuid), 0), else_=1)

#: The first free unit of a deployable, for one ARQ, unless its device is being changed. Choosing and claiming are one statement; the
#: caller holds the host's row, so that nobody chooses at the same time, and the unique handle stops whoever did not.
_TAKE = Prepared(
    insert(claims).from_select(
        [
            *(
                "attach_handle_id",
                "deployable_id",
                "host_id",
                "arq_id",
                "lease_id",
                "wanted",
                "generation",
                "created_at",
            ),
            *("project_id", "lent_by", "lent_request", "lent_at"),
        ],
        select(
            attach_handles.c.id,
            attach_handles.c.deployable_id,
            deployables.c.host_id,
            bindparam("arq", type_=RowId),
            bindparam("lease", type_=RowId),
            literal(True),
            hosts.c.generation,
            bindparam("now", type_=UtcTime()),
            bindparam("project", type_=_NAME),
            bindparam("by", type_=_NAME),
            bindparam("request", type_=_NAME),
            database_now(),
        )
        .select_from(
            with_intents(
                attach_handles.join(deployables, deployables.c.id == attach_handles.c.deployable_id)
                .join(devices, devices.c.id == deployables.c.device_id)
                .join(hosts, hosts.c.id == deployables.c.host_id)
                .outerjoin(_taken, _taken.c.attach_handle_id == attach_handles.c.id)
            )
        )
        .where(
            attach_handles.c.deployable_id == bindparam("deployable_id"),
            attach_handles.c.present,
            _taken.c.id.is_(None),
            FOLLOWED,
            OPEN,
            LENDABLE_NOW,
        )
        .order_by(_ADOPTED_FIRST, attach_handles.c.id)
        .limit(1),
        include_defaults=False,
    )
)

_GENERATION = select(hosts.c.generation).where(hosts.c.id == claims.c.host_id).scalar_subquery()
_UNWANT = (
    update(claims)
    .values(
        wanted=False,
        generation=_GENERATION,
        updated_at=bindparam("now"),
        ended_by=bindparam("by"),
        ended_request=bindparam("request"),
    )
    .where(claims.c.wanted)
)
_UNWANT_OF_ARQS = Prepared(_UNWANT.where(claims.c.arq_id.in_(bindparam("arq_ids", expanding=True))), lists=("arq_ids",))
_UNWANT_OF_LEASE = _UNWANT.where(claims.c.lease_id == bindparam("of_lease"))

#: Everything a host should do, in one statement, so that the list and its generation belong together.
_WORK = Prepared(
    select(
        hosts.c.generation,
        hosts.c.confirmed,
        claims.c.wanted,
        attach_handles.c.uuid,
        attach_handles.c.attach_type,
        attach_handles.c.attach_info,
        devices.c.address,
        attachments.c.kind.label("guest_kind"),
        attachments.c.name.label("guest_name"),
        attachments.c.start.label("guest_start"),
        leases.c.uuid.label("lease_uuid"),
        leases.c.on_expiry,
        leases.c.expired_at,
        arqs.c.uuid.label("loan"),
    )
    .select_from(
        hosts.outerjoin(claims, claims.c.host_id == hosts.c.id)
        .outerjoin(attach_handles, attach_handles.c.id == claims.c.attach_handle_id)
        .outerjoin(deployables, deployables.c.id == claims.c.deployable_id)
        .outerjoin(devices, devices.c.id == deployables.c.device_id)
        .outerjoin(attachments, attachments.c.lease_id == claims.c.lease_id)
        .outerjoin(leases, leases.c.id == attachments.c.lease_id)
        .outerjoin(arqs, arqs.c.id == claims.c.arq_id)
    )
    .where(hosts.c.hostname == bindparam("hostname"))
    .order_by(claims.c.id)
)

#: What the audit log says of a unit that is or was lent; of a claim with its deployable and its device.
OF_LOAN = (
    claims.c.project_id.label("owner_id"),
    claims.c.lent_at,
    claims.c.lent_by,
    claims.c.lent_request,
    claims.c.ended_by,
    claims.c.ended_request,
    devices.c.address.label("device"),
    deployables.c.resource_class,
)

_CLAIMS = select(
    claims.c.id,
    claims.c.wanted,
    claims.c.generation,
    claims.c.reason_code,
    claims.c.reason,
    attach_handles.c.id.label("handle_id"),
    attach_handles.c.uuid,
    attach_handles.c.present,
    claims.c.deployable_id,
    claims.c.host_id.label("held_on_id"),
    claims.c.stage,
    *OF_LOAN,
    (USED + FREE - deployables.c.total).label("surplus"),
    *OF_EVENT,
    arqs.c.state,
    arqs.c.reason_code.label("arq_reason_code"),
    leases.c.uuid.label("lease_uuid"),
    attachments.c.kind.label("guest_kind"),
).select_from(
    claims.join(attach_handles, attach_handles.c.id == claims.c.attach_handle_id)
    .join(deployables, deployables.c.id == claims.c.deployable_id)
    .join(devices, devices.c.id == deployables.c.device_id)
    .outerjoin(arqs, arqs.c.id == claims.c.arq_id)
    .outerjoin(leases, leases.c.id == claims.c.lease_id)
    .outerjoin(attachments, attachments.c.lease_id == claims.c.lease_id)
)
_BY_HANDLES = Prepared(
    _CLAIMS.where(
        claims.c.host_id == bindparam("host_id"), attach_handles.c.uuid.in_(bindparam("uuids", expanding=True))
    ),
    lists=("uuids",),
)
_OF_LEASE = _CLAIMS.where(claims.c.lease_id == bindparam("of_lease")).order_by(claims.c.id)
_REASONS = (
    select(claims.c.lease_id, claims.c.reason)
    .where(
        claims.c.lease_id.in_(bindparam("lease_ids", expanding=True)), ~claims.c.wanted, claims.c.reason.is_not(None)
    )
    .order_by(claims.c.id)
)
_REMOVE = Prepared(delete(claims).where(claims.c.id.in_(bindparam("ids", expanding=True))), lists=("ids",))

_NOTE = (
    update(claims)
    .where(claims.c.id == bindparam("claim_id"))
    .values(
        wanted=bindparam("is_wanted"),
        generation=_GENERATION,
        reason_code=bindparam("code"),
        reason=bindparam("why"),
        stage=bindparam("to_stage"),
        updated_at=bindparam("now"),
    )
)


def take(connection: Connection, rows: Sequence[dict[str, Any]]) -> int:
    """Claim a free unit of ``deployable_id`` for the number of an ``arq`` and of its ``lease`` (or None), for each row; how many were
    found. ``project`` is whose it will be; ``by`` and ``request`` say who asked."""
    return _TAKE.change(connection, *({**_NOBODY, **row} for row in rows))


def unwant(connection: Connection, arq_ids: Sequence[int], now: dt.datetime, by: Identity) -> None:
    """The units claimed for these ARQs are to be taken back."""
    _UNWANT_OF_ARQS.change(
        connection, {"arq_ids": arq_ids, "now": now, "by": by.user_id, "request": by.request_id or None}
    )


def unwant_of_lease(connection: Connection, lease_id: int, now: dt.datetime, by: Identity) -> int:
    """The units claimed for a lease are to be taken back; how many that are."""
    values = {"of_lease": lease_id, "now": now, "by": by.user_id, "request": by.request_id or None}
    return connection.execute(_UNWANT_OF_LEASE, values).rowcount


def work(connection: Connection, hostname: str) -> Sequence[Record]:
    """generation, wanted, uuid, attach_type, attach_info, address of each claim on a host. A host without claims is one row whose
    ``uuid`` is None, an unknown host none."""
    return _WORK.all(connection, {"hostname": hostname})


def of_handles(connection: Connection, host_id: int, uuids: Sequence[str]) -> dict[str, Record]:
    """By handle uuid, the claims on these units of a host, with their ARQ's number and state and with `OF_LOAN`. ``surplus`` is how many
    units the deployable has beyond what its host can deliver."""
    return {row.uuid: row for row in _BY_HANDLES.all(connection, {"host_id": host_id, "uuids": uuids})}


def of_lease(connection: Connection, lease_id: int) -> Sequence[Record]:
    """The claims of a lease, as those of `of_handles`."""
    return connection.execute(_OF_LEASE, {"of_lease": lease_id}).all()


def reasons(connection: Connection, lease_ids: Sequence[int]) -> Sequence[Record]:
    """lease_id and reason of units that hosts could not take back yet."""
    return connection.execute(_REASONS, {"lease_ids": list(lease_ids)}).all()


def note(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Set whether claims are wanted, why something failed, and how far the host is with taking them back (``to_stage``)."""
    connection.execute(_NOTE, list(rows))


def remove(connection: Connection, ids: Sequence[int]) -> None:
    """Nobody holds these units any more."""
    _REMOVE.change(connection, {"ids": ids})


def remove_handles(connection: Connection, handle_ids: Sequence[int]) -> None:
    """Delete units that were claimed and are not any more."""
    connection.execute(delete(attach_handles).where(attach_handles.c.id.in_(list(handle_ids))))
