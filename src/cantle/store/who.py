"""Who has what: from a card, a unit, a request, an instance, a lease or a workload to all the others of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import BindParameter, Connection, and_, bindparam, or_, select, union

from cantle.model.attachment import GuestKind
from cantle.model.audit import Record as AuditRecord
from cantle.store.attachment_table import attachments
from cantle.store.audit import record
from cantle.store.audit_table import audit_records as log
from cantle.store.tables import arqs, attach_handles, claims, deployables, devices, hosts, leases
from cantle.store.types import Record

#: Past records shown.
PAST = 20

_TEXT: BindParameter[str] = bindparam("text")
_UUID: BindParameter[str] = bindparam("uuid")
_ADDRESS: BindParameter[str] = bindparam("address")
_IS_GUEST = and_(attachments.c.name == bindparam("guest"), attachments.c.kind.in_(bindparam("kinds", expanding=True)))

#: Each by an index of its own, and joined: MariaDB would look up an ``IN`` of them for each row there is.
_FOUND = union(
    select(claims.c.id)
    .join(deployables, deployables.c.id == claims.c.deployable_id)
    .join(devices, devices.c.id == deployables.c.device_id)
    .where(or_(devices.c.address == _ADDRESS, devices.c.uuid == _UUID)),
    select(claims.c.id)
    .join(attach_handles, attach_handles.c.id == claims.c.attach_handle_id)
    .where(or_(attach_handles.c.uuid == _UUID, attach_handles.c.key == _ADDRESS)),
    select(claims.c.id)
    .join(arqs, arqs.c.id == claims.c.arq_id)
    .where(or_(arqs.c.uuid == _UUID, arqs.c.instance_uuid == _UUID)),
    select(claims.c.id)
    .join(leases, leases.c.id == claims.c.lease_id)
    .where(or_(leases.c.uuid == _UUID, leases.c.workload == _TEXT)),
    select(claims.c.id).join(attachments, attachments.c.lease_id == claims.c.lease_id).where(_IS_GUEST),
).subquery("found")

_HOLDINGS = (
    select(
        hosts.c.hostname,
        devices.c.address.label("device"),
        devices.c.model,
        attach_handles.c.uuid.label("unit_uuid"),
        attach_handles.c.attach_type,
        deployables.c.resource_class,
        claims.c.project_id,
        claims.c.wanted,
        claims.c.stage,
        claims.c.reason,
        claims.c.lent_at,
        claims.c.lent_by,
        arqs.c.uuid.label("arq_uuid"),
        arqs.c.state.label("arq_state"),
        arqs.c.instance_uuid,
        leases.c.uuid.label("lease_uuid"),
        leases.c.workload,
        leases.c.expires_at,
        attachments.c.kind.label("guest_kind"),
        attachments.c.name.label("guest_name"),
    )
    .select_from(
        claims.join(_FOUND, _FOUND.c.id == claims.c.id)
        .join(attach_handles, attach_handles.c.id == claims.c.attach_handle_id)
        .join(deployables, deployables.c.id == claims.c.deployable_id)
        .join(devices, devices.c.id == deployables.c.device_id)
        .join(hosts, hosts.c.id == claims.c.host_id)
        .outerjoin(arqs, arqs.c.id == claims.c.arq_id)
        .outerjoin(leases, leases.c.id == claims.c.lease_id)
        .outerjoin(attachments, attachments.c.lease_id == claims.c.lease_id)
    )
    .order_by(hosts.c.hostname, devices.c.address, claims.c.id)
)
_OF_LEASES = select(log.c.id).join(leases, leases.c.uuid == log.c.lease_uuid)
#: Each by an index of its own here too: the log may be long.
_FOUND_PAST = union(
    *(
        select(log.c.id).where(log.c[name] == _UUID)
        for name in ("unit_uuid", "lease_uuid", "arq_uuid", "instance_uuid")
    ),
    select(log.c.id).where(log.c.device == _ADDRESS),
    _OF_LEASES.where(leases.c.workload == _TEXT),
    _OF_LEASES.join(attachments, attachments.c.lease_id == leases.c.id).where(_IS_GUEST),
).subquery("found")
_PAST = (
    select(log)
    .join(_FOUND_PAST, _FOUND_PAST.c.id == log.c.id)
    .where(log.c.action.like("unit.%"))
    .order_by(log.c.id.desc())
    .limit(PAST)
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked for: as it was given; as a uuid in our spelling, "" for what is none; and as sysfs spells it if it is a PCI address."""

    text: str
    uuid: str
    address: str

    def values(self) -> dict[str, object]:
        """The parameters of the statements. A guest is named with or without its kind (``lxc:c1``)."""
        kind, _, guest = self.text.rpartition(":")
        kinds = [kind] if kind else sorted(GuestKind)
        return {"text": self.text, "uuid": self.uuid, "address": self.address, "guest": guest, "kinds": kinds}


def holdings(connection: Connection, asked: Asked, project: str | None) -> Sequence[Record]:
    """Units that are lent or still being taken back, with everything they belong to.

    :param project: of this one only; None: of all.
    """
    query = _HOLDINGS if project is None else _HOLDINGS.where(claims.c.project_id == project)
    return connection.execute(query, asked.values()).all()


def past(connection: Connection, asked: Asked, project: str | None) -> list[AuditRecord]:
    """What was done to such units, the latest first. A workload's and a guest's for as long as their leases are kept."""
    query = _PAST if project is None else _PAST.where(log.c.owner_id == project)
    return [record(row) for row in connection.execute(query, asked.values())]
