"""The table of idempotency keys."""

from __future__ import annotations

from sqlalchemy import Column, String, Table

from cantle.store.tables import metadata
from cantle.store.types import LongText, UtcTime

# A creating request that was done, by the key its caller gave it, and what it was answered (JSON text). Written in the transaction that
# creates; the primary key makes doing it twice impossible. Keepers delete old rows.
idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("place", String(64), primary_key=True),
    Column("request", String(64), nullable=False),
    Column("answer", LongText, nullable=False),
    Column("created_at", UtcTime, nullable=False, index=True),
)
