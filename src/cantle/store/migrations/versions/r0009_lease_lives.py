"""Leases with a life: who did what, quotas, how far a unit that is taken back is, and what happens at a lease's end."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from cantle.store import types

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _audit()
    op.create_table(
        "quotas",
        sa.Column("id", types.RowId, autoincrement=True),
        sa.Column("project_id", types.name(), nullable=False),
        sa.Column("resource_class", types.name(), nullable=False),
        sa.Column("most", sa.Integer(), nullable=False),
        sa.Column("turn", types.RowId, nullable=False, server_default="0"),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("updated_at", types.UtcTime()),
        sa.PrimaryKeyConstraint("id", name="pk_quotas"),
        sa.UniqueConstraint("project_id", "resource_class", name="uq_quotas_project_id_resource_class"),
    )
    # Plain ADD COLUMN: no database copies the table for these.
    for column in (
        sa.Column("on_expiry", types.name(16), nullable=False, server_default="detach"),
        sa.Column("warned_at", types.UtcTime()),
        sa.Column("expired_at", types.UtcTime()),
    ):
        op.add_column("leases", column)
    for column in (
        sa.Column("project_id", types.name()),
        sa.Column("lent_at", types.UtcTime()),
        sa.Column("lent_by", types.name()),
        sa.Column("lent_request", types.name()),
        sa.Column("ended_by", types.name()),
        sa.Column("ended_request", types.name()),
        sa.Column("stage", types.name(16)),
    ):
        op.add_column("claims", column)
    op.create_index("ix_leases_workload", "leases", ["workload"])
    op.create_index("ix_claims_project_id", "claims", ["project_id"])
    _of_what_is_lent()


def _audit() -> None:
    op.create_table(
        "audit_records",
        sa.Column("id", types.RowId, autoincrement=True),
        sa.Column("uuid", types.Uuid, nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("action", types.name(64), nullable=False),
        sa.Column("user_id", types.name(), nullable=False),
        sa.Column("project_id", types.name()),
        sa.Column("token_uuid", types.Uuid),
        sa.Column("request_id", types.name()),
        sa.Column("owner_id", types.name()),
        sa.Column("hostname", types.name()),
        sa.Column("device", types.name()),
        sa.Column("unit_uuid", types.Uuid),
        sa.Column("resource_class", types.name()),
        sa.Column("lease_uuid", types.Uuid),
        sa.Column("arq_uuid", types.Uuid),
        sa.Column("instance_uuid", types.Uuid),
        sa.Column("since", types.UtcTime()),
        sa.Column("facts", types.Facts(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit_records"),
        sa.UniqueConstraint("uuid", name="uq_audit_records_uuid"),
    )
    for column in ("created_at", "device", "unit_uuid", "lease_uuid", "arq_uuid", "instance_uuid"):
        op.create_index(f"ix_audit_records_{column}", "audit_records", [column])


def _of_what_is_lent() -> None:
    """What is lent already counts for its project from when it was claimed."""
    claims = sa.table(
        "claims", *(sa.column(name) for name in ("project_id", "lent_at", "created_at", "lease_id", "arq_id"))
    )
    leases = sa.table("leases", sa.column("id"), sa.column("project_id"))
    arqs = sa.table("arqs", sa.column("id"), sa.column("project_id"))
    of_lease = sa.select(leases.c.project_id).where(leases.c.id == claims.c.lease_id).scalar_subquery()
    of_arq = sa.select(arqs.c.project_id).where(arqs.c.id == claims.c.arq_id).scalar_subquery()
    op.execute(sa.update(claims).values(project_id=sa.func.coalesce(of_lease, of_arq), lent_at=claims.c.created_at))
