"""Logs of the server processes: one line per event, as text or JSON, with the id of the request it belongs to."""

from __future__ import annotations

import datetime as dt
import logging
from contextvars import ContextVar
from typing import Any

import msgspec

#: The id of the request this thread is at work on; "-" for none.
REQUEST_ID: ContextVar[str] = ContextVar("cantle_request_id", default="-")

_TEXT = "%(asctime)s %(process)d %(levelname)s %(name)s [%(request_id)s] %(message)s"

#: Attributes every record has; what else it has was given as ``extra`` and is logged as a field.
_ORDINARY = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "request_id", "taskName"}


class RequestIdFilter(logging.Filter):
    """Adds ``request_id`` to each record."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Never drops a record."""
        record.request_id = REQUEST_ID.get()
        return True


class TextFormatter(logging.Formatter):
    """One line an event, a traceback below it. What a client put into a path or a name never makes a line of its own."""

    def __init__(self) -> None:
        super().__init__(_TEXT)

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line, with what is not printable escaped."""
        if not record.message.isprintable():
            record.message = record.message.encode("unicode_escape").decode()
        return super().formatMessage(record)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ``time`` (UTC), ``level``, ``logger``, ``message``, ``request_id``, ``process``, extras, ``traceback``."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without a newline inside."""
        content: dict[str, Any] = {
            "time": dt.datetime.fromtimestamp(record.created, dt.UTC),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "request_id": getattr(record, "request_id", "-"),
            "process": record.process,
        }
        content.update(
            (name, value) for name, value in vars(record).items() if name not in _ORDINARY and name not in content
        )
        if record.exc_info:
            content["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(content, enc_hook=str).decode()


def configure(*, as_json: bool, level: str = "INFO") -> None:
    """Send all logs of this process to standard error, in place of earlier handlers. For composition roots only."""
    handler = logging.StreamHandler()
    handler.addFilter(RequestIdFilter())
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
