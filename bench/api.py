"""The accelerator API over HTTP on loopback: requests per second and CPU per request, each operation apart, at 1 and at 16 clients.

Three servers are compared, in turn, round by round, so that a busy machine slows all alike:

- Cantle: the clients' half of ``cantle serve``, on a database with 100 bound ARQs, and once more on one with 100,000;
- the floor: the same HTTP server; for each request it sends the SQL that Cantle sent for the very same request, through the bare driver
  to a copy of the same database, and answers with recorded bytes. Nothing is parsed, checked or made into objects;
- HTTP alone: the same server, a constant answer, no SQL.

No agent runs: a bind here is the PATCH until its 202 (claimed, committed). How long until the unit is ready is ``bench.bind``. Between
batches the agents' part is played, so that what is read is Bound and what was unbound is free again.

``python -m bench.api [--database sqlite|postgresql] [--rounds N] [--peer]``
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
from bench.api_cloud import PROFILE, Cloud, Provider, build, settle
from bench.api_load import Outcome, Request, drive
from bench.api_script import Script, recording
from bench.api_server import Answer, Server, cpu_below, machine, running, serve_cantle, serve_floor
from tests.postgres import Postgres

from cantle.api.app import public_app
from cantle.api.frame import WsgiApp
from cantle.api.settings import Settings
from cantle.store.database import Database

CLIENTS = (1, 16)
ROUNDS = 6
BATCH = 32
HOSTS = 4
SMALL, LARGE = 100, 100_000

FLOOR_GOAL = 2.0
FLAT_GOAL = 1.2
#: Binds per second of openstack-cyborg 17, by clients, and how many times that we want to be.
PEER_GOALS = {1: (7.0, 12), 16: (7.5, 20)}

#: Measured once, elsewhere: two shared cores, API + conductor + fake agent, MariaDB, RabbitMQ, Placement, no Keystone, one client.
PEER_RECORDED = {"create": (54, 16.7), "bind": (7.0, 86.7), "get": (90, 9.9), "list": (22, 40.3), "unbind": (30, 28.9)}
PEER_RECORDED["delete"] = (59, 14.7)

ARQS = "/v2/accelerator_requests"


@dataclass(frozen=True, slots=True)
class Batch:
    """Requests of one operation, sent by so many clients at once. The first of each kind warms up and is not counted."""

    operation: str
    clients: int
    requests: list[Request]
    counted: bool


@dataclass(slots=True)
class Side:
    """One of the servers compared: where it is, and the database behind it that has CPU of its own."""

    name: str
    server: Server
    database_pid: int | None = None
    figures: dict[tuple[str, int], list[tuple[Outcome, float]]] = field(default_factory=dict)

    def run(self, batch: Batch, requests: Sequence[Request]) -> None:
        """Send them, and keep what came of it with the CPU that each took here."""
        before = self._cpu()
        outcome = drive(self.server.port, batch.clients, requests)
        if outcome.refused:
            raise SystemExit(f"bench: {self.name} refused {outcome.refused} of {len(requests)} {batch.operation}s")
        used = (self._cpu() - before) / len(requests)
        if batch.counted:
            self.figures.setdefault((batch.operation, batch.clients), []).append((outcome, used))

    def _cpu(self) -> float:
        return self.server.cpu() + (0.0 if self.database_pid is None else cpu_below(self.database_pid))

    def rates(self, operation: str, clients: int) -> list[float]:
        """Requests per second, by round."""
        return [outcome.rate for outcome, _ in self.figures[operation, clients]]

    def cpu(self, operation: str, clients: int) -> list[float]:
        """Seconds of CPU per request, by round."""
        return [used for _, used in self.figures[operation, clients]]


def main() -> int:
    """Measure, print, and return 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description="Requests per second and CPU per request of the accelerator API.")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--peer", action="store_true", help="show openstack-cyborg's figures, recorded elsewhere, too")
    options = parser.parse_args()
    rounds = options.rounds + 1
    work = rounds * len(CLIENTS) * BATCH
    with databases(options.database) as maker, ExitStack() as stack:
        small = build(maker.new(), hosts=HOSTS, work=work, full=SMALL)
        large = build(maker.new(), hosts=HOSTS, work=work, full=LARGE)
        batches = [batch for number in range(rounds) for batch in lives(small, number)]
        scripts = recorded(maker.copy(small.url), batches)
        sides = [
            Side("Cantle", stack.enter_context(running(serve_cantle, copied := maker.copy(small.url)))),
            Side("the floor", stack.enter_context(running(serve_floor, floor := maker.copy(small.url), scripts))),
            Side("HTTP alone", stack.enter_context(running(serve_floor, floor, {}))),
            Side("Cantle, full", stack.enter_context(running(serve_cantle, large.url))),
        ]
        for side in (sides[0], sides[1], sides[3]):
            side.database_pid = maker.pid
        measure(sides, batches, dict(zip(small.arqs, large.arqs, strict=True)), large, [copied, floor, large.url])
    print(f"{options.database}, {options.rounds} rounds of {BATCH} requests; medians of rounds; {machine()}")
    show(*sides)
    if options.peer:
        show_peer(sides[0])
    return verdict(*sides)


