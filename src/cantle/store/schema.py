"""The whole schema, whichever module a table stands in: for migrations, and for whoever empties a database. A new table's module is
named here."""

from __future__ import annotations

from cantle.store import (
    attachment_table,
    audit_table,
    idempotency_table,
    kind_tables,
    provider_tables,
    quota_table,
    token_table,
)
from cantle.store.tables import metadata

__all__ = [
    "attachment_table",
    "audit_table",
    "idempotency_table",
    "kind_tables",
    "metadata",
    "provider_tables",
    "quota_table",
    "token_table",
]
