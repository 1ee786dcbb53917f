"""``python -m tests.chaos.tug``: eight instances, each with two calls at once for the same four requests, each call to another host.

Of each two calls one binds all four, and the other is told that they are bound; no third answer is right. Unlike in a race
(`tests.chaos.race`), the calls do not queue for one host's row: they meet at the requests, and the database has to break deadlocks.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from uuid import uuid4

from tests.chaos.race import server
from tests.unit.engine.cloud import NOVA_FOR_ALICE, Host, capacity_of, make_profile, t4

from cantle.engine.arq import create_arqs, delete_arqs
from cantle.engine.bind import Bind, bind
from cantle.errors import CantleError
from cantle.model.arq import Arq
from cantle.store.database import Database

INSTANCES, REQUESTS = 8, 4
HOSTS = ("compute-1", "compute-2")
_PATIENCE_S = 120.0


class Tug:
    """The two hosts, each with room for all, and who calls.

    :raises AssertionError: from a round that did not go as it must.
    """

    def __init__(self, db: Database, callers: ThreadPoolExecutor) -> None:
        self._db, self._callers = db, callers
        self._hosts = [Host(db, name) for name in HOSTS]
        for host in self._hosts:
            host.report(t4(INSTANCES * REQUESTS, host=host.name))
        make_profile(db, "four", [{"resources:VGPU": str(REQUESTS)}])
        self._providers = {name: capacity_of(db, name).rp_uuid for name in HOSTS}

    def round(self) -> None:
        """One."""
        for host in self._hosts:
            host.report()  # or it counts as down after some minutes
        made = [create_arqs(self._db, NOVA_FOR_ALICE, "four") for _ in range(INSTANCES)]
        together = Barrier(INSTANCES * len(HOSTS))
        calls = [
            [self._callers.submit(self._bind, arqs, instance, name, together) for name in HOSTS]
            for arqs, instance in ((arqs, str(uuid4())) for arqs in made)
        ]
        for pair in calls:
            answers = sorted(call.result(_PATIENCE_S) for call in pair)
            assert answers == ["arq-not-bindable", "bound"], answers
        delete_arqs(self._db, NOVA_FOR_ALICE, [arq.uuid for arqs in made for arq in arqs])
        for host in self._hosts:
            host.obey()
        used = Counter({name: capacity_of(self._db, name).used for name in HOSTS})
        assert used.total() == 0, f"units did not come back: {used}"

    def _bind(self, arqs: list[Arq], instance: str, name: str, together: Barrier) -> str:
        wanted = [Bind(arq.uuid, name, self._providers[name], instance) for arq in arqs]
        together.wait(_PATIENCE_S)
        try:
            bind(self._db, NOVA_FOR_ALICE, wanted)
        except CantleError as error:
            return error.code
        return "bound"


def main() -> None:
    """Ends with a traceback when a round did not go as it must."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.tug", description=__doc__)
    parser.add_argument("--database", choices=["postgresql", "mariadb"], required=True)
    parser.add_argument("--rounds", type=int, default=200)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, server(asked.database, Path(directory)) as url:
        db, began = Database.open(url), time.monotonic()
        with ThreadPoolExecutor(INSTANCES * len(HOSTS)) as callers:
            tug = Tug(db, callers)
            for _ in range(asked.rounds):
                tug.round()
        db.close()
    print(
        f"{asked.database}: {asked.rounds} rounds of {INSTANCES} instances between two hosts in {time.monotonic() - began:.0f} s: "
        "each bound on one of them, none told anything else"
    )


if __name__ == "__main__":
    main()
