"""Cantle as docs/openstack.md sets it up beside OpenStack: API, agents' listener and keeper on MariaDB, and an agent on each host.

The hosts are simulated: a Tesla T4 cut into eight vGPUs and a Tesla M40 lent whole, in a directory each, whose kernel reacts to writes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.openstack.service_auth import token_check
from tests.real.processes import Service, answers, free_port

from cantle.simulate.root import SimulatedRoot

_DEPLOY = Path(__file__).parents[2] / "docs" / "deploy"
_BIN = Path(sys.executable).parent

#: The T4's slices are of this type; the M40 is lent whole.
_TYPES = "[gpu_devices]\nenabled_vgpu_types = nvidia-223\n[vgpu_nvidia-223]\ndevice_addresses = 0000:af:00.0\n"

_CONF = """\
[database]
connection = {database}
[api]
auth = keystone
require_owner_trait = true
{token_check}
[nova]
auth_section = keystone_authtoken
region_name = RegionOne
[placement]
auth_section = keystone_authtoken
region_name = RegionOne
"""


@dataclass(frozen=True)
class Done:
    """What a command did."""

    status: int
    out: str
    err: str


class Cantle:
    """Services by name: ``api``, ``agents``, ``keeper``, and each host's agent by the host's name.

    :param clouds_yaml: with which the ``cantle`` command logs in.
    """

    def __init__(
        self, directory: Path, auth_url: str, database: str, clouds_yaml: Path, hosts: tuple[str, ...]
    ) -> None:
        self._home = directory / "cantle"
        self._home.mkdir()
        self._clouds_yaml = clouds_yaml
        self.hosts = hosts
        self.conf, self._types = self._home / "cantle.conf", self._home / "host.conf"
        self.conf.write_text(_CONF.format(database=database, token_check=token_check("cantle", auth_url)))
        self.conf.chmod(0o600)
        self._types.write_text(_TYPES)
        log = directory / "log"
        self._ports = {name: free_port() for name in ("api", "agents")}
        self.url = f"http://127.0.0.1:{self._ports['api']}"
        self._agents_url = f"http://127.0.0.1:{self._ports['agents']}"
        self.services = {
            "api": self._web("api", "application", log),
            "agents": self._web("agents", "agents", log),
            "keeper": Service("cantle-keeper", [_BIN / "cantle-keeper", "--config-file", self.conf], log),
            **{host: self._agent(host, log) for host in hosts},
        }

    def create(self) -> None:
        """Make its schema."""
        self._must(self._run("cantle-manage", "--config-file", str(self.conf), "db", "sync"))

    def launch(self) -> None:
        """Start API, listener and keeper; :meth:`await_ready` waits for them."""
        for name in ("api", "agents", "keeper"):
            self.services[name].launch()

    def await_ready(self) -> None:
        """Wait until API and listener answer, let the hosts join, and start their agents."""
        for name in self._ports:
            self.services[name].await_ready(self._answering(name))
        for host in self.hosts:
            code = self.command("admin", "host", "invite", host, "-c", "code", "-o", "value").strip()
            self._must(
                self._run(
                    "cantle",
                    "agent",
                    "join",
                    self._agents_url,
                    "--state-dir",
                    str(self._state(host)),
                    env={"CANTLE_JOIN_CODE": code},
                )
            )
            self.services[host].launch()

    def answers(self, name: str) -> bool:
        """Whether ``api`` or ``agents`` is up."""
        return answers(f"http://127.0.0.1:{self._ports[name]}/readyz")

    def _answering(self, name: str) -> Callable[[], bool]:
        return lambda: self.answers(name)

    def kill(self, name: str) -> None:
        """Kill a service outright."""
        self.services[name].stop(signal_number=signal.SIGKILL)

    def start(self, name: str) -> None:
        """Start a service until it is up, unless it runs."""
        if self.services[name].running:
            return
        self.services[name].start(self._answering(name) if name in self._ports else lambda: True)

    def run(self, person: str, *words: str) -> Done:
        """``cantle --os-cloud PERSON WORDS…``, whatever comes of it."""
        return self._run("cantle", "--os-cloud", person, *words)

    def command(self, person: str, *words: str) -> str:
        """The output of a command that has to succeed."""
        return self._must(self.run(person, *words))

    def rows(self, person: str, *words: str) -> Any:
        """The parsed output of a command that has to succeed."""
        return json.loads(self.command(person, *words, "-o", "json"))

    def beside_the_keeper(self, *words: str) -> Done:
        """A command that uses the keeper's configuration, whatever comes of it: ``cantle explain --placement``, ``cantle placement``."""
        return self._run("cantle", *words, "--config-file", str(self.conf))

    def status(self, user: str) -> Done:
        """``cantle-status upgrade check`` of this installation, where it logs in as ``user``."""
        other = self._home / f"{user}.conf"
        other.write_text(self.conf.read_text().replace("username = cantle", f"username = {user}"))
        other.chmod(0o600)
        return self._run("cantle-status", "--config-file", str(other), "upgrade", "check")

    def kernel(self, host: str) -> SimulatedRoot:
        """The simulated kernel of a host."""
        return SimulatedRoot(self._state(host) / "simulated" / "t4")

    def mediated_devices(self, host: str) -> set[str]:
        """UUIDs of the mediated devices that a host's kernel has."""
        place = self._state(host) / "simulated" / "t4" / "sys" / "bus" / "mdev" / "devices"
        return {path.name for path in place.iterdir()}

    def driver(self, host: str, address: str) -> str:
        """The driver that a host's kernel has bound to a function; "" for none."""
        link = self._state(host) / "simulated" / "t4" / "sys" / "bus" / "pci" / "devices" / address / "driver"
        return link.resolve().name if link.exists() else ""

    def _state(self, host: str) -> Path:
        return self._home / host

    def _web(self, name: str, application: str, log: Path) -> Service:
        """As docs/deploy says, on a port of its own and with one worker."""
        config = _DEPLOY / f"gunicorn-{name}.conf.py"
        bind: list[str | Path] = ["--bind", f"127.0.0.1:{self._ports[name]}", "--workers", "1"]
        argv: list[str | Path] = [
            sys.executable,
            "-m",
            "gunicorn",
            "--config",
            config,
            *bind,
            f"cantle.wsgi:{application}",
        ]
        return Service(f"cantle-{name}", argv, log, env={"CANTLE_CONFIG": str(self.conf)})

    def _agent(self, host: str, log: Path) -> Service:
        place: list[str | Path] = ["--state-dir", self._state(host), "--config-file", self._types]
        return Service(
            f"cantle-agent-{host}", [_BIN / "cantle", "--verbose", "agent", "run", "--simulate", "t4", *place], log
        )

    def _run(self, program: str, *words: str, env: Mapping[str, str] | None = None) -> Done:
        known = {**os.environ, "OS_CLIENT_CONFIG_FILE": str(self._clouds_yaml), **(env or {})}
        argv = [str(_BIN / program), *words]
        done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=60, env=known)
        return Done(done.returncode, done.stdout, done.stderr)

    @staticmethod
    def _must(done: Done) -> str:
        assert done.status == 0, done.out + done.err
        return done.out
