"""What a host should do: its whole desired state, read or waited for."""

from __future__ import annotations

from cantle.engine import absent, heartbeat
from cantle.engine.fence import frozen, is_ahead
from cantle.model.attach_handle import AttachType
from cantle.model.intent import Intent
from cantle.model.lease import OnExpiry
from cantle.store import claim, host, intent
from cantle.store.database import Database, host_topic
from cantle.store.types import Record
from cantle.store.wakeups import Patience
from cantle.wire.intent import DeviceIntent
from cantle.wire.work import Guest, WantedHandle, Work


def current_work(db: Database, hostname: str) -> Work:
    """The desired state of a host.

    :raises NotFound: ``host-not-found``: it never reported.
    """
    # Two moments: intents that are later than the generation are named again with the next.
    with db.look() as connection:
        rows = claim.work(connection, hostname)
        wishes = intent.of_host(connection, hostname)
    if not rows:
        raise absent.report(hostname)
    claims = [row for row in rows if row.uuid is not None]
    return Work(
        generation=rows[0].generation,
        confirmed=rows[0].confirmed,
        wanted=tuple(_wanted(row) for row in claims if row.wanted),
        unwanted=tuple(_wanted(row) for row in claims if not row.wanted),
        intents=tuple(_wish(row) for row in wishes),
    )


def wait_work(db: Database, hostname: str, generation: int, seconds: float) -> Work:
    """The same as soon as its generation is another than the one given, at the latest after so many seconds.

    :raises NotFound: ``host-not-found``.
    """
    return await_work(db, hostname, generation, seconds) or current_work(db, hostname)


def await_work(db: Database, hostname: str, generation: int, seconds: float) -> Work | None:
    """The desired state of a host as soon as its generation is another than the one given; None when it was not within so many seconds,
    when a later call for the host came, and when the process goes down. Counts as a sign of life.

    A host has one agent, which waits in one place: a later call ends an earlier one that still waits.

    :raises NotFound: ``host-not-found``.
    """
    patience = Patience(seconds)
    with db.wakeups.waiter(host_topic(hostname), alone=True, has=generation) as waiter:
        row = _row(db, hostname)
        with heartbeat.heard(db, row) as batch:
            if is_ahead(row, generation) and row.frozen_at is None:
                db.run(lambda connection: host.change(connection, row.id, **frozen(row, generation)))
            if row.generation != generation:
                return current_work(db, hostname)
            # Thousands wait here: as long as nobody rings, most of them do nothing at all.
            while patience.left and not (waiter.overtaken or db.wakeups.stopped):
                rung = waiter.wait(min(patience.left, batch.left))
                wrote = batch.write_if_due()
                if rung and (work := current_work(db, hostname)).generation != generation:
                    return work
                if not (rung or wrote) and patience.left and _row(db, hostname).generation != generation:
                    return current_work(db, hostname)
    return None


def _row(db: Database, hostname: str) -> Record:
    with db.look() as connection:
        row = host.spoken_for(connection, hostname)
    if row is None:
        raise absent.report(hostname)
    return row


def _wanted(row: Record) -> WantedHandle:
    guest = None
    if row.guest_kind is not None:
        stop = row.on_expiry == OnExpiry.STOP_GUEST and row.expired_at is not None and not row.wanted
        guest = Guest(row.guest_kind, row.guest_name, row.lease_uuid, stop, bool(row.guest_start and row.wanted))
    return WantedHandle(
        uuid=row.uuid,
        device=row.address,
        attach_type=AttachType(row.attach_type),
        attach_info=row.attach_info,
        guest=guest,
        loan=row.loan,
    )


def _wish(row: Record) -> DeviceIntent:
    return DeviceIntent.of(row.address, row.version, None if row.intent is None else Intent.loads(row.intent))
