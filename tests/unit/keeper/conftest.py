"""A cloud whose compute service and webhook are told of events, on each kind of database."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import select, update
from tests.databases import KINDS, database
from tests.unit.engine.cloud import NOVA_FOR_ALICE, Host, capacity_of, make_profile, t4
from tests.unit.keeper.listener import Listener, listening

from cantle.conf import files, nova
from cantle.engine.arq import create_arqs
from cantle.engine.bind import Bind, bind
from cantle.keeper.courier import Courier
from cantle.model.arq import Arq
from cantle.model.event import Channel, Outlets
from cantle.store.database import Database
from cantle.store.tables import arqs, outbox
from cantle.store.types import database_now


@dataclass
class Cloud:
    """One host with eight vGPUs, and those who are told."""

    db: Database
    listener: Listener
    directory: Path
    host: Host = field(init=False)

    def __post_init__(self) -> None:
        self.host = Host(self.db)
        self.host.report(t4(8))
        make_profile(self.db, "vgpu")

    def start(self, instance: str | None = None) -> Arq:
        """A request that Nova has just asked to bind."""
        (arq,) = create_arqs(self.db, NOVA_FOR_ALICE, "vgpu")
        self.bind(arq, instance)
        return arq

    def bind(self, arq: Arq, instance: str | None = None) -> None:
        """Nova asks to bind it."""
        provider = capacity_of(self.db).rp_uuid
        bind(self.db, NOVA_FOR_ALICE, [Bind(arq.uuid, "compute-1", provider, instance or str(uuid4()))])

    def bound(self) -> Arq:
        """A request that the host has just made ready."""
        arq = self.start()
        self.host.obey()
        return arq

    def failed(self, instance: str | None = None) -> Arq:
        """A request that the host has just failed to make ready."""
        arq = self.start(instance)
        self.host.refusing["*"] = "mdev-no-space"
        self.host.obey()
        self.host.refusing.clear()
        return arq

    def to_nova(self, **how: Any) -> Courier:
        """A courier to the listener, over the adapter that the configuration makes."""
        file = self.directory / "nova.conf"
        file.write_text(f"[nova]\nauth_type = none\nendpoint_override = {self.listener.url}/v2.1\ntimeout = 2\n")
        receiver = nova.receiver(files.read([str(file)]))
        assert receiver is not None
        return Courier(self.db, receiver, stop=threading.Event(), **how)

    def outbox(self, channel: Channel = Channel.NOVA) -> list[Any]:
        """What is in the outbox."""
        with self.db.read() as connection:
            return list(connection.execute(select(outbox).where(outbox.c.channel == channel).order_by(outbox.c.id)))

    def outcomes(self, channel: Channel = Channel.NOVA) -> list[str | None]:
        """How each event ended; None for one that is still to be sent."""
        return [row.outcome for row in self.outbox(channel)]

    def time_passes(self) -> None:
        """Everything that was put off is due; nobody's claim holds."""
        with self.db.write() as connection:
            connection.execute(update(outbox).values(due_at=database_now(-1)))
            connection.execute(
                update(outbox).where(outbox.c.claimed_until.is_not(None)).values(claimed_until=database_now(-1))
            )

    def nova_stops_waiting(self) -> None:
        """The caller's timeout is over."""
        with self.db.write() as connection:
            connection.execute(
                update(arqs).where(arqs.c.announced_until.is_not(None)).values(announced_until=database_now(-1))
            )
            connection.execute(
                update(outbox).where(outbox.c.repeat_until.is_not(None)).values(repeat_until=database_now(-1))
            )


@contextmanager
def told(db: Database, outlets: Outlets) -> Iterator[None]:
    """The database of an installation in which these are told. Servers' databases outlive a test: it is undone."""
    before, db.outlets = db.outlets, outlets
    try:
        yield
    finally:
        db.outlets = before


@pytest.fixture(params=KINDS)
def cloud(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cloud]:
    """Nova waits 300 s and is told; a webhook is told too."""
    with (
        database(request.param, tmp_path) as db,
        told(db, Outlets(nova_waits=300.0, webhook=True)),
        listening() as listener,
    ):
        yield Cloud(db, listener, tmp_path)


def until(true: Callable[[], bool]) -> None:
    """Wait for a condition, at most 20 s."""
    tick = threading.Event()
    for _ in range(2000):
        if true():
            return
        tick.wait(0.01)
    raise AssertionError("it never came true")
