"""The least that a bind can cost: its two commits, its round trips on loopback and its one write to the kernel, and nothing else.

    client ── PATCH ──▶ server: commit 1 ──▶ 202
                        server ── the work ──▶ agent: write to the kernel
                        server ◀── the result ── agent
                        server: commit 2 ──▶ agent
    client ── GET ────▶ server ──▶ Bound          (answered at once after commit 2: this client never asks too early)

Commits are those that Cantle made for the same binds on a copy of the same database, statement by statement, by the bare driver.
Messages are as long as the real ones, but are no HTTP and are not parsed.
"""

from __future__ import annotations

import socket
import threading
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

from bench.api_cloud import Cloud, settle
from bench.api_script import Replayer, Script, recording
from bench.api_server import obey
from bench.bind_parts import CARD, HOST, TYPE, UNITS

from cantle.engine.bind import Bind, bind
from cantle.engine.profile import get_profile
from cantle.kernel.mdev import DEVICES, PARENTS
from cantle.model.identity import LOCAL_ADMIN
from cantle.model.uuids import new
from cantle.simulate import build, load
from cantle.store.database import Database

#: Bytes of a PATCH with its headers, of a GET, of the work of a host, of a result; and of the answers.
PATCH, GET, WORK, RESULT, SHORT, ARQ = 700, 250, 900, 500, 250, 1100

#: Both commits of a bind.
Commits = tuple[Script, Script]


def recorded(cloud: Cloud, count: int) -> list[Commits]:
    """The commits of so many binds, one after the other."""
    db = Database.open(cloud.url)
    get_profile(db, "bench")  # opens a connection, as the first bind would
    scripts = []
    for number, uuid in enumerate(cloud.arqs[:count]):
        target = cloud.providers[number % len(cloud.providers)]
        with recording() as binding:
            bind(db, LOCAL_ADMIN, [Bind(uuid, target.hostname, target.rp_uuid, new())])
        with recording() as settling:
            settle(db, [target.hostname])
        scripts.append((_commits(binding), _commits(settling)))
    db.close()
    return scripts


def _commits(script: Script) -> Script:
    """The one that counts: signs of life, once a minute, come before it."""
    return [transaction for transaction in script if transaction.writes][-1:]


def serve(pipe: Pipe, url: str, kernel: Path, scripts: list[Commits]) -> None:
    """Server and agent, in one process: the client binds the first, the second, and so on."""
    replayer = Replayer(url)
    listener = socket.create_server(("127.0.0.1", 0))
    work = socket.create_server(("127.0.0.1", 0))
    agent = threading.Thread(target=_agent, args=(work.getsockname()[1], kernel), daemon=True)
    agent.start()
    for_agent = _quick(work.accept()[0])
    pipe.send(listener.getsockname()[1])
    bound = threading.Semaphore(0)
    begun = threading.Semaphore(0)

    def clients() -> None:
        client = _quick(listener.accept()[0])
        for first, _ in scripts:
            receive(client, PATCH)
            replayer.replay(first)
            begun.release()
            client.sendall(bytes(SHORT))
            receive(client, GET)
            bound.acquire()
            client.sendall(bytes(ARQ))

    def agents() -> None:
        for _, second in scripts:
            begun.acquire()
            for_agent.sendall(bytes(WORK))
            receive(for_agent, RESULT)
            replayer.replay(second)
            bound.release()
            for_agent.sendall(bytes(SHORT))

    for part in (clients, agents):
        threading.Thread(target=part, daemon=True).start()
    obey(pipe)


def _agent(port: int, kernel: Path) -> None:
    """It writes as the real one does, to the same simulated kernel: that one's reaction is in both figures."""
    root = build(load(HOST), kernel)
    server = _quick(socket.create_connection(("127.0.0.1", port)))
    made: list[str] = []
    while True:
        receive(server, WORK)
        made.append(new())
        root.write(f"{PARENTS}/{CARD}/mdev_supported_types/{TYPE}/create", made[-1])
        server.sendall(bytes(RESULT))
        receive(server, SHORT)
        if len(made) == UNITS:  # the end of a round
            while made:
                root.write(f"{DEVICES}/{made.pop()}/remove", "1")


def bind_once(client: socket.socket) -> None:
    """The client's side of one."""
    client.sendall(bytes(PATCH))
    receive(client, SHORT)
    client.sendall(bytes(GET))
    receive(client, ARQ)


def connected(port: int) -> socket.socket:
    """A client."""
    return _quick(socket.create_connection(("127.0.0.1", port)))


def receive(peer: socket.socket, size: int) -> None:
    """A whole message."""
    while size:
        part = peer.recv(size)
        if not part:
            raise SystemExit("bench: the floor hung up")
        size -= len(part)


def _quick(peer: socket.socket) -> socket.socket:
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return peer
