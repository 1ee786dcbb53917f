"""Connections that are kept: which of them can be used as they are, and which are asked first.

A server that went away while nobody used a connection has closed it, or said why: there is something to read. That is looked for without
asking the server. Where a network drops idle connections in silence there is nothing to read, so one that lay idle for long is asked.
"""

from __future__ import annotations

import select
import time
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.exc import InvalidatePoolError

#: Seconds after which an idle connection is asked whether it is alive. Networks that forget connections take minutes.
TRUSTED_S = 5.0

_LEFT = "cantle.left"


def check_kept(engine: Engine) -> None:
    """Give out no connection of this engine that is known to have ended; all others of before go with it."""

    def leave(_connection: object, record: Any) -> None:
        record.info[_LEFT] = time.monotonic()

    def take(connection: Any, record: Any, _proxy: object) -> None:
        left = record.info.get(_LEFT)  # SQLAlchemy forgets it with the connection: a new one has none
        if left is None or (time.monotonic() - left < TRUSTED_S and not _was_spoken_to(connection)):
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise InvalidatePoolError from error

    event.listen(engine, "checkin", leave)
    event.listen(engine, "checkout", take)


def _was_spoken_to(connection: Any) -> bool:
    """Whether there is something to read, though nothing was asked."""
    looking = select.poll()
    # PyMySQL has no public name for its socket.
    looking.register(connection.fileno() if hasattr(connection, "fileno") else connection._sock, select.POLLIN)
    return bool(looking.poll(0))
