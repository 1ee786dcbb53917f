"""All of it: MariaDB, RabbitMQ, Keystone, Placement, Glance, Nova with two computes, and Cantle, on loopback and free ports."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.openstack.cantle import Cantle
from tests.openstack.glance import Glance
from tests.openstack.no_network import NoNetwork
from tests.openstack.nova import Nova
from tests.openstack.rabbitmq import RabbitMq
from tests.real.cloud import Cloud, Endpoint
from tests.real.keystone import Keystone
from tests.real.mariadb import MariaDb
from tests.real.openstack_cli import OpenStackCli, command_line
from tests.real.placement import PlacementService
from tests.real.processes import STARTED

#: Names of computes, of their nodes, and of the hosts whose agents report the cards.
HOSTS = ("compute-1", "compute-2")

#: Services have to start on two processors, all at once.
_PATIENCE_S = 180.0


class Stack:
    """Made by :func:`up`, running."""

    def __init__(self, directory: Path, database: MariaDb, broker: RabbitMq, network: NoNetwork) -> None:
        self._directory = directory
        self._network = network
        self.clouds_yaml = directory / "clouds.yaml"
        self.keystone = Keystone(directory)
        auth_url = self.keystone.url
        self.cloud = Cloud(auth_url)
        self.glance = Glance(directory, auth_url, _new(database, "glance"))
        self.nova = Nova(directory, auth_url, broker.url, database, HOSTS)
        self.placement = PlacementService(directory, auth_url, database.new_database("placement"))
        self.cantle = Cantle(directory, auth_url, database.new_database("cantle"), self.clouds_yaml, HOSTS)

    def make(self) -> None:
        """Schemas, people, and the catalog's endpoints but Cantle's. Keystone and Placement run afterwards."""
        self.placement.service.launch()
        with ThreadPoolExecutor(1) as beside:
            others = beside.submit(self._schemas)
            self.keystone.create()
            self.keystone.start()
            self.cloud.seed()
            self.cloud.publish(
                Endpoint("placement", "placement", self.placement.url),
                Endpoint("glance", "image", self.glance.url),
                Endpoint("nova", "compute", f"{self.nova.url}/v2.1"),
                Endpoint("none", "network", self._network.url),
            )
            self.cloud.write_clouds_yaml(self.clouds_yaml)
            others.result()
        self.placement.service.await_ready(self.placement.answers, seconds=_PATIENCE_S)

    def start(self, openstack: OpenStackCli) -> None:
        """OpenStack's services, and Cantle as soon as somebody can log in."""
        for service in (self.glance.service, *self.nova.services):
            service.launch()
        self._register(openstack)
        self.cantle.launch()
        self.glance.service.await_ready(self.glance.answers, seconds=_PATIENCE_S)
        self.nova.api.await_ready(self.nova.answers, seconds=_PATIENCE_S)
        self.cantle.await_ready()

    def _register(self, openstack: OpenStackCli) -> None:
        """What Cantle's user may, and its endpoint, with the commands that docs/openstack.md gives."""
        openstack.text("admin", "role", "add", "--user", "cantle", "--project", "service", "admin")
        openstack.text("admin", "service", "create", "--name", "cantle", "accelerator")
        for interface in ("public", "internal", "admin"):
            words = ("--region", "RegionOne", "accelerator", interface, f"{self.cantle.url}/v2")
            openstack.text("admin", "endpoint", "create", *words)

    def _schemas(self) -> None:
        self.nova.create()
        self.glance.create()
        self.cantle.create()


@contextlib.contextmanager
def up(directory: Path) -> Iterator[tuple[Stack, OpenStackCli]]:
    """The stack, and the ``openstack`` command for it. Whatever was started is ended when the block is left."""
    with contextlib.ExitStack() as stack:
        network = stack.enter_context(NoNetwork())
        database = MariaDb(directory)
        stack.callback(database.remove)
        broker = RabbitMq(directory)
        stack.callback(broker.remove)
        stack.callback(_end_all)
        database.create()
        broker.registry.start(broker.registry_answers)
        broker.service.launch()
        database.service.start(database.answers)
        made = Stack(directory, database, broker, network)
        made.make()
        broker.service.await_ready(broker.answers)
        log = directory / "log" / "openstack-command.log"
        openstack = stack.enter_context(command_line("python-openstackclient", made.clouds_yaml, log))
        made.start(openstack)
        yield made, openstack


def _end_all() -> None:
    """By force and at once: nothing of this outlives the run, and Nova's computes take half a minute to end politely."""
    for service in reversed(STARTED):
        service.stop(seconds=0)


def _new(database: MariaDb, name: str) -> str:
    return database.new_database(name, charset="utf8mb3").replace("mariadb://", "mysql+pymysql://")
