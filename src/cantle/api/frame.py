"""The outermost WSGI layer: what every answer has, even those of requests that get no further."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

from cantle.api import fault, request_id
from cantle.api.admission import Admit
from cantle.api.identity import IDENTITY
from cantle.api.logs import REQUEST_ID
from cantle.errors import CantleError

WsgiApp = Callable[[dict[str, Any], Any], Iterable[bytes]]

_log = logging.getLogger(__name__)
_HEALTH = frozenset({"/healthz", "/readyz", "/healthcheck"})
_access = logging.getLogger("cantle.api.access")


class Frame:
    """Gives each request its id, turns away what is not admitted, logs one line per request, and lets no exception reach the server."""

    def __init__(self, app: WsgiApp, admit: Admit) -> None:
        self._app = app
        self._admit = admit

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """WSGI."""
        name = request_id.assign(environ)
        token = REQUEST_ID.set(name)
        started = time.perf_counter()

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            headers.append((request_id.HEADER, name))
            level = _level(environ, status)
            if _access.isEnabledFor(level):
                _log_access(level, environ, status, time.perf_counter() - started)
            return start_response(status, headers, exc_info) if exc_info else start_response(status, headers)

        try:
            self._admit(environ)
            return self._app(environ, start)
        except CantleError as error:
            return _refuse(environ, start, error, name)
        except Exception:  # noqa: BLE001 (the last line: a server would show the traceback, or a bare 500 without an id)
            _log.exception("%s %s failed", environ["REQUEST_METHOD"], environ.get("PATH_INFO"))
            return _refuse(environ, start, fault.internal(name), name)
        finally:
            REQUEST_ID.reset(token)


def _refuse(environ: dict[str, Any], start: Any, error: CantleError, name: str) -> Iterable[bytes]:
    body, content_type = fault.render(environ.get("PATH_INFO", ""), error, name)
    headers = [*fault.headers(error).items(), ("Content-Type", content_type), ("Content-Length", str(len(body)))]
    start(fault.status_line(error.status), headers)
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]


def _level(environ: dict[str, Any], status: str) -> int:
    """Health is asked for every few seconds, by every load balancer; thousands of agents hear once a minute that nothing has changed."""
    return logging.DEBUG if status.startswith("304") or environ.get("PATH_INFO") in _HEALTH else logging.INFO


def _log_access(level: int, environ: dict[str, Any], status: str, seconds: float) -> None:
    method, path, who = environ["REQUEST_METHOD"], environ.get("PATH_INFO", ""), environ.get(IDENTITY)
    milliseconds = round(seconds * 1000, 1)
    _access.log(
        level,
        "%s %s %s %sms user %s project %s",
        method,
        path,
        status[:3],
        milliseconds,
        who and (who.user_id or None),
        who and who.project_id,
        extra={
            "method": method,
            "path": path,
            "status": int(status[:3]),
            "duration_ms": milliseconds,
            "user_id": who and (who.user_id or None),
            "project_id": who and who.project_id,
        },
    )
