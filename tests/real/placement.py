"""A real Placement over HTTP on MariaDB, its tokens checked by the Keystone."""

from __future__ import annotations

from pathlib import Path

from tests.real.cloud import PASSWORD
from tests.real.places import INSIDE, PYTHON
from tests.real.processes import Service, answers, free_port

_CONF = """\
[DEFAULT]
use_stderr = True
[placement_database]
connection = {database}
sync_on_startup = True
[api]
auth_strategy = keystone
[keystone_authtoken]
www_authenticate_uri = {auth_url}
auth_type = password
auth_url = {auth_url}
username = robot
password = {password}
project_name = service
user_domain_id = default
project_domain_id = default
service_token_roles_required = True
"""


class PlacementService:
    """A Placement; its schema is made at its first start.

    :param database_url: of an empty MariaDB database.
    """

    def __init__(self, directory: Path, auth_url: str, database_url: str) -> None:
        home = directory / "placement"
        home.mkdir(parents=True, exist_ok=True)
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        database = database_url.replace("mariadb://", "mysql+pymysql://")
        conf = home / "placement.conf"
        conf.write_text(_CONF.format(database=database, auth_url=auth_url, password=PASSWORD))
        conf.chmod(0o600)
        self.service = Service(
            "placement",
            [PYTHON, "-W", "ignore", INSIDE / "serve_wsgi.py", str(port), "placement.wsgi.api"],
            directory / "log",
            env={"OS_PLACEMENT_CONFIG_DIR": str(home)},
        )

    def answers(self) -> bool:
        """Whether it is up."""
        return answers(self.url)
