"""A real Nova: API, conductor, scheduler, and computes with the virt driver for tests that comes with Nova, which makes no guests."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

from tests.openstack.places import ETC
from tests.openstack.places import INSIDE as OUR_INSIDE
from tests.openstack.service_auth import login, token_check
from tests.real.mariadb import MariaDb
from tests.real.places import INSIDE, PYTHON, VENV
from tests.real.processes import Service, answers, free_port, run

#: Threads of the system, in place of eventlet's.
_THREADS = {"OS_NOVA_DISABLE_EVENTLET_PATCHING": "true"}

#: Those who say the same again and again.
_QUIET = "amqp=WARN,amqplib=WARN,urllib3=WARN,stevedore=WARN,neutronclient=ERROR"

#: The version of the API that tests speak; the newest that this Nova has would do as well.
MICROVERSION = "2.96"

_CONF = """\
[DEFAULT]
use_stderr = True
my_ip = 127.0.0.1
transport_url = {transport}
state_path = {data}
compute_driver = fake.FakeDriverWithoutFakeNodes
report_interval = 5
service_down_time = 30
update_resources_interval = 20
shutdown_timeout = 1
default_log_levels = {quiet}
[api]
auth_strategy = keystone
[wsgi]
api_paste_config = {paste}
[conductor]
workers = 1
[scheduler]
workers = 1
# Soon after a compute has started it can be chosen.
discover_hosts_in_cells_interval = 2
[vnc]
enabled = False
[oslo_concurrency]
lock_path = {data}/lock
[oslo_messaging_notifications]
driver = noop
[service_user]
send_service_user_token = True
{login}
[placement]
region_name = RegionOne
{login}
[cyborg]
region_name = RegionOne
[neutron]
region_name = RegionOne
{login}
[glance]
region_name = RegionOne
{login}
[cinder]
{login}
"""

#: Of one compute. Asked for more than usual, it tells of each event it receives and each call it makes.
_COMPUTE_CONF = """\
[DEFAULT]
host = {name}
state_path = {state}
default_log_levels = nova.compute.manager=DEBUG,keystoneauth.session=DEBUG,{quiet}
"""


class Nova:
    """The compute service.

    :param transport: URL of the message broker.
    :param hosts: names of the computes, which are also the names of their nodes.
    """

    def __init__(
        self, directory: Path, auth_url: str, transport: str, database: MariaDb, hosts: tuple[str, ...]
    ) -> None:
        self._directory, self._hosts = directory, hosts
        self._log = directory / "log"
        home = directory / "nova"
        home.mkdir()
        self._conf, self._databases = home / "nova.conf", home / "databases.conf"
        # Its WSGI module takes the first of its files for this one.
        paste = shutil.copy(ETC / "nova" / "api-paste.ini", home)
        text = _CONF.format(
            quiet=_QUIET, transport=transport, data=home / "data", paste=paste, login=login("nova", auth_url)
        )
        self._write(self._conf, text + token_check("nova", auth_url))
        urls = {
            name: _pymysql(database.new_database(name, charset="utf8mb3"))
            for name in ("nova_api", "nova", "nova_cell0")
        }
        self._cell0 = urls["nova_cell0"]
        # Computes must not know the databases: they go through the conductor.
        self._write(
            self._databases,
            f"[database]\nconnection = {urls['nova']}\n[api_database]\nconnection = {urls['nova_api']}\n",
        )
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.api = Service(
            "nova-api",
            [PYTHON, "-W", "ignore", INSIDE / "serve_wsgi.py", f"{port}:4", "nova.wsgi.osapi_compute"],
            self._log,
            env={"OS_NOVA_CONFIG_DIR": str(home), "OS_NOVA_CONFIG_FILES": "api-paste.ini;nova.conf;databases.conf"},
        )
        self.conductor = self._service("nova-conductor", self._databases)
        self.scheduler = self._service("nova-scheduler", self._databases)
        self.computes = {name: self._compute(name) for name in hosts}

    @property
    def services(self) -> list[Service]:
        """All of them."""
        return [self.api, self.conductor, self.scheduler, *self.computes.values()]

    def create(self) -> None:
        """Make its schemas and its one cell."""
        files = ["--config-file", str(self._conf), "--config-file", str(self._databases)]
        steps = (
            ["api_db", "sync"],
            ["cell_v2", "map_cell0", "--database_connection", self._cell0],
            ["db", "sync"],
            ["cell_v2", "create_cell", "--name", "cell1"],
        )
        lines = [json.dumps([*files, *step]) for step in steps]
        run(
            [PYTHON, "-W", "ignore", OUR_INSIDE / "nova_manage.py", *lines],
            self._log / "nova-manage.log",
            env=_THREADS,
            seconds=300,
        )

    def kill(self, host: str) -> None:
        """Kill a compute outright."""
        self.computes[host].stop(signal_number=signal.SIGKILL)

    def start(self, host: str) -> None:
        """Start a compute, unless it runs; it counts as up once it has reported."""
        if not self.computes[host].running:
            self.computes[host].launch()

    def answers(self) -> bool:
        """Whether its API is up."""
        return answers(self.url)

    def _service(self, program: str, more: Path, name: str | None = None) -> Service:
        argv: list[str | Path] = [VENV / "bin" / program, "--config-file", self._conf, "--config-file", more]
        return Service(
            name or program,
            argv,
            self._log,
            env={**_THREADS, "PYTHONWARNINGS": "ignore"},
        )

    def _compute(self, name: str) -> Service:
        state = self._directory / "nova" / name
        state.mkdir()
        conf = state / "compute.conf"
        self._write(conf, _COMPUTE_CONF.format(name=name, state=state, quiet=_QUIET))
        return self._service("nova-compute", conf, f"nova-{name}")

    @staticmethod
    def _write(path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o600)


def _pymysql(url: str) -> str:
    return url.replace("mariadb://", "mysql+pymysql://")