class Sqlite:
    """Databases in files of a directory."""

    pid = None

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._numbers = count()

    def new(self) -> str:
        """The URL of one that is not there yet."""
        return f"sqlite:///{self._directory / f'{next(self._numbers)}.db'}"

    def copy(self, url: str) -> str:
        """The URL of a copy; nobody has the original open."""
        copied = self.new()
        shutil.copy(url.removeprefix("sqlite:///"), copied.removeprefix("sqlite:///"))
        return copied


class PostgresServer:
    """Databases of a PostgreSQL that runs for this measurement."""

    def __init__(self, server: Postgres) -> None:
        self._server = server
        with psycopg.connect(server.url("postgres")) as connection:
            found = connection.execute("SHOW data_directory").fetchone()
        assert found is not None
        #: Of the process that starts all others.
        self.pid = int(Path(found[0], "postmaster.pid").read_text(encoding="utf-8").split()[0])

    def new(self) -> str:
        """The URL of an empty one."""
        return self._server.new_database()

    def copy(self, url: str) -> str:
        """The URL of a copy; nobody has the original open."""
        return self._server.new_database(url.partition("@/")[2].partition("?")[0])


@contextmanager
def databases(kind: str) -> Iterator[Sqlite | PostgresServer]:
    """Who makes databases of that kind."""
    if kind == "sqlite":
        with tempfile.TemporaryDirectory(prefix="cantle-bench-") as scratch:
            yield Sqlite(Path(scratch))
    else:
        yield PostgresServer(Postgres.shared())


def lives(cloud: Cloud, number: int) -> Iterator[Batch]:
    """One round: for each number of clients, a batch of ARQs is bound, looked at, unbound and deleted."""
    for place, clients in enumerate(CLIENTS):
        start = (number * len(CLIENTS) + place) * BATCH
        uuids = cloud.arqs[start : start + BATCH]
        targets = [cloud.providers[index % len(cloud.providers)] for index in range(BATCH)]
        instances = [str(uuid4()) for _ in uuids]
        requests = {
            "create": [Request("POST", ARQS, encoded({"device_profile_name": PROFILE})) for _ in uuids],
            "bind": [Request("PATCH", ARQS, binding(*one)) for one in zip(uuids, targets, instances, strict=True)],
            "get": [Request("GET", f"{ARQS}/{uuid}") for uuid in uuids],
            "list": [Request("GET", f"{ARQS}?instance={instance}&bind_state=resolved") for instance in instances],
            "page": [Request("GET", f"{ARQS}?limit=20") for _ in uuids],
            "unbind": [Request("PATCH", ARQS, unbinding(uuid)) for uuid in uuids],
            "delete": [Request("DELETE", f"{ARQS}?arqs={uuid}") for uuid in uuids],
        }
        for operation, batch in requests.items():
            named = [
                Request(one.method, one.path, one.body, f"{operation}/{clients}/{number}/{index}")
                for index, one in enumerate(batch)
            ]
            yield Batch(operation, clients, named, counted=number > 0)


