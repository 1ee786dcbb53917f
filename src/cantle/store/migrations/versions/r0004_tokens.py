"""Bearer tokens."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from cantle.store import types

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", types.RowId, autoincrement=True),
        sa.Column("uuid", types.Uuid, nullable=False),
        sa.Column("name", types.name(100), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("project_id", types.name()),
        sa.Column("hostname", types.name()),
        sa.Column("secret_hash", sa.String(64), nullable=False),
        sa.Column("created_by", types.name(), nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("expires_at", types.UtcTime()),
        sa.Column("revoked_at", types.UtcTime()),
        sa.Column("last_used_at", types.UtcTime()),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.UniqueConstraint("uuid", name="uq_tokens_uuid"),
    )
    op.create_index("ix_tokens_hostname_role", "tokens", ["hostname", "role"])
    op.create_index("ix_tokens_created_at", "tokens", ["created_at"])
