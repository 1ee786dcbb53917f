"""Into which guests leases go."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, insert, select

from cantle.model.attachment import Attachment, GuestKind
from cantle.store.attachment_table import attachments
from cantle.store.tables import claims, leases
from cantle.store.types import Record


def add(connection: Connection, lease_id: int, attachment: Attachment, *, start: bool) -> None:
    """A lease goes into a guest, which is started then if ``start``."""
    values = {"lease_id": lease_id, "kind": attachment.kind, "name": attachment.name, "start": start}
    connection.execute(insert(attachments), values)


def units_in(connection: Connection, host_id: int, guest: Attachment) -> Sequence[Record]:
    """Units that leases have brought into a guest of a host, or are taking out of it: ``deployable_id``, ``lease_uuid``."""
    return connection.execute(
        select(claims.c.deployable_id, leases.c.uuid.label("lease_uuid"))
        .select_from(
            claims.join(attachments, attachments.c.lease_id == claims.c.lease_id).join(
                leases, leases.c.id == claims.c.lease_id
            )
        )
        .where(claims.c.host_id == host_id, attachments.c.kind == guest.kind, attachments.c.name == guest.name)
    ).all()


def attachment(row: Record) -> Attachment | None:
    """The value of a row that has ``guest_kind`` and ``guest_name``, both None for no guest."""
    return None if row.guest_kind is None else Attachment(GuestKind(row.guest_kind), row.guest_name)
