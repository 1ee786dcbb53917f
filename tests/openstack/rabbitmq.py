"""A RabbitMQ for one test run: the distribution's server, its data, ports and name registry our own."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.real import packages
from tests.real.processes import Service, free_port

_SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
#: While this program is there and says 101, the package's own service is not started by its installation.
_POLICY = Path("/usr/sbin/policy-rc.d")

_CONF = """\
listeners.tcp.1 = 127.0.0.1:{port}
loopback_users = none
default_user = stack
default_pass = {password}
log.console = true
log.file = false
vm_memory_high_watermark.absolute = 512MB
disk_free_limit.absolute = 50MB
"""


def install() -> None:
    """Install the distribution's server where it is not, as root, without starting it; else say what is missing and end the program."""
    if not _SERVER.exists():
        with _nothing_starts():
            packages.install("rabbitmq-server")


@contextlib.contextmanager
def _nothing_starts() -> Iterator[None]:
    if os.getuid() != 0 or _POLICY.exists():
        yield
        return
    _POLICY.write_text("#!/bin/sh\nexit 101\n")
    _POLICY.chmod(0o755)
    try:
        yield
    finally:
        _POLICY.unlink()


class RabbitMq:
    """The broker, and ``epmd``, where Erlang programs register names. Its data is not below the checkout: its scripts take no space."""

    def __init__(self, directory: Path) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="cantle-rabbitmq-"))
        self._port, distribution, self._registry_port = free_port(), free_port(), free_port()
        password = secrets.token_hex(8)
        self.url = f"rabbit://stack:{password}@127.0.0.1:{self._port}/"
        (self._home / "rabbitmq.conf").write_text(_CONF.format(port=self._port, password=password))
        (self._home / "rabbitmq.conf").chmod(0o600)
        (self._home / "plugins").write_text("[].\n")
        env = {
            "HOME": str(self._home),
            "RUNNING_UNDER_SYSTEMD": "1",  # the script becomes the server then, in place of staying as its parent
            "ERL_EPMD_PORT": str(self._registry_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_NODENAME": f"stack{self._port}@localhost",
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_NODE_PORT": str(self._port),
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_CONFIG_FILE": str(self._home / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._home / "plugins"),
            "RABBITMQ_MNESIA_BASE": str(self._home / "data"),
            "RABBITMQ_LOG_BASE": str(self._home / "log"),
            "RABBITMQ_PID_FILE": str(self._home / "pid"),
            "RABBITMQ_LOGS": "-",
            # One scheduler: by default it keeps every processor awake.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +S 1:1 +sbwt none",
        }
        registry = ["epmd", "-port", str(self._registry_port), "-address", "127.0.0.1"]
        self.registry = Service("epmd", registry, directory / "log", env={"HOME": str(self._home)})
        self.service = Service("rabbitmq", [_SERVER], directory / "log", env=env)

    def registry_answers(self) -> bool:
        """Whether names can be registered."""
        return _is_open(self._registry_port)

    def answers(self) -> bool:
        """Whether it is up."""
        return _is_open(self._port)

    def remove(self) -> None:
        """Delete its data."""
        shutil.rmtree(self._home, ignore_errors=True)


def _is_open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
