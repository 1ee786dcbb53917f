"""A whole installation, each part a process: two APIs, an agents' listener, two keepers on PostgreSQL, agents of simulated hosts."""

from __future__ import annotations

import http.client
import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.postgres import Postgres
from tests.real.front import Front
from tests.real.processes import Service, answers, free_port, wait_until

from cantle.store import migrate

DEPLOY = Path(__file__).parents[2] / "docs" / "deploy"

#: The seed's vGPU type, on the simulated host's T4.
TYPES = "[gpu_devices]\nenabled_vgpu_types = nvidia-223\n[vgpu_nvidia-223]\ndevice_addresses = 0000:af:00.0\n"

#: What one call may take; far more than any does.
_PATIENCE_S = 30.0


class Refused(Exception):
    """An answer of 4xx or 5xx."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status}: {body}")
        self.status = status


@dataclass
class Caller:
    """Somebody who calls the API through the front, with a connection for each call."""

    port: int

    def once(self, method: str, path: str, body: object = None) -> Any:
        """One call, as Nova's client makes a PATCH: never again.

        :raises OSError, http.client.HTTPException: there was no whole answer. :raises Refused: it is no success.
        """
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_PATIENCE_S)
        try:
            headers = {"Content-Type": "application/json", "Connection": "close"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.status >= 400:
            raise Refused(answer.status, text.decode())
        return json.loads(text) if text else None

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Again and again until there is an answer: for what a caller may repeat."""
        found: list[Any] = []

        def answered() -> bool:
            try:
                found[:] = [self.once(method, path, body)]
            except (OSError, http.client.HTTPException):
                return False
            except Refused as refused:
                if refused.status < 500:
                    raise
                return False
            return True

        wait_until(f"{method} {path} is answered", answered, seconds=_PATIENCE_S)
        return found[0]


class Installation:
    """Services by name: ``api-1``, ``api-2``, ``agents``, ``keeper-1``, ``keeper-2``, and ``agent-N`` of host ``hN``."""

    def __init__(self, place: Path, hosts: int) -> None:
        self._place = place
        self._ports = {name: free_port() for name in ("api-1", "api-2", "agents")}
        self._config = place / "cantle.conf"
        url = Postgres.shared().new_database()
        migrate.upgrade(url)
        place.mkdir(parents=True, exist_ok=True)
        self._config.write_text(f"[database]\nconnection = {url}\n{TYPES}")
        self.front = Front(self._ports["api-1"], self._ports["api-2"])
        self.caller = Caller(self.front.port)
        self.hosts = [f"h{number + 1}" for number in range(hosts)]
        self.services = {
            "api-1": self._web("api-1", "application", "gunicorn-api.conf.py"),
            "api-2": self._web("api-2", "application", "gunicorn-api.conf.py"),
            "agents": self._web("agents", "agents", "gunicorn-agents.conf.py"),
            "keeper-1": self._program("keeper-1", "cantle.cli.keeper", "--config-file", str(self._config)),
            "keeper-2": self._program("keeper-2", "cantle.cli.keeper", "--config-file", str(self._config)),
            **{f"agent-{name[1:]}": self._agent(name) for name in self.hosts},
        }

    def start(self) -> None:
        """All of it, and the hosts' first reports."""
        for name in self.services:
            self.start_one(name)
        wait_until("every host has reported", lambda: len(self.capacity()) == 2 * len(self.hosts), seconds=60)

    def start_one(self, name: str) -> None:
        """One service, until it is up; an API is put in before clients then."""
        service = self.services[name]
        port = self._ports.get(name)
        service.start((lambda: answers(f"http://127.0.0.1:{port}/readyz")) if port is not None else lambda: True)

    def take_out(self, name: str) -> None:
        """No new calls to that API, as before an upgrade."""
        self.front.take_out(self._ports[name])

    def put_in(self, name: str) -> None:
        """Calls to that API, too."""
        self.front.put_in(self._ports[name])

    def stop(self) -> None:
        """All of it, hosts first."""
        for name in reversed(self.services):
            self.services[name].stop(seconds=5)

    def capacity(self) -> list[dict[str, Any]]:
        """What each host can lend."""
        rows: list[dict[str, Any]] = self.caller.ask("GET", "/v1/capacity")["capacity"]
        return rows

    def _web(self, name: str, application: str, config: str) -> Service:
        """As docs/deploy says, on a port of its own."""
        argv: list[str | Path] = [
            sys.executable, "-m", "gunicorn", "--config", DEPLOY / config, "--bind", f"127.0.0.1:{self._ports[name]}",
            "--workers", "1", f"cantle.wsgi:{application}",
        ]  # fmt: skip
        return Service(name, argv, self._place / "log", env={"CANTLE_CONFIG": str(self._config)})

    def _program(self, name: str, module: str, *arguments: str) -> Service:
        return Service(name, [sys.executable, "-m", module, *arguments], self._place / "log")

    def _agent(self, host: str) -> Service:
        arguments: Sequence[str] = (
            "agent", "run", "--host", host, "--simulate", "t4", "--server", f"http://127.0.0.1:{self._ports['agents']}",
            "--state-dir", str(self._place / host), "--config-file", str(self._config),
        )  # fmt: skip
        shutil.rmtree(self._place / host, ignore_errors=True)
        return self._program(f"agent-{host[1:]}", "cantle.cli.main", *arguments)
