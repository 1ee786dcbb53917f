"""Connections that are kept: which of them can be used as they are, and which are asked first.

A server that went away while nobody used a connection has closed it, or said why: there is something to read. That is looked for without
asking the server. Where a network drops idle connections in silence there is nothing to read, so one that lay idle for long is asked.

A transaction has ended when its connection comes back, and needs no ROLLBACK; one whose COMMIT failed may be open still.
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

#: SERVER_STATUS_IN_TRANS of the MariaDB protocol.
_IN_TRANSACTION = 1


def keep(engine: Engine) -> None:
    """Give out no connection of this engine that is known to have ended, and take none back with an open transaction.

    :param engine: of PostgreSQL or MariaDB, with ``pool_reset_on_return`` None.
    """

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

    def end(connection: Any, _record: object, _state: object) -> None:
        if _is_in_transaction(connection):
            connection.rollback()

    event.listen(engine, "reset", end)
    event.listen(engine, "checkin", leave)
    event.listen(engine, "checkout", take)


def _was_spoken_to(connection: Any) -> bool:
    """Whether there is something to read, though nothing was asked."""
    looking = select.poll()
    # PyMySQL has no public name for its socket.
    looking.register(connection.fileno() if hasattr(connection, "fileno") else connection._sock, select.POLLIN)
    return bool(looking.poll(0))


def _is_in_transaction(connection: Any) -> bool:
    """By what the server said last."""
    if hasattr(connection, "pgconn"):
        return bool(connection.pgconn.transaction_status)  # 0 is IDLE, of a connection that broke 4
    return bool(connection.server_status & _IN_TRANSACTION)