def binding(uuid: str, target: Provider, instance: str) -> bytes:
    """The body of a bind, as Nova sends it."""
    values = {"hostname": target.hostname, "device_rp_uuid": target.rp_uuid, "instance_uuid": instance}
    return encoded({uuid: [{"path": f"/{name}", "op": "add", "value": value} for name, value in values.items()]})


def unbinding(uuid: str) -> bytes:
    """The body of an unbind, as Nova sends it."""
    return encoded(
        {uuid: [{"path": f"/{name}", "op": "remove"} for name in ("hostname", "device_rp_uuid", "instance_uuid")]}
    )


def encoded(body: object) -> bytes:
    """JSON."""
    return json.dumps(body).encode()


def recorded(url: str, batches: Sequence[Batch]) -> dict[str, tuple[Script, Answer]]:
    """By name of the request: the SQL that it is, and its answer."""
    scripts: dict[str, tuple[Script, Answer]] = {}
    db = Database.open(url)
    application = public_app(db, Settings())
    for batch in batches:
        for request in batch.requests:
            with recording() as script:
                answer = called(application, request)
            scripts[request.name] = (script, answer)
        play_agents(db, batch)
    db.close()
    return scripts


def called(application: WsgiApp, request: Request) -> Answer:
    """The application's answer, without a server in between."""
    path, _, query = request.path.partition("?")
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "6666",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "HTTP_HOST": "127.0.0.1",
        "HTTP_OPENSTACK_API_VERSION": "accelerator 2.1",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(request.body)),
        "wsgi.input": io.BytesIO(request.body),
        "wsgi.errors": sys.stderr,
        "wsgi.url_scheme": "http",
    }
    said: list[str] = []
    body = b"".join(application(environ, lambda status, _headers, *_rest: said.append(status)))
    return said[0], body


def play_agents(db: Database, batch: Batch) -> None:
    """After what gives agents something to do."""
    if batch.operation in ("bind", "delete"):
        settle(db, [f"compute-{number}" for number in range(HOSTS)])


def measure(
    sides: list[Side], batches: Sequence[Batch], twins: dict[str, str], large: Cloud, urls: Sequence[str]
) -> None:
    """All batches against all sides; in each batch another one is the first."""
    databases_behind = [Database.open(url) for url in urls]
    for number, batch in enumerate(batches):
        for place in range(len(sides)):
            side = sides[(number + place) % len(sides)]
            side.run(batch, moved(batch, twins, large) if side is sides[3] else batch.requests)
        for db in databases_behind:
            play_agents(db, batch)
    for db in databases_behind:
        db.close()


def moved(batch: Batch, twins: dict[str, str], large: Cloud) -> list[Request]:
    """The same requests for the other cloud, whose uuids are others."""
    if batch.operation == "bind":
        requests = []
        for index, request in enumerate(batch.requests):
            (uuid, patches), *_ = json.loads(request.body).items()
            instance = next(one["value"] for one in patches if one["path"] == "/instance_uuid")
            target = large.providers[index % len(large.providers)]
            requests.append(Request(request.method, request.path, binding(twins[uuid], target, instance), request.name))
        return requests
    return [
        Request(one.method, swapped(one.path, twins), swapped(one.body.decode(), twins).encode(), one.name)
        for one in batch.requests
    ]


def swapped(text: str, twins: dict[str, str]) -> str:
    """The text with the first known uuid in it replaced."""
    place = next((at for at in range(len(text) - 35) if text[at : at + 36] in twins), None)
    return text if place is None else text[:place] + twins[text[place : place + 36]] + text[place + 36 :]


