"""The end of a lease: moved (``renew``), or come to without its host (``force``)."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

import msgspec

from cantle.api.call import Call
from cantle.api.v1 import lease
from cantle.engine import force, renewal
from cantle.model.lease import OnExpiry
from cantle.model.uuids import checked


class Renewal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``expires_at`` with its offset from UTC, or ``expires_in`` seconds from now; neither: it does not end by itself."""

    expires_at: dt.datetime | None = None
    expires_in: Annotated[int, msgspec.Meta(ge=1)] | None = None
    on_expiry: OnExpiry | None = None


class Force(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``reason``: on whose word the units are free, where their host has not said that nobody holds them."""

    reason: Annotated[str, msgspec.Meta(max_length=force.LONGEST_REASON)] | None = None


def renew(call: Call) -> lease.Shape:
    """Let it end at another time, or never."""
    new: Renewal = call.body
    uuid = checked(call.params["uuid"], "The lease's uuid")
    until = lease.end(new.expires_at, new.expires_in)
    return lease.shape(call, renewal.renew_lease(call.db, call.who, uuid, until, new.on_expiry))


def force_release(call: Call) -> lease.Shape:
    """Give it back and wait for its host no longer."""
    new: Force = call.body
    uuid = checked(call.params["uuid"], "The lease's uuid")
    return lease.shape(call, force.force_release(call.db, call.who, uuid, new.reason))
