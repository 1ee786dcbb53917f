"""The processes of a Cantle for `bench.bind`: everything in one, as ``cantle serve``, or each part in its own, as services."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

from bench.api_cloud import card, report
from bench.api_server import obey

from cantle.agent.agent import Agent
from cantle.agent.client import Client
from cantle.api.app import agents_app, public_app
from cantle.api.settings import Settings
from cantle.cli.listen import Address, HttpServer
from cantle.cli.serve import PUBLIC_THREADS
from cantle.conf import devices as conf_devices
from cantle.errors import Unavailable
from cantle.keeper.keeper import Keeper
from cantle.simulate import build, load
from cantle.store.database import Database
from cantle.wire.work import HandleResult, Outcome, Results

#: The simulated host that a whole agent works on, and its units: 16 slices of a T4.
HOST, CARD, TYPE, UNITS = "t4", "0000:af:00.0", "nvidia-222", 16

_CONFIG = f"[gpu_devices]\nenabled_vgpu_types = {TYPE}\n[vgpu_{TYPE}]\ndevice_addresses = {CARD}\n"
_ANYWHERE = Address("127.0.0.1", 0)
#: Threads of the agents' listener beyond those that wait.
_SPARE = 8
#: Seconds that a light agent waits for work in one call.
_WAIT = 60.0


def all_in_one(pipe: Pipe, url: str, scratch: str, kernel: Path, hosts: int) -> None:
    """API, keeper, and the agent of the simulated host; or, with ``hosts``, without an agent but with room for so many."""
    stop = threading.Event()
    with _database(url) as db, _listening(db, agents=hosts or 1) as inner, _public(db) as public:
        parts = [Keeper(db, stop=stop).run]
        if not hosts:
            parts.append(_agent(inner.address.url, scratch, kernel, stop).run)
        with _threads(*parts):
            pipe.send((public.address.port, inner.address.port))
            obey(pipe)
            db.wakeups.stop()
            stop.set()


def clients_api(pipe: Pipe, url: str) -> None:
    """What clients call, alone."""
    with _database(url) as db, _public(db) as public:
        pipe.send(public.address.port)
        obey(pipe)
        db.wakeups.stop()


def agents_api(pipe: Pipe, url: str, hosts: int) -> None:
    """What agents call, alone."""
    with _database(url) as db, _listening(db, agents=hosts or 1) as inner:
        pipe.send(inner.address.port)
        obey(pipe)
        db.wakeups.stop()


def keeper(pipe: Pipe, url: str) -> None:
    """The keeper, alone."""
    stop = threading.Event()
    with _database(url) as db, _threads(Keeper(db, stop=stop).run):
        pipe.send(None)
        obey(pipe)
        db.wakeups.stop()
        stop.set()


def agent(pipe: Pipe, port: int, scratch: str, kernel: Path) -> None:
    """The agent of the simulated host, alone."""
    stop = threading.Event()
    with _threads(_agent(f"http://127.0.0.1:{port}", scratch, kernel, stop).run):
        pipe.send(None)
        obey(pipe)
        stop.set()


def light_agents(pipe: Pipe, port: int, hosts: int) -> None:
    """So many agents that say of every unit, at once, that it is as it should be. They speak the real protocol over the real client; they
    have no kernel and no memory on a disk."""
    clients = [Client(f"http://127.0.0.1:{port}", f"compute-{number}") for number in range(hosts)]
    start = report([]).agent_start
    for number, client in enumerate(clients):
        client.report(report([card(number, 0)]))
    for client in clients:
        threading.Thread(target=_obey_for_ever, args=(client, start), daemon=True).start()
    pipe.send(None)
    obey(pipe)


def _obey_for_ever(client: Client, start: str) -> None:
    work = client.work()
    while True:
        done = [HandleResult(handle.uuid, Outcome.READY) for handle in work.wanted]
        done += [HandleResult(handle.uuid, Outcome.ABSENT) for handle in work.unwanted]
        try:
            if done:
                client.results(Results(start, work.generation, tuple(done)))
            work = client.later_work(work.generation, _WAIT) or work
        except Unavailable:
            return  # the server was stopped: the measurement is over


def _agent(url: str, scratch: str, kernel: Path, stop: threading.Event) -> Agent:
    config = Path(scratch, "cantle.conf")
    config.write_text(_CONFIG, encoding="utf-8")
    root = build(load(HOST), kernel)
    return Agent(
        hostname=HOST,
        root=root,
        server_url=url,
        state_dir=Path(scratch, "agent"),
        enabled_types=conf_devices.load([str(config)], []),
        stop=stop,
    )


@contextlib.contextmanager
def _database(url: str) -> Iterator[Database]:
    db = Database.open(url)
    try:
        yield db
    finally:
        db.close()


@contextlib.contextmanager
def _public(db: Database) -> Iterator[HttpServer]:
    server = HttpServer(_ANYWHERE, threads=PUBLIC_THREADS, name="bench")
    with _threads(lambda: server.serve(public_app(db, Settings()))):
        yield server
        server.stop()


@contextlib.contextmanager
def _listening(db: Database, *, agents: int) -> Iterator[HttpServer]:
    server = HttpServer(_ANYWHERE, threads=agents + _SPARE, name="bench-agents")
    with _threads(lambda: server.serve(agents_app(db, Settings(parked_slots=agents)))):
        yield server
        server.stop()


@contextlib.contextmanager
def _threads(*works: object) -> Iterator[None]:
    threads = [threading.Thread(target=work, daemon=True) for work in works if callable(work)]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join(5)
