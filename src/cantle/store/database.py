"""The database as the rest of the server sees it: transactions that read, transactions that write, and wake-ups after them."""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, event, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from cantle.errors import BadConfig, Unavailable
from cantle.model.event import Channel, Outlets
from cantle.store import engines
from cantle.store.ears import Ears, NoEars
from cantle.store.faults import LookAgain, is_contention, translated, unusable_value
from cantle.store.listening import Listening
from cantle.store.polling import Polling
from cantle.store.revision import HEAD
from cantle.store.wakeups import AUDIT_TOPIC, Wakeups

T = TypeVar("T")

#: Tries of one transaction before we say that the database is too busy: about 3 s with the pauses between.
_TRIES = 20
_WAKE = "cantle.wake"
_OUTLETS = "cantle.outlets"
#: What `Database.statements` leaves out.
_NOT_COUNTED = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "PRAGMA", "SELECT PG_NOTIFY")

#: Without a hint, how long one who waits sleeps at most, unless something watches for him (`cantle.store.ears`). On SQLite all writers
#: are in this process and hints are not lost, save in accidents; elsewhere other processes write.
_LOOK_AGAIN_S = {"sqlite": 5.0, "postgresql": 0.25, "mysql": 0.25, "mariadb": 0.25}


class Database:
    """One database. Safe to use from any number of threads. Make it with `Database.open`.

    SQLite: one writer at a time in this process; readers never wait. PostgreSQL, MariaDB: as many as the
    pool allows, and `run` does a transaction again that the database gave up for another.

    ``outlets`` says who is told of events: those who change a state write them into the outbox for these.
    """

    def __init__(self, url: URL, outlets: Outlets) -> None:
        self.outlets = outlets
        self.where = engines.shown(url)
        self.dialect = url.get_backend_name()
        self._reader = engines.reader(url)
        self._writer = engines.writer(url)
        self._ears = self._hearing(url)
        self.wakeups = Wakeups(_LOOK_AGAIN_S[self.dialect], lambda: self._ears.start(self.wakeups))
        self._counts = False
        self._counted: dict[int, list[str] | None] = {}
        self._one_writer = threading.Lock() if self.dialect == "sqlite" else contextlib.nullcontext()

    @classmethod
    def open(cls, url: str, *, check: bool = True, outlets: Outlets = Outlets()) -> Database:  # noqa: B008 - frozen
        """Connect, and make sure that the schema is the one this version needs.

        :param url: e.g. ``sqlite:////var/lib/cantle/cantle.db``, ``postgresql://cantle@db/cantle``, ``mariadb://cantle@db/cantle``.
        :param check: False leaves the schema unlooked at, for tools that mend it.
        :param outlets: who is told of events; nobody unless said.
        :raises BadConfig: ``bad-database-url``, ``database-refused``.
        :raises Unavailable: ``database-not-migrated``, ``database-too-new``, and all that `read` and `write` raise.
        """
        database = cls(engines.parse(url), outlets)
        if check:
            try:
                database.check_schema()
            except BaseException as error:
                database.close()
                if isinstance(error, Unavailable) and error.code == "database-refused":
                    # At a start the URL is wrong. Later it was right, and the database may be on its way back: it is waited for.
                    raise BadConfig(error.code, error.message) from error
                raise
        return database

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that sees one moment of the database and writes nothing (the database itself refuses).

        :raises Unavailable: ``database-away``, ``database-cannot-open``, ``database-contended``, ``database-corrupt``, …
        """
        # Ended by COMMIT though nothing was written: after a ROLLBACK, psycopg forgets which statements PostgreSQL has prepared.
        with self._translating(contended=self._contended), self._reader.begin() as connection:
            yield connection

    @contextmanager
    def look(self) -> Iterator[Connection]:
        """For one `Prepared` query, or several of which each may see a moment of its own: no transaction is begun or ended for them,
        which is most of what a short query costs on a server. Any other statement begins one that writes nothing.

        :raises Unavailable: as `read`.
        """
        with self._translating(contended=self._contended), self._reader.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that is committed at the end of the block, or rolled back if the block raises. Use `run` where it may have to
        be done again.

        :raises Unavailable: as `read`, and ``database-read-only``, ``database-full``, ``database-busy``.
        """
        with self._one_writer, self._translating(contended=LookAgain), self._writer.begin() as connection:
            topics: set[str] = set()
            connection.info[_WAKE] = topics
            connection.info[_OUTLETS] = self.outlets
            yield connection
            if topics - {AUDIT_TOPIC}:
                self._ears.tell(connection, topics - {AUDIT_TOPIC})
        self.wakeups.signal(topics)

    def run(self, work: Callable[[Connection], T]) -> T:
        """Do ``work`` in a writing transaction and return what it returns. It is done again from the start when the database gave it up
        (deadlock, serialization), when it raised `LookAgain`, or when somebody else was quicker with something that must be unique.

        :raises Unavailable: ``database-contended`` when that does not end, and all that `write` raises.
        """
        for attempt in range(_TRIES):
            try:
                with self.write() as connection:
                    return work(connection)
            except (LookAgain, IntegrityError) as error:
                if isinstance(error, IntegrityError) and (self.dialect == "sqlite" or attempt + 1 == _TRIES):
                    raise  # nobody else was there: it is our own mistake
                time.sleep(random.uniform(0, min(0.2, 0.002 * 2**attempt)))  # noqa: S311 - spreads the tries, guards nothing
        raise self._contended(f"this {_TRIES} times")

    @contextmanager
    def statements(self) -> Iterator[list[str]]:
        """The SQL that this thread sends while the block runs, for tests that count it. BEGIN, PRAGMA and the like are not in it, nor is
        the wake-up that goes out with a COMMIT."""
        if not self._counts:
            # Once and for good: another thread may be calling what listens at any moment.
            self._counts = True
            for engine in (self._reader, self._writer):
                event.listen(engine, "before_cursor_execute", self._note)
        sent: list[str] = []
        before, self._counted[threading.get_ident()] = self._counted.get(threading.get_ident()), sent
        try:
            yield sent
        finally:
            self._counted[threading.get_ident()] = before

    def _note(self, _connection: object, _cursor: object, statement: str, *_rest: Any) -> None:
        sent = self._counted.get(threading.get_ident())
        if sent is not None and not statement.lstrip().upper().startswith(_NOT_COUNTED):
            sent.append(statement)

    def close(self) -> None:
        """Wake everybody who waits and give all connections back."""
        self.wakeups.stop()
        self._ears.stop()
        self._reader.dispose()
        self._writer.dispose()

    def _hearing(self, url: URL) -> Ears:
        """How this process learns of what others write."""
        if self.dialect == "postgresql":
            _, arguments = self._reader.dialect.create_connect_args(url)
            return Listening(dict(arguments), self.look)
        if self.dialect in ("mysql", "mariadb"):
            return Polling(self.look)
        return NoEars()

    @contextmanager
    def _translating(self, *, contended: Callable[[], Exception]) -> Iterator[None]:
        """:param contended: makes what is raised when the database gave the transaction up for another."""
        try:
            yield
        except IntegrityError:
            raise
        except DataError as error:
            raise unusable_value() from error
        except DBAPIError as error:
            if is_contention(error):
                raise contended() from error
            raise translated(error, self.where) from error
        except (UnicodeEncodeError, OverflowError) as error:
            raise unusable_value() from error
        except StatementError as error:  # raised before the statement was sent
            if isinstance(error.orig, UnicodeEncodeError):
                raise unusable_value() from error
            raise
        except PoolTimeoutError as error:
            raise Unavailable(
                "database-busy", f"All our connections to the database {self.where} are in use; try again."
            ) from error

    def _contended(self, what: str = "this") -> Unavailable:
        return Unavailable("database-contended", f"The database {self.where} gave {what} up for others; try again.")

    @property
    def is_missing(self) -> bool:
        """Whether SQLite's file is not there and could be made: to look into it would make an empty one."""
        if self.dialect != "sqlite":
            return False
        file = Path(self.where)
        return not file.exists() and os.access(file.parent, os.W_OK | os.X_OK, effective_ids=True)

    def check_schema(self) -> None:
        """Make sure that the database answers with the schema this version needs. Without Alembic, whose import costs as much memory
        as the rest of the store.

        :raises Unavailable: ``database-not-migrated``, ``database-too-new``, and all that `read` raises.
        """
        if self.is_missing:
            raise Unavailable(
                "database-not-migrated", f"There is no database {self.where} yet; 'cantle-manage db sync' makes it."
            )
        with self.read() as connection:
            found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        if found is None or found < HEAD:
            raise Unavailable(
                "database-not-migrated",
                f"The database {self.where} is at schema {found}, we need {HEAD}; run 'cantle-manage db sync'.",
            )
        if found > HEAD:
            raise self.too_new(found)

    def too_new(self, found: str) -> Unavailable:
        """The refusal of a schema that a newer version made."""
        return Unavailable(
            "database-too-new",
            f"The database {self.where} is at schema {found}, this version knows {HEAD}; run a newer version.",
        )


def wake(connection: Connection, topic: str) -> None:
    """Ring those who wait for that topic once this writing transaction is committed, and not if it is rolled back."""
    connection.info[_WAKE].add(topic)


def outlets(connection: Connection) -> Outlets:
    """Who is told of events, in a writing transaction."""
    found = connection.info[_OUTLETS]
    assert isinstance(found, Outlets)  # noqa: S101 - `Database.write` sets it
    return found


def host_topic(hostname: str) -> str:
    """Rung when what a host should do has changed."""
    return f"host/{hostname}"


def report_topic(hostname: str) -> str:
    """Rung when a host's report has changed what is known of it."""
    return f"report/{hostname}"


def lease_topic(uuid: str) -> str:
    """Rung when an ARQ or a claim of a lease has changed."""
    return f"lease/{uuid}"


def outbox_topic(channel: Channel) -> str:
    """Rung when there are new events for a receiver."""
    return f"outbox/{channel}"
