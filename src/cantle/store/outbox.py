"""Events on their way out. Any number of keepers may send them: each is claimed with a committed compare-and-set before it is sent.

Row locks do not replicate in a Galera cluster, so none is relied on: a keeper that dies, or is cut off, loses its claim when the time
of that is over (by the database's clock), and another sends the event again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, bindparam, delete, insert, or_, select, update

from cantle.model.arq import ArqState
from cantle.model.event import Answer, Channel, Event
from cantle.store.tables import arqs, outbox
from cantle.store.types import Record, database_now

#: Seconds between two announcements of a failure.
REPEAT_S = 2.0

#: What is written in ``outcome`` besides `Answer`.
WITHDRAWN = "withdrawn"
GIVEN_UP = "given-up"

_POST = insert(outbox).values(created_at=database_now(), due_at=database_now(), attempts=0)
_POST_REPEATED = _POST.values(repeat_until=database_now(bindparam("seconds")))

_earlier = outbox.alias("earlier")
#: Nothing about the same thing is still to be sent before it.
_FIRST: ColumnElement[bool] = ~(
    select(_earlier.c.id)
    .where(
        _earlier.c.channel == outbox.c.channel,
        _earlier.c.about == outbox.c.about,
        _earlier.c.ended_at.is_(None),
        _earlier.c.id < outbox.c.id,
    )
    .exists()
)
_FREE: ColumnElement[bool] = or_(outbox.c.claimed_until.is_(None), outbox.c.claimed_until <= database_now())
_OPEN: ColumnElement[bool] = and_(outbox.c.channel == bindparam("to"), outbox.c.ended_at.is_(None))
_DUE: ColumnElement[bool] = and_(_OPEN, outbox.c.due_at <= database_now(), _FREE)

#: It tells the compute service of a bind that is no more: the ARQ is gone, was unbound, or is being bound anew.
_STALE: ColumnElement[bool] = and_(
    outbox.c.bind_serial.is_not(None),
    ~(
        select(arqs.c.id)
        .where(
            arqs.c.uuid == outbox.c.about,
            arqs.c.bind_serial == outbox.c.bind_serial,
            or_(arqs.c.state == ArqState.BOUND, arqs.c.state == ArqState.BIND_FAILED),
        )
        .exists()
    ),
)

_WAITING = (
    select(outbox.c.id, _STALE.label("stale"))
    .where(or_(and_(_OPEN, _STALE), and_(_DUE, _FIRST)))
    .order_by(outbox.c.due_at, outbox.c.id)
    .limit(bindparam("most"))
)
_WITHDRAW = (
    update(outbox)
    .where(outbox.c.id.in_(bindparam("ids", expanding=True)), outbox.c.ended_at.is_(None))
    .values(ended_at=database_now(), outcome=WITHDRAWN)
)
_CLAIM = (
    update(outbox)
    .where(outbox.c.id.in_(bindparam("ids", expanding=True)), _DUE)
    .values(
        claimed_by=bindparam("keeper"),
        claimed_until=database_now(bindparam("seconds")),
        attempts=outbox.c.attempts + 1,
    )
)
_CLAIMED = (
    select(
        outbox,
        (outbox.c.repeat_until.is_not(None) & (outbox.c.repeat_until > database_now(REPEAT_S))).label("repeating"),
        (outbox.c.created_at <= database_now(bindparam("patience"))).label("old"),
    )
    .where(outbox.c.claimed_by == bindparam("keeper"), outbox.c.ended_at.is_(None))
    .order_by(outbox.c.id)
)

_MINE: ColumnElement[bool] = and_(
    outbox.c.id == bindparam("event"), outbox.c.claimed_by == bindparam("keeper"), outbox.c.ended_at.is_(None)
)
_END = (
    update(outbox)
    .where(_MINE)
    .values(ended_at=database_now(), outcome=bindparam("how"), problem=bindparam("why"), claimed_by=None)
)
_PUT_OFF = (
    update(outbox)
    .where(_MINE)
    .values(
        due_at=database_now(bindparam("seconds")),
        problem=bindparam("why"),
        claimed_by=None,
        claimed_until=None,
    )
)


def post(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Write events: uuid, channel, about, type, body, and for Nova bind_serial. ``seconds``, in all rows or in none, is how long they
    are repeated."""
    if rows:
        connection.execute(_POST_REPEATED if "seconds" in rows[0] else _POST, list(rows))


def waiting(connection: Connection, channel: Channel, most: int) -> tuple[list[int], list[int]]:
    """Numbers of events that are due and nobody's, oldest first, and of those that should not be sent any more."""
    rows = connection.execute(_WAITING, {"to": channel, "most": most}).all()
    return [row.id for row in rows if not row.stale], [row.id for row in rows if row.stale]


def withdraw(connection: Connection, ids: Sequence[int]) -> None:
    """End events that should not be sent any more."""
    if ids:
        connection.execute(_WITHDRAW, {"ids": list(ids)})


def claim(
    connection: Connection, channel: Channel, ids: Sequence[int], keeper: str, *, seconds: float, patience: float
) -> list[tuple[Event, bool]]:
    """Take events for so many seconds, as far as nobody else did. Each with whether it is older than ``patience`` seconds.

    :param keeper: a uuid used for this claim only.
    """
    if not ids:
        return []
    taken = connection.execute(_CLAIM, {"to": channel, "ids": list(ids), "keeper": keeper, "seconds": seconds})
    if taken.rowcount == 0:
        return []
    rows = connection.execute(_CLAIMED, {"keeper": keeper, "patience": -patience})
    return [(_event(row), bool(row.old)) for row in rows]


def end(connection: Connection, keeper: str, rows: Sequence[tuple[int, Answer | str, str]]) -> None:
    """Events (number, outcome, why) are done with, as far as they are still this claim's."""
    if rows:
        values = [{"event": number, "keeper": keeper, "how": str(how), "why": why or None} for number, how, why in rows]
        connection.execute(_END, values)


def put_off(connection: Connection, keeper: str, rows: Sequence[tuple[int, float, str]]) -> None:
    """Events (number, seconds from now, why) are to be sent later, as far as they are still this claim's."""
    if rows:
        values = [
            {"event": number, "keeper": keeper, "seconds": seconds, "why": why or None} for number, seconds, why in rows
        ]
        connection.execute(_PUT_OFF, values)


def purge(connection: Connection, days: float, told: Sequence[Channel]) -> int:
    """Delete events that ended so long ago, and those as old for channels other than ``told``; how many."""
    before = database_now(-86400.0 * days)
    ended = and_(outbox.c.ended_at.is_not(None), outbox.c.ended_at < before)
    for_nobody = and_(outbox.c.created_at < before, outbox.c.channel.not_in([str(channel) for channel in told]))
    return connection.execute(delete(outbox).where(or_(ended, for_nobody))).rowcount


def _event(row: Record) -> Event:
    return Event(
        id=row.id,
        uuid=row.uuid,
        about=row.about,
        type=row.type,
        body=row.body,
        created_at=row.created_at,
        attempts=row.attempts,
        repeating=bool(row.repeating),
    )
