"""The table of who did what."""

from __future__ import annotations

from sqlalchemy import Column, Index, Table

from cantle.store.tables import metadata
from cantle.store.types import Facts, RowId, UtcTime, Uuid, name

# What was done, by whom, to which thing; written in the transaction that does it. Rows are never changed, and deleted only by
# `cantle.store.audit.purge`, which leaves a row that says so. ``user_id``, ``project_id`` are those who did it, ``owner_id`` is the
# project whose thing it is. A row that says that a unit is back has in ``since`` when it was lent: usage is counted from these.
# Nothing refers to other tables: what is told of may be long gone.
audit_records = Table(
    "audit_records",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("uuid", Uuid, nullable=False, unique=True),
    Column("created_at", UtcTime, nullable=False),
    Column("action", name(64), nullable=False),
    Column("user_id", name(), nullable=False),
    Column("project_id", name()),
    Column("token_uuid", Uuid),
    Column("request_id", name()),
    Column("owner_id", name()),
    Column("hostname", name()),
    Column("device", name()),
    Column("unit_uuid", Uuid),
    Column("resource_class", name()),
    Column("lease_uuid", Uuid),
    Column("arq_uuid", Uuid),
    Column("instance_uuid", Uuid),
    Column("since", UtcTime),
    Column("facts", Facts, nullable=False),
    Index(None, "created_at"),
    Index(None, "device"),
    Index(None, "unit_uuid"),
    Index(None, "lease_uuid"),
    Index(None, "arq_uuid"),
    Index(None, "instance_uuid"),
)
