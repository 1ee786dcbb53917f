"""First schema: hosts and what they have, profiles, ARQs, leases, claims.

The types are those of `cantle.store.types`: once a migration names one, it is never changed, only joined by others.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from cantle.store import types

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "device_profiles",
        sa.Column("id", types.RowId, autoincrement=True),
        sa.Column("uuid", types.Uuid, nullable=False),
        sa.Column("name", types.name(), nullable=False),
        sa.Column("description", sa.Text()),
        sa.Column("groups", types.Groups(), nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("updated_at", types.UtcTime()),
        sa.PrimaryKeyConstraint("id", name="pk_device_profiles"),
        sa.UniqueConstraint("name", name="uq_device_profiles_name"),
        sa.UniqueConstraint("uuid", name="uq_device_profiles_uuid"),
    )
    op.create_table(
        "hosts",
        sa.Column("id", types.RowId, autoincrement=True),
        sa.Column("hostname", types.name(), nullable=False),
        sa.Column("generation", types.RowId, nullable=False),
        sa.Column("agent_start", types.name(64)),
        sa.Column("former_starts", types.Words(), nullable=False),
        sa.Column("digest", types.name(128)),
        sa.Column("problems", types.Rows(), nullable=False),
        sa.Column("last_seen", types.UtcTime()),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("updated_at", types.UtcTime()),
        sa.PrimaryKeyConstraint("id", name="pk_hosts"),
        sa.UniqueConstraint("hostname", name="uq_hosts_hostname"),
    )
    op.create_table(
        "instance_owners",
        sa.Column("instance_uuid", types.Uuid, nullable=False),
        sa.Column("project_id", types.name(), nullable=False),
        sa.Column("seen_at", types.UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("instance_uuid", name="pk_instance_owners"),
    )
    op.create_index("ix_instance_owners_seen_at", "instance_owners", ["seen_at"], unique=False)
    op.create_table(
        "devices",
        sa.Column("id", types.RowId, autoincrement=True),
        sa.Column("uuid", types.Uuid, nullable=False),
        sa.Column("host_id", types.RowId, nullable=False),
        sa.Column("address", types.name(), nullable=False),
        sa.Column("type", sa.String(length=16), nullable=False),
        sa.Column("vendor", types.name(), nullable=False),
        sa.Column("model", types.name(), nullable=False),
        sa.Column("vendor_id", sa.String(length=4), nullable=False),
        sa.Column("product_id", sa.String(length=4), nullable=False),
        sa.Column("mode", sa.String(length=16), nullable=False),
        sa.Column("health", sa.String(length=16), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text()),
        sa.Column("numa_node", sa.Integer()),
        sa.Column("capabilities", types.Words(), nullable=False),
        sa.Column("std_board_info", types.Facts(), nullable=False),
        sa.Column("vendor_board_info", types.Facts(), nullable=False),
        sa.Column("control_path_uuid", types.Uuid, nullable=False),
        sa.Column("control_path_type", sa.String(length=16), nullable=False),
        sa.Column("control_path_info", types.Facts(), nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("updated_at", types.UtcTime()),
        sa.ForeignKeyConstraint(["host_id"], ["hosts.id"], name="fk_devices_host_id_hosts"),
        sa.PrimaryKeyConstraint("id", name="pk_devices"),
        sa.UniqueConstraint("control_path_uuid", name="uq_devices_control_path_uuid"),
        sa.UniqueConstraint("host_id", "address", name="uq_devices_host_id_address"),
        sa.UniqueConstraint("uuid", name="uq_devices_uuid"),
    )
    op.create_table(
        "leases",
        sa.Column("id", types.RowId, autoincrement=True),
        sa.Column("uuid", types.Uuid, nullable=False),
        sa.Column("profile_name", types.name(), nullable=False),
        sa.Column("project_id", types.name()),
        sa.Column("owner", types.name(), nullable=False),
        sa.Column("workload", types.name(), nullable=False),
        sa.Column("host_id", types.RowId, nullable=False),
        sa.Column("expires_at", types.UtcTime()),
        sa.Column("released_at", types.UtcTime()),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("updated_at", types.UtcTime()),
        sa.ForeignKeyConstraint(["host_id"], ["hosts.id"], name="fk_leases_host_id_hosts"),
        sa.PrimaryKeyConstraint("id", name="pk_leases"),
        sa.UniqueConstraint("uuid", name="uq_leases_uuid"),
    )
    op.create_index("ix_leases_expires_at", "leases", ["expires_at"], unique=False)
    op.create_index("ix_leases_project_id_created_at", "leases", ["project_id", "created_at"], unique=False)
    op.create_table(
        "profile_classes",
        sa.Column("profile_id", types.RowId, nullable=False),
        sa.Column("resource_class", types.name(), nullable=False),
        sa.ForeignKeyConstraint(
            ["profile_id"],
            ["device_profiles.id"],
            name="fk_profile_classes_profile_id_device_profiles",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("profile_id", "resource_class", name="pk_profile_classes"),
    )
    op.create_table(
        "arqs",
        sa.Column("id", types.RowId, autoincrement=True),
        sa.Column("uuid", types.Uuid, nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("profile_id", types.RowId, nullable=False),
        sa.Column("profile_name", types.name(), nullable=False),
        sa.Column("group_id", sa.Integer(), nullable=False),
        sa.Column("resource_class", types.name(), nullable=False),
        sa.Column("required", types.Words(), nullable=False),
        sa.Column("forbidden", types.Words(), nullable=False),
        sa.Column("project_id", types.name()),
        sa.Column("hostname", types.name()),
        sa.Column("device_rp_uuid", types.Uuid),
        sa.Column("instance_uuid", types.Uuid),
        sa.Column("lease_id", types.RowId),
        sa.Column("deadline", types.UtcTime()),
        sa.Column("reason_code", types.name(64)),
        sa.Column("reason", sa.Text()),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("updated_at", types.UtcTime()),
        sa.ForeignKeyConstraint(["lease_id"], ["leases.id"], name="fk_arqs_lease_id_leases"),
        sa.ForeignKeyConstraint(["profile_id"], ["device_profiles.id"], name="fk_arqs_profile_id_device_profiles"),
        sa.PrimaryKeyConstraint("id", name="pk_arqs"),
        sa.UniqueConstraint("uuid", name="uq_arqs_uuid"),
    )
    op.create_index("ix_arqs_created_at", "arqs", ["created_at"], unique=False)
    op.create_index("ix_arqs_deadline", "arqs", ["deadline"], unique=False)
    op.create_index("ix_arqs_instance_uuid", "arqs", ["instance_uuid"], unique=False)
    op.create_index("ix_arqs_lease_id", "arqs", ["lease_id"], unique=False)
    op.create_index("ix_arqs_profile_id", "arqs", ["profile_id"], unique=False)
    op.create_index("ix_arqs_project_id_created_at", "arqs", ["project_id", "created_at"], unique=False)
    op.create_table(
        "deployables",
        sa.Column("id", types.RowId, autoincrement=True),
        sa.Column("uuid", types.Uuid, nullable=False),
        sa.Column("name", types.name(), nullable=False),
        sa.Column("device_id", types.RowId, nullable=False),
        sa.Column("host_id", types.RowId, nullable=False),
        sa.Column("rp_uuid", types.Uuid, nullable=False),
        sa.Column("driver_name", types.name(100), nullable=False),
        sa.Column("resource_class", types.name(), nullable=False),
        sa.Column("traits", types.Words(), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("parent_id", types.RowId),
        sa.Column("root_id", types.RowId),
        sa.Column("bitstream_id", types.name()),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("updated_at", types.UtcTime()),
        sa.ForeignKeyConstraint(["device_id"], ["devices.id"], name="fk_deployables_device_id_devices"),
        sa.ForeignKeyConstraint(["host_id"], ["hosts.id"], name="fk_deployables_host_id_hosts"),
        sa.ForeignKeyConstraint(["parent_id"], ["deployables.id"], name="fk_deployables_parent_id_deployables"),
        sa.ForeignKeyConstraint(["root_id"], ["deployables.id"], name="fk_deployables_root_id_deployables"),
        sa.PrimaryKeyConstraint("id", name="pk_deployables"),
        sa.UniqueConstraint("device_id", "name", name="uq_deployables_device_id_name"),
        sa.UniqueConstraint("rp_uuid", name="uq_deployables_rp_uuid"),
        sa.UniqueConstraint("uuid", name="uq_deployables_uuid"),
    )
    op.create_index("ix_deployables_host_id", "deployables", ["host_id"], unique=False)
    op.create_index("ix_deployables_resource_class", "deployables", ["resource_class"], unique=False)
    op.create_table(
        "attach_handles",
        sa.Column("id", types.RowId, autoincrement=True),
        sa.Column("uuid", types.Uuid, nullable=False),
        sa.Column("deployable_id", types.RowId, nullable=False),
        sa.Column("key", types.name(), nullable=False),
        sa.Column("attach_type", sa.String(length=16), nullable=False),
        sa.Column("attach_info", types.Facts(), nullable=False),
        sa.Column("present", sa.Boolean(), nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("updated_at", types.UtcTime()),
        sa.ForeignKeyConstraint(
            ["deployable_id"], ["deployables.id"], name="fk_attach_handles_deployable_id_deployables"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_attach_handles"),
        sa.UniqueConstraint("deployable_id", "key", name="uq_attach_handles_deployable_id_key"),
        sa.UniqueConstraint("uuid", name="uq_attach_handles_uuid"),
    )
    op.create_table(
        "attributes",
        sa.Column("id", types.RowId, autoincrement=True),
        sa.Column("uuid", types.Uuid, nullable=False),
        sa.Column("deployable_id", types.RowId, nullable=False),
        sa.Column("key", types.name(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("operator", sa.Boolean(), nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("updated_at", types.UtcTime()),
        sa.ForeignKeyConstraint(["deployable_id"], ["deployables.id"], name="fk_attributes_deployable_id_deployables"),
        sa.PrimaryKeyConstraint("id", name="pk_attributes"),
        sa.UniqueConstraint("deployable_id", "key", name="uq_attributes_deployable_id_key"),
        sa.UniqueConstraint("uuid", name="uq_attributes_uuid"),
    )
    op.create_table(
        "claims",
        sa.Column("id", types.RowId, autoincrement=True),
        sa.Column("attach_handle_id", types.RowId, nullable=False),
        sa.Column("deployable_id", types.RowId, nullable=False),
        sa.Column("host_id", types.RowId, nullable=False),
        sa.Column("arq_id", types.RowId),
        sa.Column("lease_id", types.RowId),
        sa.Column("wanted", sa.Boolean(), nullable=False),
        sa.Column("generation", types.RowId, nullable=False),
        sa.Column("reason_code", types.name(64)),
        sa.Column("reason", sa.Text()),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("updated_at", types.UtcTime()),
        sa.ForeignKeyConstraint(["arq_id"], ["arqs.id"], name="fk_claims_arq_id_arqs", ondelete="SET NULL"),
        sa.ForeignKeyConstraint(
            ["attach_handle_id"], ["attach_handles.id"], name="fk_claims_attach_handle_id_attach_handles"
        ),
        sa.ForeignKeyConstraint(["deployable_id"], ["deployables.id"], name="fk_claims_deployable_id_deployables"),
        sa.ForeignKeyConstraint(["host_id"], ["hosts.id"], name="fk_claims_host_id_hosts"),
        sa.ForeignKeyConstraint(["lease_id"], ["leases.id"], name="fk_claims_lease_id_leases"),
        sa.PrimaryKeyConstraint("id", name="pk_claims"),
        sa.UniqueConstraint("attach_handle_id", name="uq_claims_attach_handle_id"),
    )
    op.create_index("ix_claims_arq_id", "claims", ["arq_id"], unique=False)
    op.create_index("ix_claims_deployable_id", "claims", ["deployable_id"], unique=False)
    op.create_index("ix_claims_host_id", "claims", ["host_id"], unique=False)
    op.create_index("ix_claims_lease_id", "claims", ["lease_id"], unique=False)
