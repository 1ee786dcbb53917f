"""What a database's refusal means: for us (look again), for the operator (a code and a sentence), never its SQL."""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import DBAPIError

from cantle.errors import BadRequest, CantleError, Unavailable

#: SQLSTATEs of PostgreSQL: serialization failure, deadlock, lock not available.
_PG_CONTENDED = frozenset({"40001", "40P01", "55P03"})
#: Error numbers of MariaDB: deadlock (also Galera's certification failure), lock wait timeout, record changed since last read; and the two
#: first of the lock that INSERT … SELECT takes on a table's next row number (innodb_autoinc_lock_mode 1, the default).
_MYSQL_CONTENDED = frozenset({1213, 1205, 1020, 1467})
_MYSQL_FULL = frozenset({1021, 1114})
_MYSQL_REFUSED = frozenset({1044, 1045, 1049, 1698})
#: PostgreSQL gives no SQLSTATE to a client that it does not let in, just words. In another language they count as "away".
_PG_REFUSED = (
    "does not exist",
    "authentication failed",
    "no pg_hba.conf entry",
    "no password supplied",
    "not permitted to log in",
)
#: A statement that the driver has prepared: its result has other types now, it is not there, or is there already.
_PG_STATEMENT_LOST = frozenset({"0A000", "26000", "42P05"})
_MYSQL_READ_ONLY = frozenset({1290, 1792, 1836})
#: SQLSTATEs of PostgreSQL (beginnings) and error numbers of MariaDB (and its client) that say: too many connections, stopped, cut off.
_PG_AWAY = ("08", "53300", "57P")
_MYSQL_AWAY = frozenset(
    {0, 1040, 1053, 1077, 1152, 1153, 1158, 1159, 1160, 1161, 1203, 1927, 2002, 2003, 2006, 2013, 2055, 4031}
)

_STATEMENT_LOST = (
    "database-statement-lost",
    "The database {where} does not know a statement that was prepared there; try again. Its schema was just changed, or a pooler gives "
    "each transaction another connection.",
)
_AWAY = ("database-away", "The database {where} does not answer; it is down, restarting or out of connections.")


class LookAgain(Exception):
    """What a transaction had read is no longer so: roll back and do it again from the start. `Database.run` does."""


def is_contention(error: DBAPIError) -> bool:
    """Whether the database gave this transaction up for the sake of another: doing it again is right."""
    if isinstance(error.orig, sqlite3.Error):
        return False
    if getattr(error.orig, "sqlstate", None) in _PG_CONTENDED:
        return True
    return _mysql_number(error) in _MYSQL_CONTENDED


def translated(error: DBAPIError, where: str) -> CantleError:
    """The error for whoever asked.

    :param where: the database as a person names it: a file, or ``user@host/name``; no password.
    """
    if isinstance(error.orig, sqlite3.Error):
        return _of_sqlite(error.orig, where)
    state = getattr(error.orig, "sqlstate", None) or ""
    number = _mysql_number(error)
    if state in ("53100", "58030") or number in _MYSQL_FULL:
        return Unavailable("database-full", f"The database {where} has no room left on its disk; make room there.")
    if state == "25006" or number in _MYSQL_READ_ONLY:
        return Unavailable(
            "database-read-only", f"The database {where} takes no writes; it is a replica or was set read-only."
        )
    refused = not state and any(words in str(error.orig) for words in _PG_REFUSED)
    if refused or number in _MYSQL_REFUSED:
        return Unavailable(
            "database-refused",
            f"The database {where} does not let us in: its user, password or name is wrong, or it is being restored just now. If it stays "
            "so, check the URL.",
        )
    lost = state in _PG_STATEMENT_LOST
    if (state.startswith("42") and not lost) or number in (1146, 1054):
        return Unavailable(
            "database-not-migrated", f"The database {where} lacks our tables; run 'cantle-manage db sync'."
        )
    code, sentence = _STATEMENT_LOST if lost else _AWAY
    told = sentence.format(where=where)
    unknown = (state and not state.startswith(_PG_AWAY)) or (number is not None and number not in _MYSQL_AWAY)
    if code == "database-away" and unknown:
        told = f"The database {where} failed with {f'SQLSTATE {state}' if state else f'error {number}'}; its own log says more."
    return Unavailable(code, told)


def unusable_value() -> BadRequest:
    """What databases refuse to keep: characters such as NUL, half a character, or a number of more than 64 bits."""
    return BadRequest(
        "bad-value", "A value cannot be kept: it holds a character such as NUL, or is a number or text out of range."
    )


def _of_sqlite(error: sqlite3.Error, where: str) -> CantleError:
    name = getattr(error, "sqlite_errorname", "")
    for prefix, make in _SQLITE.items():
        if name.startswith(prefix):
            code, sentence = make
            return Unavailable(code, sentence.format(where=where))
    if "no such table" in str(error) or "no such column" in str(error):
        return Unavailable(
            "database-not-migrated", f"The database {where} lacks our tables; run 'cantle-manage db sync'."
        )
    return Unavailable("database-away", f"The database {where} cannot be used ({name or type(error).__name__}).")


#: By the beginning of SQLite's own name of the error; the first that fits counts.
_SQLITE = {
    "SQLITE_READONLY": (
        "database-read-only",
        "The database {where} cannot be written: its file, its directory or the file system is read-only.",
    ),
    "SQLITE_FULL": (
        "database-full",
        "The disk that holds the database {where} is full; make room and try again. Nothing was changed.",
    ),
    "SQLITE_CANTOPEN": (
        "database-cannot-open",
        "The database {where} cannot be opened; its directory must exist and be writable for the user we run as.",
    ),
    "SQLITE_PERM": ("database-cannot-open", "The database {where} may not be opened by the user we run as."),
    "SQLITE_CORRUPT": (
        "database-corrupt",
        "The database {where} is damaged. Stop the service and put a backup in its place.",
    ),
    "SQLITE_NOTADB": (
        "database-corrupt",
        "The file {where} is no database. Stop the service and put a backup in its place.",
    ),
    "SQLITE_BUSY": ("database-busy", "The database {where} is held by another process; stop it or wait for it."),
    "SQLITE_LOCKED": ("database-busy", "The database {where} is held by another process; stop it or wait for it."),
    "SQLITE_IOERR": (
        "database-io-error",
        "Reading or writing the database {where} failed on its disk; look at the kernel's log.",
    ),
}


def _mysql_number(error: DBAPIError) -> int | None:
    args = getattr(error.orig, "args", ())
    return args[0] if args and isinstance(args[0], int) else None
