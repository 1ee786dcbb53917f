"""A real server for agents, and agents in threads, over a simulated host."""

from __future__ import annotations

import os
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cantle import simulate
from cantle.agent.agent import Agent
from cantle.api.app import agents_app
from cantle.api.settings import Settings
from cantle.cli.listen import Address, HttpServer
from cantle.engine.capacity import list_capacity
from cantle.engine.lease import create_lease, release_lease, wait_lease
from cantle.engine.profile import create_profile
from cantle.model.enabled_types import EnabledType, EnabledTypes
from cantle.model.identity import LOCAL_ADMIN
from cantle.model.lease import Lease, LeaseState
from cantle.store.database import Database, host_topic

T4 = "0000:af:00.0"
M40 = "0000:86:00.0"
SEED = EnabledTypes((EnabledType("nvidia-223", addresses=(T4,)),))
TOKEN = "a-secret-of-the-tests"
#: Far more than anything here takes; a test that reaches it has failed.
PATIENCE = 20.0


def until(what: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Return as soon as ``what()`` is true.

    :raises AssertionError: when it is not in time.
    """
    tick = threading.Event()
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come about"
        tick.wait(0.02)


def own_port(owner: object) -> int:
    """A port that servers of ``owner`` can have again and again, and nobody else while it lives, also while none of them is up.

    One that the kernel chooses for a server cannot be had again for a minute, since cheroot sets SO_REUSEADDR for none of those. Here it is
    set on the socket that holds the port and on those of the servers, so that they can share it; only they listen.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        port: int = holder.getsockname()[1]
        weakref.finalize(owner, os.close, holder.detach())
    return port


class Service:
    """A database, and the agents' listener when it is up. Its address stays the same."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self._server: HttpServer | None = None
        self._thread: threading.Thread | None = None
        self._port = own_port(self)
        self.up()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def up(self, application: Any = None) -> None:
        """Be there again, with another application if one is given."""
        self._server = HttpServer(Address("127.0.0.1", self._port), threads=8, name="test")
        serve = application or agents_app(self.db, Settings(agents_token=TOKEN))
        self._thread = threading.Thread(target=self._server.serve, args=(serve,), daemon=True)
        self._thread.start()

    def down(self) -> None:
        """Take it away, waiting calls too."""
        if self._server is not None and self._thread is not None:
            with self.db.wakeups.waiter(host_topic("node1"), alone=True):  # ends a call that an agent left waiting
                self._server.stop()
            self._thread.join(PATIENCE)
            self._server = None

    def profiles(self) -> None:
        """``slice`` and ``card``."""
        create_profile(self.db, LOCAL_ADMIN, name="slice", groups=[{"resources:VGPU": "1"}])
        create_profile(self.db, LOCAL_ADMIN, name="card", groups=[{"resources:PGPU": "1"}])

    def borrow(self, profile: str) -> Lease:
        """A lease, settled one way or the other."""
        until(lambda: any(one.free for one in list_capacity(self.db)))
        return self.settled(create_lease(self.db, LOCAL_ADMIN, profile_name=profile).uuid)

    def give_back(self, lease: Lease) -> Lease:
        """The same lease, settled after its release."""
        return self.settled(release_lease(self.db, LOCAL_ADMIN, lease.uuid).uuid)

    def settled(self, uuid: str, *states: LeaseState) -> Lease:
        """The lease once it is in one of the states; without any, once nothing is pending."""
        wanted = states or (LeaseState.ACTIVE, LeaseState.FAILED, LeaseState.RELEASED)
        found: list[Lease] = []

        def there() -> bool:
            found[:] = [wait_lease(self.db, LOCAL_ADMIN, uuid, seconds=1)]
            return found[0].state in wanted

        until(there)
        return found[0]

    def free(self) -> dict[str, int]:
        """Free units by card."""
        return {one.device_address: one.free for one in list_capacity(self.db)}


class Run:
    """An agent in a thread."""

    def __init__(
        self,
        service: Service,
        root: simulate.SimulatedRoot,
        directory: Path,
        *,
        enabled: EnabledTypes = SEED,
        rescan: float = 60.0,
        local_socket: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        token: str | None = TOKEN,
    ) -> None:
        self.stop = threading.Event()
        self.error: BaseException | None = None
        self.agent = Agent(
            hostname="node1",
            root=root,
            server_url=service.url,
            state_dir=directory,
            enabled_types=enabled,
            stop=self.stop,
            token=token,
            rescan=rescan,
            local_socket=local_socket,
            clock=clock,
            wall=wall,
        )
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.agent.run()
        except BaseException as error:  # noqa: BLE001 - handed to the test
            self.error = error

    def end(self) -> None:
        """Ask it to stop and see it stop."""
        self.stop.set()
        self.ended()

    def ended(self) -> BaseException | None:
        """What it ended with."""
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()
        return self.error


@contextmanager
def running(
    service: Service,
    root: simulate.SimulatedRoot,
    directory: Path,
    *,
    enabled: EnabledTypes = SEED,
    rescan: float = 60.0,
    local_socket: str | None = None,
    clock: Callable[[], float] = time.monotonic,
    wall: Callable[[], float] = time.time,
) -> Iterator[Run]:
    """An agent for the length of a block; it must not have failed by itself."""
    run = Run(
        service, root, directory, enabled=enabled, rescan=rescan, local_socket=local_socket, clock=clock, wall=wall
    )
    try:
        yield run
    finally:
        run.stop.set()
        error = run.ended()
        if error is not None:
            raise error
