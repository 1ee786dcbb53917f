"""The whole schema, whichever module a table stands in: for migrations, and for whoever empties a database. A new table's module is
named here."""

from __future__ import annotations

from cantle.store import idempotency_table, kind_tables, provider_tables, token_table
from cantle.store.tables import metadata

__all__ = ["idempotency_table", "kind_tables", "metadata", "provider_tables", "token_table"]
