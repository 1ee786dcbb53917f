"""The outbox of events, and what ARQs need for it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from cantle.store import types

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "outbox",
        sa.Column("id", types.RowId, autoincrement=True),
        sa.Column("uuid", types.Uuid, nullable=False),
        sa.Column("channel", sa.String(16), nullable=False),
        sa.Column("about", types.Uuid, nullable=False),
        sa.Column("type", types.name(64), nullable=False),
        sa.Column("body", types.LongText, nullable=False),
        sa.Column("bind_serial", types.RowId),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("due_at", types.UtcTime(), nullable=False),
        sa.Column("repeat_until", types.UtcTime()),
        sa.Column("claimed_by", types.Uuid),
        sa.Column("claimed_until", types.UtcTime()),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("problem", sa.Text()),
        sa.Column("ended_at", types.UtcTime()),
        sa.Column("outcome", sa.String(16)),
        sa.PrimaryKeyConstraint("id", name="pk_outbox"),
        sa.UniqueConstraint("uuid", name="uq_outbox_uuid"),
    )
    op.create_index("ix_outbox_channel_ended_at_due_at", "outbox", ["channel", "ended_at", "due_at"])
    op.create_index("ix_outbox_about", "outbox", ["about"])
    op.create_index("ix_outbox_claimed_by", "outbox", ["claimed_by"])
    op.create_index("ix_outbox_ended_at", "outbox", ["ended_at"])
    # Plain ADD COLUMN: no database copies the table for these.
    op.add_column("arqs", sa.Column("bind_serial", types.RowId, nullable=False, server_default="0"))
    op.add_column("arqs", sa.Column("announced_until", types.UtcTime()))
