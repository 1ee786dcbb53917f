"""The whole schema, whichever module a table stands in: for migrations, and for whoever empties a database. A new table's module is
named here."""

from __future__ import annotations

from cantle.store import token_table
from cantle.store.tables import metadata

__all__ = ["metadata", "token_table"]
