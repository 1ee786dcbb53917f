"""When a unit of a deployable could last not be made ready, so that the next request goes to another card."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from cantle.store.types import UtcTime

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("deployables", sa.Column("failed_at", UtcTime()))
