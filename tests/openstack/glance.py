"""A real Glance with its images in files: Nova reads an image's properties even where nothing boots from it."""

from __future__ import annotations

from pathlib import Path

from tests.openstack.places import ETC
from tests.openstack.service_auth import token_check
from tests.real.places import INSIDE, PYTHON, VENV
from tests.real.processes import Service, answers, free_port, run

_CONF = """\
[DEFAULT]
use_stderr = True
enabled_backends = local:file
workers = 1
[database]
connection = {database}
[paste_deploy]
flavor = keystone
config_file = {paste}
[glance_store]
default_backend = local
[local]
filesystem_store_datadir = {data}/images
[os_glance_staging_store]
filesystem_store_datadir = {data}/staging
[os_glance_tasks_store]
filesystem_store_datadir = {data}/tasks
[oslo_concurrency]
lock_path = {data}/lock
[oslo_messaging_notifications]
driver = noop
"""


class Glance:
    """The image service.

    :param database: URL of an empty MariaDB database.
    """

    def __init__(self, directory: Path, auth_url: str, database: str) -> None:
        data = directory / "glance"
        (data / "images").mkdir(parents=True)
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._log = directory / "log"
        self._conf = data / "glance-api.conf"
        paste = ETC / "glance" / "glance-api-paste.ini"
        text = _CONF.format(database=database, data=data, paste=paste) + token_check("robot", auth_url)
        self._conf.write_text(text)
        self._conf.chmod(0o600)
        self.service = Service(
            "glance",
            [PYTHON, "-W", "ignore", INSIDE / "serve_wsgi.py", f"{port}:2", "glance.wsgi.api"],
            self._log,
            env={"OS_GLANCE_CONFIG_DIR": str(data)},
        )

    def create(self) -> None:
        """Make its schema."""
        run([VENV / "bin" / "glance-manage", "--config-file", self._conf, "db_sync"], self._log / "glance-manage.log")

    def answers(self) -> bool:
        """Whether it is up."""
        return answers(f"{self.url}/healthcheck")
