"""A host's agent over HTTP that does one thing: it follows intents. A real server, the real client, and no hardware."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.stories.hosts import choosable, report, t4, whole
from tests.stories.world import fresh_database
from tests.unit.api.served import http_server

from cantle.api.app import agents_app, public_app
from cantle.api.settings import Settings


@dataclass
class Agent:
    """The agent of ``h1`` with one T4 that can be cut or lent whole.

    :param url: of the agents' listener.
    :param busy: why it cannot follow, if it cannot.
    """

    url: str
    busy: str | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _ended: threading.Event = field(default_factory=threading.Event)

    def report(self, *, host: str = "h1", **card: Any) -> None:
        """Tell what the card is."""
        self._call("PUT", f"/v1/hosts/{host}/inventory", report(choosable(**card)))

    def run(self) -> None:
        """Follow until stopped."""
        generation = 0
        while not self._stop.is_set():
            work = self._call("GET", f"/v1/hosts/h1/work?generation={generation}&wait=0.2")
            if work["generation"] != generation:
                generation = work["generation"]
                for wish in work["intents"]:
                    self._follow(wish)
        self._ended.set()

    def stop(self) -> None:
        """End `run`; once this returns, the agent does nothing more."""
        self._stop.set()
        assert self._ended.wait(30), "the agent did not stop"

    def _follow(self, wish: dict[str, Any]) -> None:
        version = wish["version"]
        if self.busy is not None:
            self.report(intent_tried=version, intent_code="device-busy", intent_error=self.busy)
            return
        mode = wish["mode"] or "mdev"
        deployables = {"mdev": t4, "passthrough": whole}[mode]()["deployables"]
        self.report(mode=mode, deployables=deployables, intent_version=version, intent_tried=version)

    def _call(self, method: str, path: str, body: object = None) -> Any:
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=30)
        with contextlib.closing(connection):
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            content = answer.read()
        assert answer.status < 300, content
        return json.loads(content)


@contextlib.contextmanager
def following(directory: Path) -> Iterator[tuple[str, Agent]]:
    """The URL of a server, and the agent of its one host, which runs."""
    db = fresh_database(directory)
    with http_server(agents_app(db, Settings())) as agents, http_server(public_app(db, Settings())) as url:
        agent = Agent(agents)
        agent.report()
        thread = threading.Thread(target=agent.run)
        thread.start()
        try:
            yield url, agent
        finally:
            agent.stop()
            thread.join(30)
            db.close()
