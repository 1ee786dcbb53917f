"""Steps of a role, seen from outside: statements and commits, writes to the kernel's files, flushes to disk, HTTP both ways.

Nothing of it is in the product. In a forked process, functions of the standard library, SQLAlchemy's events and a subclass of the
simulated kernel call `Marks.at` on their way; there the process is killed, or something is cut, if that is the plan.
"""

from __future__ import annotations

import http.client
import os
import re
import signal
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from sqlalchemy import Engine, event
from tests.chaos.points import Action, Board, Flag, Point, Step

from cantle.keeper.courier import Receiver
from cantle.model.event import Channel, Event, Verdict
from cantle.store.database import Database

_VERB = re.compile(r"\s*(?:WITH .*?\)\s*)?(INSERT|UPDATE|DELETE|SELECT)", re.IGNORECASE | re.DOTALL)
_TABLE = re.compile(r"(?:INTO|UPDATE|FROM)\s+[`\"]?(\w+)", re.IGNORECASE)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

WsgiApp = Callable[[dict[str, Any], Any], Iterable[bytes]]


class Marks:
    """The steps of one process.

    :param record: a file descriptor on which each step is written, or -1.
    :param ask: on which a cut or a loss of power is asked for; ``done``: on which the answer comes.
    :param plan: what is to happen; None after a restart, and while steps are recorded.
    """

    def __init__(self, board: Board, *, record: int, ask: int, done: int, plan: Point | None) -> None:
        self.board = board
        self._record = record
        self._ask = ask
        self._done = done
        self._plan = plan
        self._lock = threading.Lock()
        self._seen: Counter[tuple[str, str]] = Counter()
        self._role = threading.local()

    def act_as(self, role: str) -> None:
        """The calling thread works for this role."""
        self._role.name = role

    @property
    def role(self) -> str:
        """Whose step it is: threads that nobody named serve requests."""
        return getattr(self._role, "name", "api")

    def at(self, name: str) -> None:
        """The calling thread comes to a step."""
        if not self.board[Flag.ARMED]:
            return
        role = self.role
        with self._lock:
            self._seen[role, name] += 1
            step = Step(role, name, self._seen[role, name])
        if self._record >= 0:
            os.write(self._record, f"{step}\n".encode())
        if self._plan is not None and self._plan.step == step and not self.board[Flag.FIRED]:
            self._happen(self._plan.action)

    def _happen(self, action: Action) -> None:
        self.board[Flag.FIRED] = 1
        if action is Action.KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        os.write(self._ask, bytes([list(Action).index(action)]))
        os.read(self._done, 1)  # never answered when the power is lost: this process is killed meanwhile


def of_database(marks: Marks, db: Database) -> None:
    """Steps of transactions that write: before each statement, before and after each commit. What cuts SQLite off is here too."""
    for engine in (db._reader, db._writer):
        _interruptible(marks.board, engine)
    event.listen(db._writer, "before_cursor_execute", lambda *call: _statement(marks, call[2]))
    dialect: Any = db._writer.dialect
    commit = dialect.do_commit

    def do_commit(connection: Any) -> None:
        marks.at("commit")
        commit(connection)
        marks.at("committed")

    dialect.do_commit = do_commit


def _statement(marks: Marks, sql: str) -> None:
    if "pg_notify" in sql:
        marks.at("notify")
        return
    verb, table = _VERB.match(sql), _TABLE.search(sql)
    if verb is not None and table is not None:
        marks.at(f"{verb[1].lower()}-{table[1].lower()}")


def _interruptible(board: Board, engine: Engine) -> None:
    """SQLite has no connection that could be cut: its file fails instead."""
    if engine.dialect.name != "sqlite":
        return

    def fail() -> None:
        if board[Flag.DATABASE_AWAY]:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorname = "SQLITE_IOERR"
            raise error

    dialect: Any = engine.dialect
    for name in ("do_execute", "do_executemany", "do_commit"):
        setattr(dialect, name, _failing(fail, getattr(dialect, name)))


