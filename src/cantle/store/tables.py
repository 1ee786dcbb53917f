"""The schema on one page. What each table is for stands above it; queries are in the module of its noun.

Every name of a constraint follows one convention, so that all three databases and the migrations agree on it.
"""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from cantle.store.types import Facts, FactsByName, Groups, LongText, RowId, Rows, Sockets, UtcTime, Uuid, Words, name

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _id() -> Column[int]:
    return Column("id", RowId, primary_key=True, autoincrement=True)


def _times() -> tuple[Column[object], Column[object]]:
    return Column("created_at", UtcTime, nullable=False), Column("updated_at", UtcTime)


# A machine with an agent. Its row is the lock of everything that happens on the host: whoever changes what the host should do
# raises ``generation`` here first. ``former_starts`` are earlier lives of its agent, whose late words are refused. ``machine`` and
# ``boot`` are hashes that tell a reboot from another machine and from a copy. ``conditions`` are its agent's words, ``warnings`` ours,
# with their time; ``clock_skew_ms`` is its clock less the database's. ``followed`` is the highest generation it says it has
# followed, ``confirmed`` that at which a person let a frozen one go on. A row with ``forgotten_at`` has nothing but its past.
# ``sockets`` are by memory node, NULL where its agent did not tell them.
hosts = Table(
    "hosts",
    metadata,
    _id(),
    Column("hostname", name(), nullable=False, unique=True),
    Column("generation", RowId, nullable=False),
    Column("agent_start", name(64)),
    Column("former_starts", Words, nullable=False),
    Column("digest", name(128)),
    Column("problems", Rows, nullable=False),
    Column("last_seen", UtcTime),
    *_times(),
    Column("machine", name(64)),
    Column("boot", name(64)),
    Column("former_boots", Words),
    Column("agent_version", name(64)),
    Column("clock_skew_ms", RowId),
    Column("conditions", Rows),
    Column("warnings", Rows),
    Column("drained_at", UtcTime),
    Column("drained_by", name()),
    Column("frozen_at", UtcTime),
    Column("frozen_code", name(64)),
    Column("frozen_reason", Text),
    Column("followed", RowId, nullable=False, server_default="0"),
    Column("confirmed", RowId, nullable=False, server_default="0"),
    Column("forgotten_at", UtcTime),
    Column("sockets", Sockets),
)

# One card, by its address on its host, together with the control path over which the host manages it (spec S0.6). The columns
# ``intent_…`` are what the host says of the wish for it; ``plans`` is the JSON text of what it would do for each mode, as reported.
devices = Table(
    "devices",
    metadata,
    _id(),
    Column("uuid", Uuid, nullable=False, unique=True),
    Column("host_id", RowId, ForeignKey("hosts.id"), nullable=False),
    Column("address", name(), nullable=False),
    Column("type", String(16), nullable=False),
    Column("vendor", name(), nullable=False),
    Column("model", name(), nullable=False),
    Column("vendor_id", String(4), nullable=False),
    Column("product_id", String(4), nullable=False),
    Column("mode", String(16), nullable=False),
    Column("health", String(16), nullable=False),
    Column("status", String(16), nullable=False),
    Column("reason", Text),
    Column("numa_node", Integer),
    Column("capabilities", Words, nullable=False),
    Column("std_board_info", Facts, nullable=False),
    Column("vendor_board_info", Facts, nullable=False),
    Column("control_path_uuid", Uuid, nullable=False, unique=True),
    Column("control_path_type", String(16), nullable=False),
    Column("control_path_info", Facts, nullable=False),
    *_times(),
    Column("mdev_types", FactsByName),
    Column("intent_version", RowId, nullable=False, server_default="0"),
    Column("intent_tried", RowId, nullable=False, server_default="0"),
    Column("intent_code", name(64)),
    Column("intent_error", Text),
    Column("plans", LongText),
    Column("labels", Facts),
    UniqueConstraint("host_id", "address"),
)

# What an operator wants a device to be, apart from what its host says it is. ``intent`` is the JSON text of the wish, NULL once it
# was cleared: the row stays, for no version may ever come again. A device whose host has not said that it follows ``version`` is out
# of service.
intents = Table(
    "intents",
    metadata,
    _id(),
    Column("device_id", RowId, ForeignKey("devices.id"), nullable=False, unique=True),
    Column("version", RowId, nullable=False),
    Column("intent", Text),
    Column("set_by", name(), nullable=False),
    *_times(),
)

