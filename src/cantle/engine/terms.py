"""On what terms something is lent: to whom, what, and until when."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from cantle.engine.choice import Asked
from cantle.engine.clock import database_time, is_in_calendar
from cantle.errors import BadRequest, Conflict
from cantle.model.attachment import Attachment, GuestKind
from cantle.model.identity import Identity
from cantle.model.lease import OnExpiry
from cantle.model.profile import MAX_UNITS
from cantle.store.database import Database

#: When a lease ends by itself: at a time, so long from now (more than nothing), or not.
End = dt.datetime | dt.timedelta | None


@dataclass(frozen=True, slots=True)
class Terms:
    """What every row of a new lease shares."""

    who: Identity
    asked: Asked
    workload: str
    expires_at: dt.datetime | None
    on_expiry: OnExpiry
    moment: dt.datetime
    attachment: Attachment | None = None
    start: bool = False


def check_size(count: int, workload: str) -> None:
    """Refuse what is asked for too often, or in too many words.

    :raises BadRequest: ``bad-lease``.
    """
    if not 1 <= count <= MAX_UNITS:
        raise BadRequest("bad-lease", f"count is {count}; give a number from 1 to {MAX_UNITS}.")
    if len(workload) > 255:
        raise BadRequest("bad-lease", f"workload is {len(workload)} characters long; at most 255 are kept.")


def end_time(db: Database, expires_at: End) -> dt.datetime | None:
    """The time that is meant, by the database's clock: a server's may be wrong. At most one statement.

    :raises BadRequest: ``bad-lease``: a time that is none in the future.
    """
    if expires_at is None:
        return None
    if isinstance(expires_at, dt.timedelta):
        return database_time(db) + expires_at
    if expires_at.tzinfo is None:
        raise BadRequest(
            "bad-lease", f"expires_at is {expires_at.isoformat()}, which names no time zone; add Z or an offset."
        )
    if not is_in_calendar(expires_at):
        raise BadRequest(
            "bad-lease", f"expires_at is {expires_at.isoformat()}, which is no year from 1 to 9999 in UTC."
        )
    if expires_at <= database_time(db):
        raise BadRequest("bad-lease", f"expires_at is {expires_at.isoformat()}, which is over already.")
    return expires_at


def check_startable(attachment: Attachment | None) -> None:
    """Make sure that there is a guest that could be started with its lease.

    :raises BadRequest: ``bad-lease``.
    """
    if attachment is None:
        raise BadRequest("bad-lease", "start starts the guest that attach names, and attach names none.")
    if attachment.kind == GuestKind.CDI:
        raise BadRequest(
            "bad-lease",
            f"{attachment} is no guest that could be started: a container engine starts what is to have it.",
        )


def check_stoppable(what: str, kind: str | None) -> None:
    """Make sure that there is a guest that could be stopped at a lease's end.

    :param kind: of the guest that the lease goes into by itself; None: into none.
    :raises Conflict: ``no-attachment``, ``guest-not-stopped``.
    """
    if kind is None:
        raise Conflict(
            "no-attachment",
            f"{what} is attached to no guest by Cantle, so none can be stopped at its end: say notify or detach, or attach it.",
        )
    if kind == GuestKind.CDI:
        raise Conflict(
            "guest-not-stopped",
            f"{what} goes into whatever container is started with its name, so Cantle would not know which one to stop at its end: say "
            "notify or detach.",
        )
