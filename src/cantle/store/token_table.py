"""The table of tokens."""

from __future__ import annotations

from sqlalchemy import Column, Index, String, Table

from cantle.store.tables import metadata
from cantle.store.types import RowId, UtcTime, Uuid, name

# Who may call. ``secret_hash`` is of the secret part alone. Rows stay when a token is over: they say who could do what when.
tokens = Table(
    "tokens",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("uuid", Uuid, nullable=False, unique=True),
    Column("name", name(100), nullable=False),
    Column("role", String(16), nullable=False),
    Column("project_id", name()),
    Column("hostname", name()),
    Column("secret_hash", String(64), nullable=False),
    Column("created_by", name(), nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("expires_at", UtcTime),
    Column("revoked_at", UtcTime),
    Column("last_used_at", UtcTime),
    Index(None, "hostname", "role"),
    Index(None, "created_at"),
)
