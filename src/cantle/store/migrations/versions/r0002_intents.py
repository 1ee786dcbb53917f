"""Intents: what operators want devices to be, and what hosts say of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from cantle.store import types

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "intents",
        sa.Column("id", types.RowId, autoincrement=True),
        sa.Column("device_id", types.RowId, nullable=False),
        sa.Column("version", types.RowId, nullable=False),
        sa.Column("intent", sa.Text()),
        sa.Column("set_by", types.name(), nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("updated_at", types.UtcTime()),
        sa.ForeignKeyConstraint(["device_id"], ["devices.id"], name="fk_intents_device_id_devices"),
        sa.PrimaryKeyConstraint("id", name="pk_intents"),
        sa.UniqueConstraint("device_id", name="uq_intents_device_id"),
    )
    # Plain ADD COLUMN: no database copies the table for these.
    op.add_column("devices", sa.Column("mdev_types", types.FactsByName()))
    op.add_column("devices", sa.Column("intent_version", types.RowId, nullable=False, server_default="0"))
    op.add_column("devices", sa.Column("intent_tried", types.RowId, nullable=False, server_default="0"))
    op.add_column("devices", sa.Column("intent_code", types.name(64)))
    op.add_column("devices", sa.Column("intent_error", sa.Text()))
    op.add_column("devices", sa.Column("plans", types.LongText))
