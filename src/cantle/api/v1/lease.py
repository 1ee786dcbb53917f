"""``/v1/leases``: all the accelerators of one workload, with an owner and an optional end."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any

import msgspec

from cantle.api.call import Call
from cantle.api.parking import retry_after
from cantle.api.rules import ATTACH
from cantle.api.v1 import collection
from cantle.api.v1.hostname import NamesHost
from cantle.api.v2 import arq
from cantle.api.v2.resource import Link, stamp
from cantle.engine import lease as engine
from cantle.engine.terms import End
from cantle.errors import BadRequest
from cantle.model.attachment import Attachment
from cantle.model.lease import Lease, OnExpiry
from cantle.model.uuids import checked

#: The longest that can be asked for in seconds from now: a hundred years.
LONGEST_S = 100 * 366 * 86400

#: A guest's memory nodes.
Nodes = Annotated[list[Annotated[int, msgspec.Meta(ge=0, le=999_999)]], msgspec.Meta(max_length=1024)]


class LeaseQuery(collection.CollectionQuery, frozen=True, kw_only=True):
    """``include_released``: also those that are over. The others are matched as a whole."""

    include_released: bool = False
    hostname: str | None = None
    workload: str | None = None
    profile_name: str | None = None


class WaitQuery(msgspec.Struct, frozen=True, kw_only=True):
    """``wait``: seconds to wait for the lease to settle."""

    wait: Annotated[float, msgspec.Meta(ge=0)] = 0


class NewLease(NamesHost, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client sends. ``profile`` names a device profile or a flavor; ``hostname`` (also as ``host``)
    None: any; ``count`` times its accelerators;
    ``expires_at`` with its offset from UTC; ``attach``: the guest on that host to put them into (``lxc:c1``, ``cdi:train``), and
    ``start``: start it then, if it does not run;
    ``numa_nodes``: the guest's memory nodes, empty: the cards must be near each other only."""

    profile: str
    count: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1
    workload: Annotated[str, msgspec.Meta(max_length=255)] = ""
    expires_at: dt.datetime | None = None
    expires_in: Annotated[int, msgspec.Meta(ge=1)] | None = None
    on_expiry: OnExpiry = OnExpiry.DETACH
    attach: Annotated[str, msgspec.Meta(max_length=80)] | None = None
    start: bool = False
    numa_nodes: Nodes = msgspec.field(default_factory=list)


class Shape(msgspec.Struct, frozen=True):
    """A lease on the wire. ``reason`` says why units could not be made ready, or taken back; ``isolation`` how they are kept apart from
    what others have of the same cards (:class:`cantle.model.isolation.Isolation`), null when it has none any more."""

    uuid: str
    state: str
    profile_name: str
    project_id: str | None
    owner: str
    workload: str
    hostname: str
    created_at: str | None
    updated_at: str | None
    expires_at: str | None
    on_expiry: str
    expired_at: str | None
    reason: str | None
    arqs: list[arq.Shape]
    attach: str | None = None
    isolation: str | None = None


class Listed(msgspec.Struct, frozen=True):
    """A list of leases."""

    leases: list[Shape]
    leases_links: list[Link] = []


def list_all(call: Call) -> dict[str, Any]:
    """The caller's leases."""
    asked: LeaseQuery = call.query
    limits = collection.page(call)
    found = engine.list_leases(
        call.db,
        call.who,
        page=limits,
        include_released=asked.include_released,
        hostname=asked.hostname,
        workload=asked.workload,
        profile_name=asked.profile_name,
    )

    def listed(lease: Lease) -> Shape:
        return shape(call, lease)

    return collection.answer(call, "leases", limits, found, listed, kind=Shape, marker=lambda lease: lease.uuid)


def show(call: Call) -> Shape:
    """One lease, at once or as soon as it settles. Where all waiting places are taken, at once and with a ``Retry-After``."""
    asked: WaitQuery = call.query
    uuid = _uuid(call)
    if not asked.wait:
        return shape(call, engine.get_lease(call.db, call.who, uuid))
    with call.site.parking.place() as free:
        if not free:
            call.headers["Retry-After"] = str(retry_after())
            return shape(call, engine.get_lease(call.db, call.who, uuid))
        seconds = min(asked.wait, call.site.settings.longest_wait)
        return shape(call, engine.wait_lease(call.db, call.who, uuid, seconds=seconds))


def create(call: Call) -> Shape:
    """Choose a host, claim, and return the lease while the host makes the units ready."""
    new: NewLease = call.body
    if new.attach is not None:
        call.site.policy.check(ATTACH, call.who)

    def answer(lease: Lease) -> Shape:
        return shape(call, lease)

    made = engine.create_lease(
        call.db,
        call.who,
        profile_name=new.profile,
        hostname=new.named(),
        count=new.count,
        workload=new.workload,
        expires_at=end(new.expires_at, new.expires_in),
        on_expiry=new.on_expiry,
        nodes=new.numa_nodes,
        attachment=Attachment.parse(new.attach) if new.attach is not None else None,
        start=new.start,
        aliases=call.site.settings.aliases,
        once=call.once(answer),
    )
    return answer(made)


def release(call: Call) -> Shape:
    """Give it back; the units are free again when their hosts have taken them back."""
    return shape(call, engine.release_lease(call.db, call.who, _uuid(call)))


def end(at: dt.datetime | None, within: int | None) -> End:
    """The end that is meant.

    :param within: seconds from now.
    :raises BadRequest: ``bad-lease``: both are given, or it is too far away.
    """
    if at is not None and within is not None:
        raise BadRequest("bad-lease", "expires_at and expires_in are both given; one of them says when the lease ends.")
    if within is not None and within > LONGEST_S:
        raise BadRequest("bad-lease", f"expires_in is {within}; at most {LONGEST_S} seconds are possible.")
    return dt.timedelta(seconds=within) if within is not None else at


def _uuid(call: Call) -> str:
    return checked(call.params["uuid"], "The lease's uuid")


def shape(call: Call, lease: Lease) -> Shape:
    """The lease on the wire."""
    return Shape(
        uuid=lease.uuid,
        state=lease.state,
        profile_name=lease.profile_name,
        project_id=lease.project_id,
        owner=lease.owner,
        workload=lease.workload,
        hostname=lease.hostname,
        created_at=stamp(lease.created_at),
        updated_at=stamp(lease.updated_at),
        expires_at=stamp(lease.expires_at),
        on_expiry=lease.on_expiry,
        expired_at=stamp(lease.expired_at),
        reason=" ".join(dict.fromkeys([*(one.reason for one in lease.arqs if one.reason), *lease.reasons])) or None,
        arqs=[arq.shape(call, request) for request in lease.arqs],
        attach=str(lease.attachment) if lease.attachment is not None else None,
        isolation=lease.isolation,
    )
