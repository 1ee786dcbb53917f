"""Into which guests leases go."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from cantle.store import types

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "attachments",
        sa.Column("lease_id", types.RowId, autoincrement=False, nullable=False),
        sa.Column("kind", types.name(16), nullable=False),
        sa.Column("name", types.name(64), nullable=False),
        sa.PrimaryKeyConstraint("lease_id", name="pk_attachments"),
        sa.ForeignKeyConstraint(["lease_id"], ["leases.id"], ondelete="CASCADE", name="fk_attachments_lease_id_leases"),
    )
