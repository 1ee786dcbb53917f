"""How often a lease asked for its profile: its units do not tell, since cards that go along count among them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("leases", sa.Column("times", sa.Integer()))
