"""Which of its instance's requests one is: two calls that bind for one instance at once cannot both come through."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Of those that are bound already it stays NULL, of which any number are unique: they are seen by whoever binds now.
    op.add_column("arqs", sa.Column("nth_of_instance", sa.Integer()))
    op.create_index("ix_arqs_instance_uuid_nth_of_instance", "arqs", ["instance_uuid", "nth_of_instance"], unique=True)