# The part of a device that is offered together: one Placement provider. ``total`` is what the host says it can deliver, ``failed_at``
# when a unit of it could last not be made ready.
deployables = Table(
    "deployables",
    metadata,
    _id(),
    Column("uuid", Uuid, nullable=False, unique=True),
    Column("name", name(), nullable=False),
    Column("device_id", RowId, ForeignKey("devices.id"), nullable=False),
    Column("host_id", RowId, ForeignKey("hosts.id"), nullable=False, index=True),
    Column("rp_uuid", Uuid, nullable=False, unique=True),
    Column("driver_name", name(100), nullable=False),
    Column("resource_class", name(), nullable=False, index=True),
    Column("traits", Words, nullable=False),
    Column("total", Integer, nullable=False),
    Column("parent_id", RowId, ForeignKey("deployables.id")),
    Column("root_id", RowId, ForeignKey("deployables.id")),
    Column("bitstream_id", name()),
    *_times(),
    Column("kind", name(40)),
    Column("failed_at", UtcTime),
    UniqueConstraint("device_id", "name"),
)

# A fact about a deployable in Cyborg's wording. ``operator`` ones were written over the API and outlive reports.
attributes = Table(
    "attributes",
    metadata,
    _id(),
    Column("uuid", Uuid, nullable=False, unique=True),
    Column("deployable_id", RowId, ForeignKey("deployables.id"), nullable=False),
    Column("key", name(), nullable=False),
    Column("value", Text, nullable=False),
    Column("operator", Boolean, nullable=False),
    *_times(),
    UniqueConstraint("deployable_id", "key"),
)

# One unit that can be given to one guest. ``present`` is false for a unit the host no longer names; such a row lives only as long
# as its claim does.
attach_handles = Table(
    "attach_handles",
    metadata,
    _id(),
    Column("uuid", Uuid, nullable=False, unique=True),
    Column("deployable_id", RowId, ForeignKey("deployables.id"), nullable=False),
    Column("key", name(), nullable=False),
    Column("attach_type", String(16), nullable=False),
    Column("attach_info", Facts, nullable=False),
    Column("present", Boolean, nullable=False),
    *_times(),
    UniqueConstraint("deployable_id", "key"),
)

# A flavor for devices. Immutable once made. One with ``extra_specs`` is a flavor and has no groups: both are named where something is
# asked for, so no two have one name.
device_profiles = Table(
    "device_profiles",
    metadata,
    _id(),
    Column("uuid", Uuid, nullable=False, unique=True),
    Column("name", name(), nullable=False, unique=True),
    Column("description", Text),
    Column("groups", Groups, nullable=False),
    *_times(),
    Column("extra_specs", Facts),
)

# Which resource classes a profile asks for, so that one query finds a profile together with everything that could serve it.
profile_classes = Table(
    "profile_classes",
    metadata,
    Column("profile_id", RowId, ForeignKey("device_profiles.id", ondelete="CASCADE"), primary_key=True),
    Column("resource_class", name(), primary_key=True),
)

# A loan: all the ARQs of one workload. Its state is read off its ARQs and claims; ``released_at`` is when it was given back. At
# ``expires_at`` happens what ``on_expiry`` says; ``warned_at`` and ``expired_at`` are when that was announced, and when it was done.
# ``times``: how often the profile was asked for; NULL in a lease that an older version made.
leases = Table(
    "leases",
    metadata,
    _id(),
    Column("uuid", Uuid, nullable=False, unique=True),
    Column("profile_name", name(), nullable=False),
    Column("project_id", name()),
    Column("owner", name(), nullable=False),
    Column("workload", name(), nullable=False),
    Column("host_id", RowId, ForeignKey("hosts.id"), nullable=False),
    Column("expires_at", UtcTime, index=True),
    Column("released_at", UtcTime),
    *_times(),
    Column("on_expiry", name(16), nullable=False, server_default="detach"),
    Column("warned_at", UtcTime),
    Column("expired_at", UtcTime),
    Column("times", Integer),
    Index(None, "project_id", "created_at"),
    Index(None, "workload"),
)

