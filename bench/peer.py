"""openstack-cyborg 17 as `bench.api` compares itself with it: API, conductor and one agent with its fake driver, over the same MariaDB as
Cantle, RabbitMQ, a Placement, and a stand-in for Nova that takes events. Without Keystone: who calls is believed, as in Cantle's ``none``.

Its packages are installed into ``.stack/peer`` at the first use; RabbitMQ and MariaDB are the distribution's.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bench.api_server import cpu_below
from tests.real.mariadb import MariaDb
from tests.real.processes import Service, answers, free_port, running, wait_until

HERE = Path(__file__).parent
VENV = HERE.parent / ".stack" / "peer"
REQUIREMENTS = ("openstack-cyborg==17.0.0", "openstack-placement==16.0.0", "pymysql", "waitress")
RABBIT = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")

HOST = "peer-host"
#: What its fake driver offers: 16 units of one FPGA.
CLASS, TRAIT, UNITS = "FPGA", "CUSTOM_FAKE_DEVICE", 16

#: Whom it takes us for: its own middleware would have written these after asking Keystone.
HEADERS = {
    "X-User-Id": "3f0f6a5c6c0e4f1f8f5d0d8a3a7f6b11",
    "X-Project-Id": "9c1c2c7e3e2b4c5f8a6d5e4f3a2b1c0d",
    "X-Roles": "admin,service",
    "X-Service-Roles": "service",
    "X-Identity-Status": "Confirmed",
    "X-Service-Identity-Status": "Confirmed",
}

_PASTE = """\
[pipeline:main]
pipeline = request_id api_v2
[app:api_v2]
paste.app_factory = cyborg.api.app:app_factory
[filter:request_id]
paste.filter_factory = oslo_middleware:RequestId.factory
"""

_CYBORG = """\
[DEFAULT]
host = {host}
transport_url = rabbit://bench:bench@127.0.0.1:{rabbit}/
state_path = {data}
use_stderr = False
log_file = {log}
[oslo_messaging_notifications]
driver = noop
[oslo_concurrency]
lock_path = {data}/lock
[database]
connection = {database}
[api]
host_ip = 127.0.0.1
port = {port}
api_workers = 1
api_paste_config = {data}/paste.ini
[placement]
auth_type = admin_token
endpoint = {placement}
token = admin
endpoint_override = {placement}
[nova]
auth_type = admin_token
endpoint = {nova}
token = admin
endpoint_override = {nova}
[service_user]
send_service_user_token = False
[agent]
enabled_drivers = fake_driver
resource_provider_name = {host}
"""

_PLACEMENT = """\
[DEFAULT]
use_stderr = False
log_file = {log}
[api]
auth_strategy = noauth2
[placement_database]
connection = {database}
sync_on_startup = True
"""

_RABBIT = """\
listeners.tcp.1 = 127.0.0.1:{port}
loopback_users = none
default_user = bench
default_pass = bench
log.console = true
log.file = false
disk_free_limit.absolute = 50MB
"""


class Peer:
    """A running one.

    :param rp_uuid: of the provider that its units are bound on.
    """

    def __init__(self, port: int, services: list[Service], rp_uuid: str) -> None:
        self.port = port
        self._services = services
        self.rp_uuid = rp_uuid

    def cpu(self) -> float:
        """Seconds of CPU of all its processes, MariaDB's and RabbitMQ's included."""
        return sum(cpu_below(service.pid) for service in self._services)


def install() -> None:
    """The packages, and a look for RabbitMQ. Ends the program with what is missing."""
    if not RABBIT.exists():
        sys.exit("bench: --peer needs RabbitMQ: apt-get install rabbitmq-server")
    if (VENV / "bin" / "cyborg-api").exists():
        return
    print(f"bench: installing {', '.join(REQUIREMENTS)} into {VENV} …", flush=True)
    shutil.rmtree(VENV, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(VENV)], check=True)
    argv = [sys.executable, "-m", "pip", "--python", str(VENV / "bin" / "python"), "install", "--quiet"]
    pins = (HERE.parent / "tests" / "real" / "constraints.txt", HERE / "peer-constraints.txt")
    done = subprocess.run([*argv, *(f"--constraint={file}" for file in pins), *REQUIREMENTS], check=False)
    if done.returncode:
        shutil.rmtree(VENV)
        sys.exit("bench: the peer cannot be installed")


@contextmanager
def running_peer(maria: MariaDb) -> Iterator[Peer]:
    """It, over databases of its own on that MariaDB, until the block ends."""
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cantle-peer-")))
        nova = f"http://127.0.0.1:{stack.enter_context(_nova())}/v2.1"
        rabbit_port, names_port = free_port(), free_port()
        names = Service("epmd", ["epmd", "-port", str(names_port), "-address", "127.0.0.1"], home)
        stack.enter_context(running(names, lambda: _listens(names_port)))
        rabbit = _rabbit(home, rabbit_port, names_port)
        stack.enter_context(running(rabbit, lambda: _listens(rabbit_port)))
        placement_port, port = free_port(), free_port()
        placement = f"http://127.0.0.1:{placement_port}"
        url = _pymysql(maria.new_database("placement"))
        (home / "placement.conf").write_text(_PLACEMENT.format(log=home / "placement.log", database=url))
        one = stack.enter_context(
            running(
                _wsgi(home, "placement", placement_port, "placement.wsgi.api", OS_PLACEMENT_CONFIG_DIR=str(home)),
                lambda: answers(placement),
            )
        )
        _put(f"{placement}/resource_providers", {"name": HOST})
        database = _pymysql(maria.new_database("cyborg"))
        conf = _cyborg_conf(home, rabbit=rabbit_port, port=port, placement=placement, nova=nova, database=database)
        subprocess.run(
            [VENV / "bin" / "cyborg-dbsync", "--config-file", conf, "upgrade"], check=True, capture_output=True
        )
        conductor = Service("conductor", [VENV / "bin" / "cyborg-conductor", "--config-file", conf], home)
        api = _wsgi(home, "api", port, "cyborg.wsgi.api", "--config-file", str(conf))
        agent = Service("agent", [VENV / "bin" / "cyborg-agent", "--config-file", conf], home)
        log = home / "cyborg.log"
        stack.enter_context(running(conductor, lambda: log.exists() and "Created RPC server" in log.read_text()))
        stack.enter_context(running(api, lambda: answers(f"http://127.0.0.1:{port}/")))
        stack.enter_context(running(agent, lambda: True))
        provider = f"{placement}/resource_providers?resources={CLASS}:1"
        wait_until("Cyborg's agent has reported", lambda: bool(_get(provider)["resource_providers"]), seconds=240)
        found = _get(provider)["resource_providers"][0]["uuid"]
        yield Peer(port, [rabbit, one, conductor, api, agent, maria.service], found)


def _cyborg_conf(home: Path, **values: object) -> Path:
    (home / "paste.ini").write_text(_PASTE)
    conf = home / "cyborg.conf"
    conf.write_text(_CYBORG.format(host=HOST, data=home, log=home / "cyborg.log", **values))
    return conf


def _rabbit(home: Path, port: int, names_port: int) -> Service:
    (home / "rabbitmq.conf").write_text(_RABBIT.format(port=port))
    (home / "plugins").write_text("[].")
    (home / "rabbit").mkdir()
    env = {
        "HOME": str(home / "rabbit"),
        "ERL_EPMD_PORT": str(names_port),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "RABBITMQ_NODENAME": f"bench{port}@localhost",
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
        "RABBITMQ_MNESIA_BASE": str(home / "rabbit"),
        "RABBITMQ_LOG_BASE": str(home),
        "RABBITMQ_LOGS": "-",
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +S 1:1",
    }
    return Service("rabbitmq", [RABBIT], home, env=env)


def _wsgi(home: Path, name: str, port: int, module: str, *arguments: str, **env: str) -> Service:
    # -P: names in our own directory would be found before the packages of those names.
    words = [
        str(VENV / "bin" / "python"),
        "-P",
        "-W",
        "ignore",
        str(HERE / "peer_wsgi.py"),
        str(port),
        module,
        *arguments,
    ]
    return Service(name, words, home, env=env)


@contextmanager
def _nova() -> Iterator[int]:
    """Something that takes every event; its port."""

    class Taken(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            place = f"http://{self.headers['Host']}/v2.1/"
            version = {"id": "v2.1", "status": "CURRENT", "version": "2.96", "min_version": "2.1"}
            self._answer({"version": {**version, "links": [{"rel": "self", "href": place}]}})

        def do_POST(self) -> None:
            events = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["events"]
            self._answer({"events": [{**event, "code": 200} for event in events]})

        def _answer(self, content: object) -> None:
            body = json.dumps(content).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Taken) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _pymysql(url: str) -> str:
    return url.replace("mariadb://", "mysql+pymysql://") + "?charset=utf8mb4"


def _asked(url: str, body: object | None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"X-Auth-Token": "admin", "Content-Type": "application/json", "OpenStack-API-Version": "placement 1.30"}
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=30) as answer:  # noqa: S310 - loopback
        return json.loads(answer.read() or b"null")


def _get(url: str) -> Any:
    return _asked(url, None)


def _put(url: str, body: object) -> None:
    _asked(url, body)
