"""WSGI entry points for gunicorn, uwsgi and mod_wsgi: ``cantle.wsgi:application`` for clients, ``cantle.wsgi:agents`` for agents.

Both read ``/etc/cantle/cantle.conf`` and ``/etc/cantle/cantle.conf.d/`` (or what the environment variable ``CANTLE_CONFIG`` names)
when they are first used, not when this module is imported: a server that forks its workers opens the database in each of them.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from functools import partial
from types import FrameType
from typing import Any, NoReturn

from oslo_config import cfg

from cantle.api import admission, logs
from cantle.api.app import agents_app, public_app, warn_of_shared_token
from cantle.api.frame import Frame, WsgiApp
from cantle.conf import api, files, keeper, slips
from cantle.errors import CantleError, Unavailable
from cantle.store.database import Database

#: Waits that are ended in a second when a process goes down.
_ENDED_PER_S = 500.0

_log = logging.getLogger(__name__)


def _refuse(environ: dict[str, Any], start_response: Any) -> NoReturn:  # noqa: ARG001 (WSGI)
    raise Unavailable("not-started", "This service cannot start with its configuration; its log says why.")


_not_started = Frame(_refuse, admission.anyone)


class Lazy:
    """A WSGI application made at its first request. While it cannot be made, requests are answered 503, and each tries again."""

    def __init__(self, make: Callable[[cfg.ConfigOpts], tuple[WsgiApp, Database]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._app: WsgiApp | None = None
        self._database: Database | None = None

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """WSGI."""
        try:
            app = self.load()
        except CantleError as error:
            _log.error("This service cannot start: %s (%s)", error.message, error.code)
            app = _not_started
        return app(environ, start_response)

    def load(self) -> WsgiApp:
        """The application, made now if it is not yet.

        :raises cantle.errors.CantleError: what is wrong with the configuration or the database.
        """
        if self._app is not None:
            return self._app
        with self._lock:
            if self._app is None:
                places = files.usual_places()
                conf = files.read(*places)
                api.register(conf)
                logs.configure(as_json=conf.use_json, level="DEBUG" if conf.debug else "INFO")
                slips.warn(*places)
                self._app, self._database = self._make(conf)
            return self._app

    def load_or_exit(self) -> None:
        """As :meth:`load`, for the post-fork hooks of servers: what is wrong is logged in one line, and the process ends.

        Its exit code is 3, which tells gunicorn's master to give up rather than to try again at once.
        """
        try:
            self.load()
        except CantleError as error:
            _log.critical("This service cannot start: %s (%s)", error.message, error.code)
            sys.exit(3)

    def end_waits(self, *signals: int) -> None:
        """From now on, answer whoever waits (long polls) as soon as one of these signals comes, before the server's own handler does its
        part: a server that ends lets requests finish, and agents wait for a minute. For the hooks of servers, in the main thread.
        """
        for number in signals:
            before = signal.getsignal(number)

            def handle(number: int, frame: FrameType | None, before: Any = before) -> None:
                if self._database is not None:  # in a thread: the interrupted code may hold the lock that this takes
                    stop = partial(self._database.wakeups.stop, per_second=_ENDED_PER_S)
                    threading.Thread(target=stop, name="end waits").start()
                if callable(before):
                    before(number, frame)

            signal.signal(number, handle)


def _database(conf: cfg.ConfigOpts) -> Database:
    """The schema is not looked at here: with the database away the process is up and says so at /healthz, but not at /readyz."""
    return Database.open(api.database_url(conf), check=False, outlets=keeper.outlets(conf))


def make_public(conf: cfg.ConfigOpts) -> tuple[WsgiApp, Database]:
    """The clients' application, and its database."""
    settings = api.public_settings(conf)
    database = _database(conf)
    return public_app(database, settings), database


def make_agents(conf: cfg.ConfigOpts) -> tuple[WsgiApp, Database]:
    """The agents' application, and its database."""
    settings = api.agents_settings(conf)
    warn_of_shared_token(settings)
    database = _database(conf)
    return agents_app(database, settings), database


application = Lazy(make_public)
agents = Lazy(make_agents)
