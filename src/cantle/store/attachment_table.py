"""The table of attachments."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Table

from cantle.store.tables import metadata
from cantle.store.types import RowId, name

# Which guest a lease goes into, of the leases that go into one by themselves: see model/attachment.py.
attachments = Table(
    "attachments",
    metadata,
    Column("lease_id", RowId, ForeignKey("leases.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("kind", name(16), nullable=False),
    Column("name", name(64), nullable=False),
)
