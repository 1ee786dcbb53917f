"""Binds whose host did not answer in time end as failed, and their units are taken back."""

from __future__ import annotations

from sqlalchemy import Connection

from cantle.engine import announce
from cantle.engine.clock import BIND_SECONDS, now
from cantle.model.arq import ArqState
from cantle.model.identity import KEEPER
from cantle.store import bind, claim, deployable, host
from cantle.store.database import Database, host_topic, lease_topic, wake
from cantle.store.types import Record

#: The code an ARQ shows then.
CODE = "bind-timeout"


def sweep(db: Database, most: int = 100) -> int:
    """End overdue binds, at most that many; how many this process ended. Others may sweep at the same time: each bind is ended once."""
    with db.read() as connection:
        rows = bind.overdue(connection, most)
    return sum(_end(db, row) for row in rows)


def _end(db: Database, row: Record) -> bool:
    why = f"Host {row.held_on} did not make the unit ready within {BIND_SECONDS:.0f} s."

    def work(connection: Connection) -> bool:
        host.lock(connection, [row.host_id])
        moment = now()
        leases = announce.leases_now(connection, {row.lease_uuid} if row.lease_uuid is not None else set())
        failed = announce.Settled(row, ArqState.BIND_FAILED, CODE, why)
        announced = announce.announced_s(connection, failed)
        if not bind.expire(connection, row.arq_id, CODE, why, moment, announced=announced):
            return False
        claim.unwant(connection, [row.arq_id], moment, KEEPER)
        if row.guest_kind is None:  # else the host may have waited for the guest
            deployable.failed_on(connection, row.host_id)
        announce.arqs_settled(connection, [failed], moment)
        announce.leases_changed(connection, leases, moment)
        wake(connection, host_topic(row.held_on))
        if row.lease_uuid is not None:
            wake(connection, lease_topic(row.lease_uuid))
        return True

    return db.run(work)
