"""Tables of choosing without OpenStack: kinds of offers, and how much of each kind a host has free."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, Integer, Table

from cantle.store.tables import metadata
from cantle.store.types import LongText, RowId, UtcTime, name

# What cards of one kind have in common (`cantle.model.kind`), as JSON text under its digest. Rows are never changed.
kinds = Table(
    "kinds",
    metadata,
    Column("digest", name(40), primary_key=True),
    Column("facts", LongText, nullable=False),
    Column("created_at", UtcTime, nullable=False),
)

# How many units of a kind a host has that are free or coming back, so that hosts are found by an index and not by looking at every
# card. It is a hint: what is really free is read, and locked, on the few hosts that are found. Whoever changes what leases hold, or
# takes in a report, writes it anew for the host; the keeper does for all.
stocks = Table(
    "stocks",
    metadata,
    Column("host_id", RowId, ForeignKey("hosts.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("kind", name(40), ForeignKey("kinds.digest"), primary_key=True),
    Column("free", Integer, nullable=False),
    Index(None, "kind", "free", "host_id"),
)
