"""What is known of OpenStack Placement: how far each host is published, providers of ours, pools."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from cantle.store import types

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "placement_hosts",
        sa.Column("host_id", types.RowId, autoincrement=False, nullable=False),
        sa.Column("hostname", types.name(), nullable=False),
        sa.Column("root_uuid", types.Uuid),
        sa.Column("root_name", types.name()),
        sa.Column("stamp", sa.String(64)),
        sa.Column("synced_at", types.UtcTime()),
        sa.Column("looked_at", types.UtcTime()),
        sa.Column("due_at", types.UtcTime(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("waiting", sa.Text()),
        sa.Column("notes", sa.Text()),
        sa.Column("code", types.name(64)),
        sa.Column("problem", sa.Text()),
        sa.Column("claimed_by", types.Uuid),
        sa.Column("claimed_until", types.UtcTime()),
        sa.PrimaryKeyConstraint("host_id", name="pk_placement_hosts"),
        sa.UniqueConstraint("root_uuid", name="uq_placement_hosts_root_uuid"),
    )
    op.create_table(
        "placement_providers",
        sa.Column("uuid", types.Uuid, nullable=False),
        sa.Column("host_id", types.RowId, nullable=False),
        sa.Column("record", types.LongText, nullable=False),
        sa.Column("missing_since", types.UtcTime()),
        sa.PrimaryKeyConstraint("uuid", name="pk_placement_providers"),
    )
    op.create_index("ix_placement_providers_host_id", "placement_providers", ["host_id"])
    op.create_table(
        "pool_members",
        sa.Column("deployable_id", types.RowId, autoincrement=False, nullable=False),
        sa.Column("host_id", types.RowId, nullable=False),
        sa.Column("pool_uuid", types.Uuid, nullable=False),
        sa.Column("pool_key", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("deployable_id", name="pk_pool_members"),
    )
    op.create_index("ix_pool_members_host_id", "pool_members", ["host_id"])
    op.create_index("ix_pool_members_pool_uuid", "pool_members", ["pool_uuid"])