def _failing(fail: Callable[[], None], then: Callable[..., None]) -> Callable[..., None]:
    def do(*arguments: Any, **more: Any) -> None:
        fail()
        then(*arguments, **more)

    return do


def of_files(marks: Marks, directory: str) -> None:
    """Steps of what is kept in a directory: before a file is flushed, before and after it is moved into place."""
    fsync, replace = os.fsync, os.replace

    def marked_fsync(fd: int) -> None:
        marks.at(f"fsync-{os.path.basename(os.readlink(f'/proc/self/fd/{fd}'))}")
        fsync(fd)

    def marked_replace(source: Any, target: Any, **how: Any) -> None:
        place = os.fspath(target)
        if os.path.dirname(place) != directory:
            replace(source, target, **how)  # the simulated kernel's, which is at work
            return
        marks.at(f"replace-{os.path.basename(place)}")
        replace(source, target, **how)
        marks.at(f"replaced-{os.path.basename(place)}")

    os.fsync = marked_fsync  # type: ignore[assignment] # this process was forked for it
    os.replace = marked_replace  # type: ignore[assignment]


def of_http_out(marks: Marks) -> None:
    """Steps of calls to others: before one is sent, when it is sent, when the answer's first line is there."""
    kind: Any = http.client.HTTPConnection
    put, end, answer = kind.putrequest, kind.endheaders, kind.getresponse

    def putrequest(self: Any, method: str, url: str, *rest: Any, **more: Any) -> None:
        self.chaos_name = f"{method.lower()}-{_UUID.sub('-', url).partition('?')[0].rpartition('/')[2]}"
        self.chaos_waits = "wait=" in url
        put(self, method, url, *rest, **more)

    def endheaders(self: Any, *rest: Any, **more: Any) -> None:
        marks.at(f"{self.chaos_name}-to-send")
        if self.chaos_waits:
            marks.board[Flag.AGENT_WAITS] = 1
        end(self, *rest, **more)
        marks.at(f"{self.chaos_name}-sent")

    def getresponse(self: Any, *rest: Any, **more: Any) -> Any:
        try:
            return answer(self, *rest, **more)
        finally:
            if self.chaos_waits:
                marks.board[Flag.AGENT_WAITS] = 0
            marks.at(f"{self.chaos_name}-answered")

    kind.putrequest, kind.endheaders, kind.getresponse = putrequest, endheaders, getresponse


def of_requests(marks: Marks, app: WsgiApp) -> WsgiApp:
    """Steps of answering: a request came, and its answer is ready but not sent. What only reads for a client is left out."""

    def marked(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = _UUID.sub("-", environ["PATH_INFO"])
        name = f"{environ['REQUEST_METHOD'].lower()}-{path.rpartition('/')[2]}"
        reads = environ["REQUEST_METHOD"] == "GET" and not path.endswith("/work")
        if not reads:
            marks.at(f"{name}-came")
        answer = app(environ, start_response)
        if not reads:
            marks.at(f"{name}-to-answer")
        return answer

    return marked


class MarkedReceiver:
    """A receiver with a step before and after each batch."""

    def __init__(self, marks: Marks, inner: Receiver) -> None:
        self._marks = marks
        self._inner = inner

    @property
    def channel(self) -> Channel:
        """The other's."""
        return self._inner.channel

    @property
    def batch(self) -> int:
        """The other's."""
        return self._inner.batch

    @property
    def patience_s(self) -> float:
        """The other's."""
        return self._inner.patience_s

    def send(self, events: Any) -> list[Verdict]:
        """The other's."""
        batch: list[Event] = list(events)
        self._marks.at(f"{self.channel}-batch")
        verdicts = self._inner.send(batch)
        self._marks.at(f"{self.channel}-batch-over")
        return verdicts
