"""``python -m tests.chaos.race``: sixteen processes want eight units at the same moment, again and again.

Each round eight win, each with a unit of its own, and eight are refused. Nobody is refused while a unit is free: units come back, and
are seen to be back, before the next round begins. Rounds of binds and rounds of leases take turns.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from uuid import uuid4

from sqlalchemy import select
from tests.postgres import Postgres
from tests.real.mariadb import MariaDb, install
from tests.real.processes import running
from tests.unit.engine.cloud import ADMIN, NOVA_FOR_ALICE, Host, capacity_of, make_profile, t4

from cantle.engine.arq import create_arqs, delete_arqs
from cantle.engine.bind import Bind, bind
from cantle.engine.lease import create_lease, release_lease
from cantle.errors import CantleError
from cantle.store import migrate
from cantle.store.database import Database
from cantle.store.tables import claims

RACERS = 16
UNITS = 8
HOST = "compute-1"
PATIENCE_S = 120.0


@contextlib.contextmanager
def server(kind: str, directory: Path) -> Iterator[str]:
    """The URL of an empty, migrated database."""
    if kind == "postgresql":
        url = Postgres.shared().new_database()
        migrate.upgrade(url)
        yield url
        return
    install()
    (directory / "log").mkdir()
    made = MariaDb(directory)
    try:
        made.create()
        with running(made.service, made.answers):
            url = made.new_database("cantle")
            migrate.upgrade(url)
            yield url
    finally:
        made.remove()


def racer(url: str, gate: Barrier, orders: Connection, provider: str) -> None:
    """One process: at each order it makes ready, waits for the others, and takes a unit; at the next it gives that back."""
    try:
        db = Database.open(url)
        while (kind := orders.recv()) != "end":
            orders.send(_lease(db, gate, orders) if kind == "lease" else _bind(db, gate, orders, provider))
        db.close()
    except BaseException:
        traceback.print_exc()
        gate.abort()
        raise


def _bind(db: Database, gate: Barrier, orders: Connection, provider: str) -> str:
    (arq,) = create_arqs(db, NOVA_FOR_ALICE, "vgpu")
    gate.wait(PATIENCE_S)
    try:
        bind(db, NOVA_FOR_ALICE, [Bind(arq.uuid, HOST, provider, str(uuid4()))])
        orders.send("won")
    except CantleError as error:
        orders.send(error.code)
    orders.recv()
    delete_arqs(db, NOVA_FOR_ALICE, [arq.uuid])
    return "back"


def _lease(db: Database, gate: Barrier, orders: Connection) -> str:
    lease = None
    gate.wait(PATIENCE_S)
    try:
        lease = create_lease(db, ADMIN, profile_name="vgpu")
        orders.send("won")
    except CantleError as error:
        orders.send(error.code)
    orders.recv()
    if lease is not None:
        release_lease(db, ADMIN, lease.uuid)
    return "back"


class Race:
    """The racers, and the host whose units they want.

    :raises AssertionError: from every call, if a round did not go as it must.
    """

    def __init__(self, url: str) -> None:
        with contextlib.closing(Database.open(url)) as db:
            Host(db, HOST).report(t4(UNITS, host=HOST))
            make_profile(db)
            provider = capacity_of(db, HOST).rp_uuid
        fork = multiprocessing.get_context("fork")
        gate = fork.Barrier(RACERS)
        pipes = [fork.Pipe() for _ in range(RACERS)]
        self._ends = [ours for ours, _ in pipes]
        self._processes = [
            fork.Process(target=racer, args=(url, gate, theirs, provider), daemon=True) for _, theirs in pipes
        ]
        for process in self._processes:
            process.start()
        # Opened after the others were forked: nothing of it is theirs.
        self._db = Database.open(url)
        self._host = Host(self._db, HOST)
        self._host.report(t4(UNITS, host=HOST))

    def round(self, kind: str) -> None:
        """One."""
        self._host.report()  # or it counts as down after some minutes
        loser = "no-free-handle" if kind == "bind" else "no-capacity"
        answers = Counter(self._all(kind))
        assert answers == {"won": UNITS, loser: RACERS - UNITS}, f"{kind}: {dict(answers)}"
        lent = self._lent()
        assert len(lent) == UNITS, f"{len(lent)} claims"
        assert len(set(lent)) == UNITS, f"a unit is lent twice: {lent}"
        self._host.obey()
        assert set(self._all("give back")) == {"back"}
        self._host.obey()
        assert self._lent() == [], "units did not come back"

    def end(self) -> None:
        """Let everybody go home."""
        for pipe in self._ends:
            pipe.send("end")
        for process in self._processes:
            process.join(PATIENCE_S)
        self._db.close()

    def _all(self, order: str) -> list[str]:
        for pipe in self._ends:
            pipe.send(order)
        found = []
        for pipe in self._ends:
            assert pipe.poll(PATIENCE_S), "a racer is stuck"
            found.append(pipe.recv())
        return found

    def _lent(self) -> list[int]:
        with self._db.read() as connection:
            return list(connection.execute(select(claims.c.attach_handle_id)).scalars())


def main() -> None:
    """Ends with a traceback when a round did not go as it must."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.race", description=__doc__)
    parser.add_argument("--database", choices=["postgresql", "mariadb"], required=True)
    parser.add_argument("--rounds", type=int, default=1000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, server(asked.database, Path(directory)) as url:
        race, began, shown = Race(url), time.monotonic(), time.monotonic()
        for number in range(1, asked.rounds + 1):
            race.round("bind" if number % 2 else "lease")
            if time.monotonic() - shown > 30:
                shown = time.monotonic()
                print(f"{asked.database}: {number} of {asked.rounds} rounds", flush=True)
        race.end()
    won = asked.rounds * UNITS
    print(
        f"{asked.database}: {asked.rounds} rounds of {RACERS} processes for {UNITS} units in {time.monotonic() - began:.0f} s: "
        f"{won} won, each unit once; {asked.rounds * (RACERS - UNITS)} refused, none while a unit was free"
    )


if __name__ == "__main__":
    main()
