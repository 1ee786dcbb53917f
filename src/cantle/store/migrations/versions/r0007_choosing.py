"""Kinds of offers, how much of each a host has free, labels of cards, flavors."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from cantle.store import types

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "kinds",
        sa.Column("digest", types.name(40), nullable=False),
        sa.Column("facts", types.LongText, nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_kinds"),
    )
    op.create_table(
        "stocks",
        sa.Column("host_id", types.RowId, autoincrement=False, nullable=False),
        sa.Column("kind", types.name(40), nullable=False),
        sa.Column("free", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["host_id"], ["hosts.id"], name="fk_stocks_host_id_hosts", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["kind"], ["kinds.digest"], name="fk_stocks_kind_kinds"),
        sa.PrimaryKeyConstraint("host_id", "kind", name="pk_stocks"),
    )
    op.create_index("ix_stocks_kind_free_host_id", "stocks", ["kind", "free", "host_id"])
    # Plain ADD COLUMN: no database copies the table for these.
    op.add_column("devices", sa.Column("labels", types.Facts))
    op.add_column("deployables", sa.Column("kind", types.name(40)))
    op.add_column("device_profiles", sa.Column("extra_specs", types.Facts))
    # Every host's next report is read in full: that is how its cards get their kinds.
    op.execute("UPDATE hosts SET digest = NULL")
