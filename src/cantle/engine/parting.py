"""What unbinding and deleting ARQs have in common: their units go back to the host, and whose the instance was is remembered."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from sqlalchemy import Connection

from cantle.errors import Conflict
from cantle.model.arq import ArqState
from cantle.model.identity import Identity
from cantle.store import claim, owner
from cantle.store.database import host_topic, wake
from cantle.store.faults import LookAgain
from cantle.store.types import Record

#: States in which an ARQ holds a unit.
HOLDING = frozenset({ArqState.BIND_STARTED, ArqState.BOUND})


def refuse_lent(rows: Sequence[Record]) -> None:
    """ARQs of a lease live and end with it.

    :raises Conflict: ``arq-of-lease``.
    """
    lent = [row.uuid for row in rows if row.lease_id is not None]
    if lent:
        raise Conflict("arq-of-lease", f"Part of a lease: {', '.join(lent)}. Release the lease instead.", arqs=lent)


def check_locked(locked: int, rows: Sequence[Record]) -> None:
    """Make sure that what was found to hold units holds them on hosts that were locked before: so many.

    :raises LookAgain: one was bound between the lock and the look.
    """
    if len({row.held_on for row in rows if row.held_on is not None}) > locked:
        raise LookAgain


def take_back(connection: Connection, rows: Sequence[Record], now: dt.datetime, who: Identity) -> list[int]:
    """Mark the units of these ARQs (rows of `cantle.store.parting.to_part`) as to be taken back; the numbers of those that hold one. The
    hosts' rows are locked already."""
    holding = [row for row in rows if row.state in HOLDING]
    if holding:
        claim.unwant(connection, [row.id for row in holding], now, who)
        for name in {row.held_on for row in holding if row.held_on is not None}:
            wake(connection, host_topic(name))
    owner.remember(
        connection, {row.instance_uuid: row.project_id for row in rows if row.instance_uuid and row.project_id}
    )
    return [row.id for row in holding]
