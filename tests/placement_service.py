"""The real OpenStack Placement inside this process: its WSGI application on SQLite, loaded once, called by one thread at a time.

Requests reach it through a keystoneauth adapter as they would over the network; only the socket is left out. Between the two stands
`Faults`, which answers in Placement's place, or loses the answer, when a test says so.
"""

from __future__ import annotations

import atexit
import io
import json
import shutil
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from wsgiref.simple_server import WSGIRequestHandler, make_server

import requests
from keystoneauth1 import adapter, noauth, session
from requests.adapters import BaseAdapter
from sqlalchemy import text

#: Where it is said to be; nothing listens there.
URL = "http://placement.invalid"

#: What its noauth2 takes for a service user with an administrator's role.
_ROLES = "admin,member,reader,service"

#: Tables that hold what callers made, children first. Standard traits and classes stay.
_TABLES = (
    "allocations",
    "consumers",
    "consumer_types",
    "projects",
    "users",
    "inventories",
    "resource_provider_aggregates",
    "placement_aggregates",
    "resource_provider_traits",
)


@dataclass(frozen=True)
class Sent:
    """One request that reached the faults, in order."""

    method: str
    path: str
    status: int


class Timeout:
    """The client hears nothing. ``after``: Placement did what was asked, and the answer was lost."""

    def __init__(self, *, after: bool = False) -> None:
        self.after = after

    def __str__(self) -> str:
        return "answer lost" if self.after else "silence"  # the name of a test's case: the same in each process


#: What answers in the place of a request: a status, or silence.
Fault = int | Timeout


@dataclass
class Faults:
    """Which requests go wrong, by their number from 1 on since `clear`; what was sent.

    ``always`` goes for each request that has no fault of its own. ``before`` is called with each request before it goes on, so that a
    test can change something in that moment.
    """

    at: dict[int, Fault] = field(default_factory=dict)
    always: Fault | None = None
    before: Callable[[str, str], None] | None = None
    sent: list[Sent] = field(default_factory=list)

    def clear(self) -> None:
        """No faults, nothing sent yet."""
        self.at, self.always, self.before = {}, None, None
        self.sent.clear()

    @property
    def writes(self) -> list[str]:
        """Method and path of what was sent besides GET."""
        return [f"{one.method} {one.path}" for one in self.sent if one.method != "GET"]


