"""The table of attachments."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, ForeignKey, Table, false

from cantle.store.tables import metadata
from cantle.store.types import RowId, name

# Which guest a lease goes into, of the leases that go into one by themselves: see model/attachment.py.
attachments = Table(
    "attachments",
    metadata,
    Column("lease_id", RowId, ForeignKey("leases.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("kind", name(16), nullable=False),
    Column("name", name(64), nullable=False),
    # The guest is started when it has all of the lease for the first time.
    Column("start", Boolean, nullable=False, server_default=false()),
)