def middle(values: Sequence[float]) -> float:
    """The median."""
    return statistics.median(values)


def ratio(ones: Sequence[float], others: Sequence[float]) -> float:
    """The median of the rounds' ratios: what slows a whole round is not in it."""
    return middle([one / other for one, other in zip(ones, others, strict=True)])


def show(cantle: Side, floor: Side, alone: Side, full: Side) -> None:
    """The table."""
    print(f"{'':18}{'requests per second':^34}{'CPU per request, ms':^38}")
    print(
        f"{'operation':9} {'clients':>7} {'Cantle':>8} {'floor':>8} {'HTTP':>8} {'slower':>7} {'Cantle':>8} {'floor':>8} {'HTTP':>8}"
        f" {'ratio':>7} {'100,000 ARQs':>13}"
    )
    for operation, clients in cantle.figures:
        rates = [middle(side.rates(operation, clients)) for side in (cantle, floor, alone)]
        cpus = [1000 * middle(side.cpu(operation, clients)) for side in (cantle, floor, alone)]
        print(
            f"{operation:9} {clients:7} {rates[0]:8.0f} {rates[1]:8.0f} {rates[2]:8.0f} {slower(cantle, floor, operation, clients):7.2f}"
            f" {cpus[0]:8.2f} {cpus[1]:8.2f} {cpus[2]:8.2f} {dearer(cantle, floor, operation, clients):7.2f}"
            f" {dearer(full, cantle, operation, clients):13.2f}"
        )


def slower(one: Side, other: Side, operation: str, clients: int) -> float:
    """How many times longer a request takes."""
    return ratio(other.rates(operation, clients), one.rates(operation, clients))


def dearer(one: Side, other: Side, operation: str, clients: int) -> float:
    """How many times more CPU a request takes."""
    return ratio(one.cpu(operation, clients), other.cpu(operation, clients))


def show_peer(cantle: Side) -> None:
    """Beside openstack-cyborg 17, which this program does not run: it needs RabbitMQ, MariaDB, Placement and an environment of its own."""
    print(
        "\nopenstack-cyborg 17, RECORDED ELSEWHERE on two shared cores with MariaDB, one client: not measured in this run"
    )
    for operation, (rate, cpu) in PEER_RECORDED.items():
        ours, used = middle(cantle.rates(operation, 1)), 1000 * middle(cantle.cpu(operation, 1))
        print(
            f"{operation:9} {rate:6.1f}/s, {cpu:5.1f} ms of CPU; Cantle here {ours:5.0f}/s ({ours / rate:.0f} times), {used:.1f} ms"
        )


def verdict(cantle: Side, floor: Side, _alone: Side, full: Side) -> int:
    """Print which goals are met; 1 when one is not."""
    missed = 0
    for what, limit, found in (
        ("CPU against the floor", FLOOR_GOAL, {key: dearer(cantle, floor, *key) for key in cantle.figures}),
        ("time against the floor", FLOOR_GOAL, {key: slower(cantle, floor, *key) for key in cantle.figures}),
        ("CPU with 100,000 ARQs against 100", FLAT_GOAL, {key: dearer(full, cantle, *key) for key in cantle.figures}),
    ):
        over = [
            f"{operation} at {clients}: {value:.2f}" for (operation, clients), value in found.items() if value > limit
        ]
        print(f"goal: {what} <= {limit}: {'MISSED by ' + ', '.join(over) if over else 'met'}")
        missed += bool(over)
    for clients, (rate, times) in PEER_GOALS.items():
        found_rate = middle(cantle.rates("bind", clients))
        met = found_rate >= rate * times
        print(
            f"goal: binds at {clients} clients >= {times} times the {rate}/s recorded of the peer:"
            f" {found_rate / rate:.0f} times: {'met' if met else 'MISSED'}"
        )
        missed += not met
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
