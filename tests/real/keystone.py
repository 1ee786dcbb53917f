"""A real Keystone on SQLite, as small as it gets: for tokens, the catalog, and being away."""

from __future__ import annotations

import getpass
import grp
import os
from pathlib import Path

from tests.real.places import INSIDE, PYTHON, VENV
from tests.real.processes import Service, answers, free_port, run

_CONF = """\
[DEFAULT]
log_file = {log}
use_stderr = False
[database]
connection = sqlite:///{data}/keystone.db
[identity]
# A test's Keystone: the cheapest password hash, since every login pays for it.
password_hash_rounds = 4
[cache]
enabled = True
backend = dogpile.cache.memory
[token]
expiration = {token_seconds}
[fernet_tokens]
key_repository = {data}/fernet
[credential]
key_repository = {data}/credential
[oslo_messaging_notifications]
driver = noop
"""

ADMIN_PASSWORD = "real-parts-admin"


class Keystone:
    """A Keystone whose data lives in ``directory``. Make it once with :meth:`create`; then start and stop it at will.

    :param token_seconds: how long its tokens live. A second Keystone over the same data with another number is fine: that is how
        tests get tokens that expire while they wait.
    """

    def __init__(self, directory: Path, *, name: str = "keystone", token_seconds: int = 3600) -> None:
        self.name = name
        self._directory = directory
        self._data = directory / "keystone"
        self._data.mkdir(parents=True, exist_ok=True)
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}/v3"
        self._conf = self._data / f"{name}.conf"
        self._log = directory / "log" / f"{name}.log"
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._conf.write_text(_CONF.format(data=self._data, log=self._log, token_seconds=token_seconds))
        self.service = Service(
            f"{name}-server",
            [PYTHON, "-W", "ignore", INSIDE / "serve_wsgi.py", str(self._port), "keystone.wsgi.api"],
            self._log.parent,
            env={"OS_KEYSTONE_CONFIG_FILES": str(self._conf)},
        )

    def create(self) -> None:
        """Make schema, keys, the user ``admin`` and the catalog's identity endpoints."""
        user, group = getpass.getuser(), grp.getgrgid(os.getgid()).gr_name
        self._manage("db_sync")
        self._manage("fernet_setup", "--keystone-user", user, "--keystone-group", group)
        urls = (f"--bootstrap-{interface}-url={self.url}" for interface in ("admin", "internal", "public"))
        self._manage("bootstrap", f"--bootstrap-password={ADMIN_PASSWORD}", "--bootstrap-region-id=RegionOne", *urls)

    def answers(self) -> bool:
        """Whether it is up."""
        return answers(self.url)

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.service.start(self.answers)

    def stop(self) -> None:
        """End it; tokens and data stay."""
        self.service.stop()

    def _manage(self, *arguments: str) -> None:
        run([VENV / "bin" / "keystone-manage", "--config-file", self._conf, *arguments], self._log)
