"""Into which guests leases go."""

from __future__ import annotations

from sqlalchemy import Connection, insert

from cantle.model.attachment import Attachment, GuestKind
from cantle.store.attachment_table import attachments
from cantle.store.types import Record


def add(connection: Connection, lease_id: int, attachment: Attachment, *, start: bool) -> None:
    """A lease goes into a guest, which is started then if ``start``."""
    values = {"lease_id": lease_id, "kind": attachment.kind, "name": attachment.name, "start": start}
    connection.execute(insert(attachments), values)


def attachment(row: Record) -> Attachment | None:
    """The value of a row that has ``guest_kind`` and ``guest_name``, both None for no guest."""
    return None if row.guest_kind is None else Attachment(GuestKind(row.guest_kind), row.guest_name)
