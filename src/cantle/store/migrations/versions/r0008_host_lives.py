"""Which machine a host is, what it and we have to say of it, and what operators want with it as a whole."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from cantle.store import types

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Plain ADD COLUMN: no database copies the table for these.
    for column in (
        sa.Column("machine", types.name(64)),
        sa.Column("boot", types.name(64)),
        sa.Column("former_boots", types.Words()),
        sa.Column("agent_version", types.name(64)),
        sa.Column("clock_skew_ms", types.RowId),
        sa.Column("conditions", types.Rows()),
        sa.Column("warnings", types.Rows()),
        sa.Column("drained_at", types.UtcTime()),
        sa.Column("drained_by", types.name()),
        sa.Column("frozen_at", types.UtcTime()),
        sa.Column("frozen_code", types.name(64)),
        sa.Column("frozen_reason", sa.Text()),
        sa.Column("followed", types.RowId, nullable=False, server_default="0"),
        sa.Column("confirmed", types.RowId, nullable=False, server_default="0"),
        sa.Column("forgotten_at", types.UtcTime()),
    ):
        op.add_column("hosts", column)
