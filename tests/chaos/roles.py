"""What runs in a forked process: the API, the keeper, the agent of a simulated host, together or apart.

The parts are those that ``cantle serve`` and the services put together; only pauses that a person would wait through are shorter.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chaos import marks as seams
from tests.chaos.marks import MarkedReceiver, Marks
from tests.chaos.receiver import HOOK, NOVA

from cantle import simulate
from cantle.agent.agent import Agent
from cantle.api.app import agents_app, public_app
from cantle.api.settings import Settings
from cantle.cli.listen import Address, HttpServer
from cantle.conf import files, nova
from cantle.conf import placement as conf_placement
from cantle.drivers import loader
from cantle.keeper import courier, keeper, placement, placement_host
from cantle.keeper.courier import Courier, Receiver
from cantle.keeper.keeper import Keeper
from cantle.keeper.webhook import Target, WebhookReceiver
from cantle.model.enabled_types import EnabledType, EnabledTypes
from cantle.model.event import Outlets
from cantle.store.database import Database

T4 = "0000:af:00.0"
M40 = "0000:86:00.0"
HOST = "node1"
ENABLED = EnabledTypes((EnabledType("nvidia-223", addresses=(T4,)),))
OUTLETS = Outlets(nova_waits=300.0, webhook=True)
SECRET = b"a secret of the webhook's receiver"
TOKEN = "the agents' secret"
#: Seconds after which another keeper may send what one that died had claimed.
CLAIM_S = 1.0


@dataclass(frozen=True)
class Place:
    """Where one run's processes find everything.

    :param refusing: the card's driver makes no mediated device.
    :param placement_port: 0: nothing is published.
    :param pooled: identical cards are published as one.
    """

    directory: Path
    database: str
    public_port: int
    agents_port: int
    receiver_port: int
    refusing: bool = False
    placement_port: int = 0
    pooled: bool = False

    @property
    def tree(self) -> Path:
        """The simulated host."""
        return self.directory / "host"

    @property
    def state(self) -> Path:
        """The agent's own directory."""
        return self.directory / "agent"

    @property
    def heard(self) -> Path:
        """What the receiver heard."""
        return self.directory / "heard.jsonl"

    @property
    def heard_before(self) -> Path:
        """What it had heard when the operation began."""
        return self.directory / "heard-before.jsonl"

    @property
    def placement_database(self) -> Path:
        """Placement's own."""
        return self.directory / "placement.db"


class Host(simulate.SimulatedRoot):
    """The simulated host, with a step before and after each write."""

    def __init__(self, place: Place, marks: Marks) -> None:
        super().__init__(place.tree)
        self._marks = marks
        self._refusing = place.refusing

    def write(self, rel: str, text: str) -> None:
        name = os.path.basename(rel)
        self._marks.at(f"write-{name}")
        if self._refusing and name == "create":
            self.fail(errno.EIO)
        super().write(rel, text)
        self._marks.at(f"written-{name}")


def preload(directory: Path) -> None:
    """Import what is imported late, and look up what is looked up in files: once, in the process that everything is forked from."""
    loader.load()
    _nova(Place(directory, "", 0, 0, 1))


def run(roles: Sequence[str], place: Place, marks: Marks) -> None:
    """Do the work of these roles until killed. A role that ends by itself ends the process with status 1, and its log says why."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(threadName)s %(message)s")
    courier.AWAY_S = keeper.AWAY_S = 0.2
    courier.LOOK_S = 0.2
    placement.AWAY_S = placement.EVERY_S = placement.FIRST_PAUSE_S = 0.2
    placement.LONGEST_PAUSE_S, placement.WAIT_S, placement.CLAIM_S = 0.5, 0.5, CLAIM_S
    seams.of_http_out(marks)
    parts: list[tuple[str, Callable[[], None]]] = []
    if "agent" in roles:
        seams.of_files(marks, str(place.state))
        parts.append(("agent", _agent(place, marks).run))
    if {"api", "keeper"} & set(roles):
        db = _database(place)
        seams.of_database(marks, db)
        if "api" in roles:
            parts += [("api", work) for work in _servers(place, marks, db)]
        if "keeper" in roles:
            parts += [("keeper", work) for work in _keepers(place, marks, db)]
            parts += [("publisher", work) for work in _publishers(place, db)]
    ended = threading.Event()

    def guarded(role: str, work: Callable[[], None]) -> None:
        marks.act_as(role)
        try:
            work()
        except BaseException:  # noqa: BLE001 - into the log; the process ends
            traceback.print_exc()
        finally:
            ended.set()

    for role, work in parts:
        threading.Thread(target=guarded, args=(role, work), daemon=True).start()
    ended.wait()
    sys.stderr.flush()
    os._exit(1)


def _database(place: Place) -> Database:
    """As `cantle.wsgi` opens it: a database that is away is waited for."""
    return Database.open(place.database, check=False, outlets=OUTLETS)


def _servers(place: Place, marks: Marks, db: Database) -> list[Callable[[], None]]:
    public = HttpServer(Address("127.0.0.1", place.public_port), threads=4, name="public")
    agents = HttpServer(Address("127.0.0.1", place.agents_port), threads=6, name="agents")
    ours = seams.of_requests(marks, public_app(db, Settings()))
    theirs = seams.of_requests(marks, agents_app(db, Settings(agents_token=TOKEN)))
    return [lambda: public.serve(ours), lambda: agents.serve(theirs)]


def _keepers(place: Place, marks: Marks, db: Database) -> list[Callable[[], None]]:
    stop = threading.Event()
    receivers: list[Receiver] = [_nova(place), WebhookReceiver(Target(f"{_receiver(place)}{HOOK}", (SECRET,)))]
    couriers = [Courier(db, MarkedReceiver(marks, one), stop=stop, claim_s=CLAIM_S) for one in receivers]
    return [Keeper(db, stop=stop, every=0.2).run, *(one.run for one in couriers)]


def _publishers(place: Place, db: Database) -> list[Callable[[], None]]:
    if not place.placement_port:
        return []
    file = place.directory / "placement.conf"
    url = f"http://127.0.0.1:{place.placement_port}"
    file.write_text(f"[placement]\nauth_type = none\nendpoint_override = {url}\ntimeout = 2\n")
    client = conf_placement.client(files.read([str(file)]))
    settings = placement_host.Settings(pool_identical=place.pooled)
    return [placement.Publisher(db, client, settings, stop=threading.Event(), patient=False).run]


def _nova(place: Place) -> Receiver:
    file = place.directory / "nova.conf"
    base = NOVA.rpartition("/")[0]
    file.write_text(f"[nova]\nauth_type = none\nendpoint_override = {_receiver(place)}{base}\ntimeout = 5\n")
    made: Receiver | None = nova.receiver(files.read([str(file)]))
    assert made is not None
    return made


def _receiver(place: Place) -> str:
    return f"http://127.0.0.1:{place.receiver_port}"


def _agent(place: Place, marks: Marks) -> Agent:
    return Agent(
        hostname=HOST,
        root=Host(place, marks),
        server_url=f"http://127.0.0.1:{place.agents_port}",
        state_dir=place.state,
        enabled_types=ENABLED,
        stop=threading.Event(),
        token=TOKEN,
        rescan=5.0,
    )
