"""What we know of OpenStack Placement. Empty where ``[placement]`` is not configured."""

from __future__ import annotations

from sqlalchemy import Column, Integer, String, Table, Text

from cantle.store.tables import metadata
from cantle.store.types import LongText, RowId, UtcTime, Uuid, name

# How far each host's devices are published. ``stamp`` is a digest of what decided about the last publication; ``due_at`` is when to
# look again though it has not changed. ``claimed_by`` and ``claimed_until``: a keeper is at it. No foreign key: what a host had
# published must be taken away after its row is gone.
placement_hosts = Table(
    "placement_hosts",
    metadata,
    Column("host_id", RowId, primary_key=True, autoincrement=False),
    Column("hostname", name(), nullable=False),
    Column("root_uuid", Uuid, unique=True),
    Column("root_name", name()),
    Column("stamp", String(64)),
    Column("synced_at", UtcTime),
    Column("looked_at", UtcTime),
    Column("due_at", UtcTime, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("waiting", Text),
    Column("notes", Text),
    Column("code", name(64)),
    Column("problem", Text),
    Column("claimed_by", Uuid),
    Column("claimed_until", UtcTime),
)

# Every provider we have made or adopted, written before it is made: what is not here is not ours. ``record`` is the JSON text of
# `cantle.model.provider.Record`. ``missing_since``: its device has not been named by its host since then.
placement_providers = Table(
    "placement_providers",
    metadata,
    Column("uuid", Uuid, primary_key=True),
    Column("host_id", RowId, nullable=False, index=True),
    Column("record", LongText, nullable=False),
    Column("missing_since", UtcTime),
)

# Which deployables are offered together as one provider ([placement] pool_identical). ``pool_key`` says what they have in common.
pool_members = Table(
    "pool_members",
    metadata,
    Column("deployable_id", RowId, primary_key=True, autoincrement=False),
    Column("host_id", RowId, nullable=False, index=True),
    Column("pool_uuid", Uuid, nullable=False, index=True),
    Column("pool_key", String(64), nullable=False),
)
