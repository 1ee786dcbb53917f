"""The accelerator API over HTTP on loopback: requests per second and CPU per request, each operation apart, at 1 and at 16 clients.

Three servers are compared, in turn, round by round, so that a busy machine slows all alike:

- Cantle: the clients' half of ``cantle serve``, on a database with 100 bound ARQs, and once more on one with 100,000;
- the floor: the same HTTP server; for each request it sends the SQL that Cantle sent for the very same request, through the bare driver
  to a copy of the same database, and answers with recorded bytes. Nothing is parsed, checked or made into objects;
- HTTP alone: the same server, a constant answer, no SQL.

No agent runs: a bind here is the PATCH until its 202 (claimed, committed). How long until the unit is ready is ``bench.bind``. Between
batches the agents' part is played, so that what is read is Bound and what was unbound is free again.

``python -m bench.api [--database sqlite|postgresql|mariadb] [--rounds N] [--peer]``; ``--peer`` runs openstack-cyborg 17 on the same
MariaDB besides (`bench.api_peer`).
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

from bench import peer
from bench.api_cloud import PROFILE, Cloud, build, settle
from bench.api_load import Request
from bench.api_peer import measure_peer, show_peer
from bench.api_script import Script, recording
from bench.api_server import Answer, machine, running, serve_cantle, serve_floor
from bench.api_side import ARQS, Batch, Side, binding, encoded, middle, ratio, unbinding
from bench.databases import KINDS, MariaDbServer, databases

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


def main() -> int:
    """Measure, print, and return 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description="Requests per second and CPU per request of the accelerator API.")
    parser.add_argument("--database", choices=KINDS, default="sqlite")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--peer", action="store_true", help="run openstack-cyborg 17 on the same MariaDB, too")
    options = parser.parse_args()
    if options.peer:
        options.database = "mariadb"
        peer.install()
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
        if isinstance(maker, MariaDbServer) and options.peer:
            other = measure_peer(stack.enter_context(peer.running_peer(maker.server)), CLIENTS, rounds)
    print(f"{options.database}, {options.rounds} rounds of {BATCH} requests; medians of rounds; {machine()}")
    show(*sides)
    missed = verdict(*sides)
    if options.peer:
        missed += show_peer(sides[0], other)
    return int(missed > 0)


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


def verdict(cantle: Side, floor: Side, _alone: Side, full: Side) -> int:
    """Print which goals are met; how many are missed."""
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
    return missed


if __name__ == "__main__":
    sys.exit(main())
