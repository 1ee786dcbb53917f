"""A Cantle under test: ``cantle serve`` with the checkout's own ``.venv``, and the one device of its one host."""

from __future__ import annotations

import json
import signal
import sys
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.real.cloud import PASSWORD
from tests.real.processes import Service, answers, free_port, wait_until

_KEYSTONE = """\
[api]
auth = keystone
[keystone_authtoken]
www_authenticate_uri = {auth_url}
auth_type = password
auth_url = {auth_url}
username = cantle
password = {password}
project_name = service
user_domain_name = Default
project_domain_name = Default
# For the test in which Keystone hangs; the default waits for minutes.
http_connect_timeout = 2
http_request_max_retries = 0
"""


#: Asks the API: method, path below ``/v2``, parsed answer.
Ask = Callable[[str, str], Any]


@dataclass(frozen=True)
class FakeDevice:
    """What the server made of the driver ``fake``'s device: the names that tests ask for."""

    hostname: str
    device_uuid: str
    deployable_uuid: str
    deployable_id: int
    rp_uuid: str

    @classmethod
    def found(cls, ask: Ask) -> FakeDevice:
        """The device, as soon as its host has reported it."""
        wait_until("the host has reported its device", lambda: bool(ask("GET", "/attributes")["attributes"]))
        (device,) = ask("GET", "/devices")["devices"]
        (deployable,) = ask("GET", "/deployables")["deployables"]
        attribute = ask("GET", "/attributes")["attributes"][0]
        return cls(
            device["hostname"], device["uuid"], deployable["uuid"], attribute["deployable_id"], deployable["rp_uuid"]
        )


class Accelerator:
    """One ``cantle serve`` with simulated hosts: one, which has the driver ``fake``'s device, unless others are named.

    :param auth_url: the Keystone that checks tokens; None for a Cantle that asks nobody and answers this machine only.
    :param database_url: of its database; None for a SQLite of its own.
    :param simulated: other simulated hosts than the one of the driver ``fake``.
    :param more: further sections of its configuration.
    """

    def __init__(
        self,
        directory: Path,
        name: str,
        auth_url: str | None = None,
        *,
        database_url: str | None = None,
        simulated: Sequence[str] = ("fake",),
        more: str = "",
    ) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._state = directory / name
        conf = directory / f"{name}.conf"
        text = _KEYSTONE.format(auth_url=auth_url, password=PASSWORD) if auth_url else "[api]\nauth = none\n"
        if database_url is not None:
            text += f"[database]\nconnection = {database_url}\n"
        conf.write_text(text + more)
        conf.chmod(0o600)
        self._conf = conf
        program: list[str | Path] = [Path(sys.executable).parent / "cantle", "--verbose", "serve"]
        place: list[str | Path] = ["--listen", f"127.0.0.1:{port}", "--state-dir", self._state, "--config-file", conf]
        hosts = [word for one in simulated for word in ("--simulate", one)]
        self.service = Service(name, [*program, *place, "--simulated-only", *hosts], directory / "log")

    @property
    def conf(self) -> Path:
        """Its configuration file."""
        return self._conf

    def answers(self) -> bool:
        """Whether it is up."""
        return answers(f"{self.url}/readyz")

    def crash(self) -> None:
        """Kill it outright, and start it again."""
        self.service.stop(signal_number=signal.SIGKILL)
        self.service.start(self.answers)

    def conf_for_services(self) -> Path:
        """The same configuration for ``cantle.wsgi``, which has to be told where the database is."""
        conf = self._conf.with_suffix(".wsgi.conf")
        conf.write_text(f"{self._conf.read_text()}[database]\nconnection = sqlite:///{self._state / 'cantle.db'}\n")
        conf.chmod(0o600)
        return conf

    def call(self, method: str, path: str, body: object = None) -> Any:
        """One request to a Cantle that asks nobody; the parsed answer.

        :raises urllib.error.HTTPError: for an answer that is an error.
        """
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)  # noqa: S310
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - our own loopback address
            content = answer.read()
        return json.loads(content) if content else None