# One accelerator for one instance. What fits is copied from the profile's group at creation. ``deadline`` is set in BindStarted only.
# ``bind_serial`` counts its binds, so that an event about an earlier one is known for such. ``announced_until`` is set in BindFailed
# only: until then the compute service is told of the failure again and again, and is shown BindStarted. ``nth_of_instance`` is 0, 1, … for
# those that one call bound for an instance: each call begins at 0, so that two at once cannot both come through.
arqs = Table(
    "arqs",
    metadata,
    _id(),
    Column("uuid", Uuid, nullable=False, unique=True),
    Column("state", String(16), nullable=False),
    Column("profile_id", RowId, ForeignKey("device_profiles.id"), nullable=False, index=True),
    Column("profile_name", name(), nullable=False),
    Column("group_id", Integer, nullable=False),
    Column("resource_class", name(), nullable=False),
    Column("required", Words, nullable=False),
    Column("forbidden", Words, nullable=False),
    Column("project_id", name()),
    Column("hostname", name()),
    Column("device_rp_uuid", Uuid),
    Column("instance_uuid", Uuid, index=True),
    Column("lease_id", RowId, ForeignKey("leases.id"), index=True),
    Column("deadline", UtcTime, index=True),
    Column("reason_code", name(64)),
    Column("reason", Text),
    *_times(),
    Column("bind_serial", RowId, nullable=False, server_default="0"),
    Column("announced_until", UtcTime),
    Column("nth_of_instance", Integer),
    Index(None, "created_at"),
    Index(None, "project_id", "created_at"),
    Index(None, "instance_uuid", "nth_of_instance", unique=True),
)

# A unit that is lent, or is being taken back (``wanted`` false). The unique handle makes lending it twice impossible. The row goes
# only when the host has said that nobody holds the unit; it outlives its ARQ until then. ``generation`` is that of the host's
# desired state since which the claim is as it is: results for an older one do not concern it. ``stage`` says how far the host is with a
# unit that it takes back (`cantle.model.lease.Stage`). Whose it is, who asked for it and who gave it back are written into the audit log
# with what the host makes of it.
claims = Table(
    "claims",
    metadata,
    _id(),
    Column("attach_handle_id", RowId, ForeignKey("attach_handles.id"), nullable=False, unique=True),
    Column("deployable_id", RowId, ForeignKey("deployables.id"), nullable=False, index=True),
    Column("host_id", RowId, ForeignKey("hosts.id"), nullable=False, index=True),
    Column("arq_id", RowId, ForeignKey("arqs.id", ondelete="SET NULL"), index=True),
    Column("lease_id", RowId, ForeignKey("leases.id"), index=True),
    Column("wanted", Boolean, nullable=False),
    Column("generation", RowId, nullable=False),
    Column("reason_code", name(64)),
    Column("reason", Text),
    *_times(),
    Column("project_id", name(), index=True),
    Column("lent_at", UtcTime),
    Column("lent_by", name()),
    Column("lent_request", name()),
    Column("ended_by", name()),
    Column("ended_request", name()),
    Column("stage", name(16)),
)

# Whose an instance is, remembered when its ARQs go, so that ARQs an administrator makes for it later (evacuate, unshelve) are its
# owner's again (contract section 7.1 #2).
instance_owners = Table(
    "instance_owners",
    metadata,
    Column("instance_uuid", Uuid, primary_key=True),
    Column("project_id", name(), nullable=False),
    Column("seen_at", UtcTime, nullable=False, index=True),
)

# Events on their way to those who are told, written in the transaction that changes the state. ``about`` is the ARQ or lease: events
# about one thing go in the order of their numbers. ``claimed_by`` and ``claimed_until``: a keeper is sending it. ``bind_serial`` is that of
# the ARQ's bind which Nova is told of; ``repeat_until``: it is sent again till then, though accepted. ``ended_at`` and ``outcome``: it
# was delivered, refused, withdrawn or given up.
outbox = Table(
    "outbox",
    metadata,
    _id(),
    Column("uuid", Uuid, nullable=False, unique=True),
    Column("channel", String(16), nullable=False),
    Column("about", Uuid, nullable=False, index=True),
    Column("type", name(64), nullable=False),
    Column("body", LongText, nullable=False),
    Column("bind_serial", RowId),
    Column("created_at", UtcTime, nullable=False),
    Column("due_at", UtcTime, nullable=False),
    Column("repeat_until", UtcTime),
    Column("claimed_by", Uuid, index=True),
    Column("claimed_until", UtcTime),
    Column("attempts", Integer, nullable=False),
    Column("problem", Text),
    Column("ended_at", UtcTime, index=True),
    Column("outcome", String(16)),
    Index(None, "channel", "ended_at", "due_at"),
)