class Placement:
    """The service, and a client for it. Make it with `placement`. ``roles`` are those of whoever comes through the faults."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._lock = threading.Lock()
        self.faults = Faults()
        self.roles = _ROLES

    def adapter(self, *, faulty: bool = True) -> adapter.Adapter:
        """What `cantle.placement.client` needs. ``faulty`` False goes round the faults: the test's own eyes and hands."""
        http = requests.Session()
        http.mount(URL, _Wire(self, self.faults if faulty else None))
        made = session.Session(session=http, auth=noauth.NoAuth(endpoint=URL))
        return adapter.Adapter(made, service_type="placement", endpoint_override=URL)

    def call(self, method: str, path: str, body: object = None, version: str = "1.39") -> Any:
        """Ask it something as an administrator, round the faults; the JSON of a good answer, None where there is no body."""
        answer = self.adapter(faulty=False).request(path, method, json=body, microversion=version, raise_exc=False)
        assert answer.status_code < 300, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    @contextmanager
    def listening(self) -> Iterator[str]:
        """Its URL over HTTP, one request at a time, round the faults; whoever calls is an administrator."""

        def application(environ: dict[str, Any], start: Callable[..., object]) -> list[bytes]:
            status, headers, body = self.wsgi(environ | {"HTTP_X_ROLES": _ROLES})
            start(f"{status} {HTTPStatus(status).phrase}", list(headers.items()))
            return [body]

        server = make_server("127.0.0.1", 0, application, handler_class=_Quiet)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def wsgi(self, environ: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        """One request, none at the same time: SQLite has one writer."""
        said: dict[str, Any] = {}

        def start(status: str, headers: list[tuple[str, str]], _exc: object = None) -> Callable[[bytes], object]:
            said.update(status=int(status.split(maxsplit=1)[0]), headers=dict(headers))
            return lambda _data: None

        with self._lock, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Placement's and its libraries' own
            body = b"".join(self._app(environ, start))
        return said["status"], said["headers"], body

    def empty(self) -> None:
        """Forget everything that callers made."""
        from placement.db_api import get_placement_engine  # noqa: PLC0415 - takes a second

        with get_placement_engine().begin() as connection:
            connection.execute(text("UPDATE resource_providers SET parent_provider_id = NULL, root_provider_id = NULL"))
            for table in _TABLES:
                connection.execute(text(f"DELETE FROM {table}"))  # noqa: S608 - names from above
            connection.execute(text("DELETE FROM resource_providers"))
            connection.execute(text("DELETE FROM traits WHERE name LIKE 'CUSTOM_%'"))
            connection.execute(text("DELETE FROM resource_classes WHERE name LIKE 'CUSTOM_%'"))


class _Quiet(WSGIRequestHandler):
    """Logs nothing."""

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


class _Wire(BaseAdapter):
    """From requests to WSGI."""

    def __init__(self, placement: Placement, faults: Faults | None) -> None:
        super().__init__()
        self._placement = placement
        self._faults = faults

    def send(self, request: requests.PreparedRequest, *_args: object, **_kwargs: object) -> requests.Response:
        """What `requests` calls."""
        method, path = request.method or "GET", request.path_url
        if self._faults is None:
            return self._answer(request, *self._placement.wsgi(_environ(request)))
        faults = self._faults
        if faults.before is not None:
            faults.before(method, path)
        number = len(faults.sent) + 1
        fault = faults.at.get(number, faults.always)
        if isinstance(fault, int):
            faults.sent.append(Sent(method, path, fault))
            body = {"errors": [{"status": fault, "detail": "as the test wants it", "code": _code(fault)}]}
            headers = {"Content-Type": "application/json"}
            return self._answer(request, fault, headers, json.dumps(body).encode())
        if isinstance(fault, Timeout):
            if fault.after:
                self._placement.wsgi(self._environ(request))
            faults.sent.append(Sent(method, path, 0))
            raise requests.exceptions.ReadTimeout("as the test wants it", request=request)
        status, headers, body_ = self._placement.wsgi(self._environ(request))
        faults.sent.append(Sent(method, path, status))
        return self._answer(request, status, headers, body_)

    def close(self) -> None:
        """Nothing is open."""

    def _environ(self, request: requests.PreparedRequest) -> dict[str, Any]:
        return _environ(request) | {"HTTP_X_ROLES": self._placement.roles}

    def _answer(
        self, request: requests.PreparedRequest, status: int, headers: dict[str, str], body: bytes
    ) -> requests.Response:
        made = requests.Response()
        made.status_code, made.request, made.url = status, request, request.url or ""
        made.headers.update(headers)
        made.raw = io.BytesIO(body)
        return made


def _code(status: int) -> str:
    """What Placement itself writes with that status when somebody else was quicker."""
    return "placement.concurrent_update" if status == 409 else "placement.undefined_code"


def _environ(request: requests.PreparedRequest) -> dict[str, Any]:
    path, _, query = request.path_url.partition("?")
    body = request.body.encode() if isinstance(request.body, str) else request.body or b""
    assert isinstance(body, bytes)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote(path),
        "QUERY_STRING": query,
        "SERVER_NAME": "placement.invalid",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": io.StringIO(),
        "wsgi.multithread": False,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        "HTTP_X_ROLES": _ROLES,
    }
    for name, value in request.headers.items():
        word = value.decode() if isinstance(value, bytes) else value
        key = name.upper().replace("-", "_")
        environ[key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"] = word
    return environ


@contextmanager
def placement(**options: object) -> Iterator[Placement]:
    """The service with nothing in it.

    :param options: of its section ``[placement]``, for this time only, e.g. ``max_allocation_candidates``.
    """
    app, conf = _application()
    made = Placement(app)
    made.empty()
    for name, value in options.items():
        conf.set_override(name, value, group="placement")
    try:
        yield made
    finally:
        for name in options:
            conf.clear_override(name, group="placement")


def kept_in(file: Path) -> Placement:
    """The service over a database file that is kept; a new one is filled. For a process that uses no other: see `_load`."""
    return Placement(_load(file, fill=not file.exists())[0])


@cache
def _application() -> tuple[Any, Any]:
    """The application of this process, over a database that lives as long as it does."""
    directory = Path(tempfile.mkdtemp(prefix="cantle-placement-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return _load(directory / "placement.db", fill=True)


def _load(file: Path, *, fill: bool) -> tuple[Any, Any]:
    """The application and its configuration. Placement keeps its database in a global, so there is one in a process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from oslo_config import cfg  # noqa: PLC0415

        from placement import conf as placement_conf  # noqa: PLC0415 - takes a second
        from placement import db_api, deploy  # noqa: PLC0415

        conf = cfg.ConfigOpts()
        placement_conf.register_opts(conf)
        conf.set_default("connection", f"sqlite:///{file}", group="placement_database")
        conf.set_default("sync_on_startup", fill, group="placement_database")
        conf.set_default("sqlite_synchronous", False, group="placement_database")
        conf.set_default("auth_strategy", "noauth2", group="api")
        conf([], default_config_files=[], default_config_dirs=[])
        db_api.configure(conf)
        app = deploy.loadapp(conf)
    return app, conf
