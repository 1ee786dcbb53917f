"""The table of quotas."""

from __future__ import annotations

from sqlalchemy import Column, Integer, Table, UniqueConstraint

from cantle.store.tables import metadata
from cantle.store.types import RowId, UtcTime, name

# How many units of a resource class a project may have at once. ``turn`` is raised by each request that is checked, so that two of them
# queue on the row, or one of them is done again where row locks do not replicate.
quotas = Table(
    "quotas",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("project_id", name(), nullable=False),
    Column("resource_class", name(), nullable=False),
    Column("most", Integer, nullable=False),
    Column("turn", RowId, nullable=False, server_default="0"),
    Column("created_at", UtcTime, nullable=False),
    Column("updated_at", UtcTime),
    UniqueConstraint("project_id", "resource_class"),
)
