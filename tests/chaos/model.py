"""``python -m tests.chaos.model``: the model test of the engine, for as many steps as asked, with reboots and restored backups.

What ``tests/unit/engine/test_against_a_model.py`` does in CI for some hundred steps. Here a host may boot anew as well, and the
database may be put back to a backup: what was asked for since is forgotten, and hosts go on from what the database says.
"""

from __future__ import annotations

import argparse
import copy
import multiprocessing
import shutil
import sqlite3
import sys
import time
import traceback
from contextlib import closing
from ctypes import c_long
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import consumes, initialize, invariant, precondition, rule, run_state_machine_as_test
from tests.unit.engine.cloud import ADMIN
from tests.unit.engine.test_against_a_model import HOSTS, Cloud

from cantle.engine.lease import release_lease
from cantle.engine.results import accept_results
from cantle.engine.work import current_work
from cantle.store.database import Database
from cantle.wire.work import Results

STEPS_OF_ONE = 50
#: Runs between two looks at how many steps there were.
RUNS_AT_ONCE = 20
#: What the model knows of the database.
_KNOWN = ("totals", "returning", "arqs", "seen")

#: Steps of all processes.
steps = multiprocessing.get_context("fork").Value(c_long, 0)


class Longer(Cloud):
    """Hosts that boot anew, and backups."""

    @initialize()
    def begin(self) -> None:
        super().begin()
        self.backup: dict[str, Any] | None = None

    @rule(name=st.sampled_from(HOSTS))
    def reboot(self, name: str) -> None:
        """Nothing that was lent is there any more."""
        host = self.hosts[name]
        host.held.clear()
        host.restart()
        self.report(name, self.totals[name])

    @rule(name=st.sampled_from(HOSTS), refusing=st.booleans())
    def obey(self, name: str, refusing: bool) -> None:
        """What is lent is there, also after a boot."""
        super().obey(name, refusing)
        wanted = {handle.uuid for handle in current_work(self.db, name).wanted}
        assert refusing or wanted <= self.hosts[name].held

    @rule()
    def back_up(self) -> None:
        """As ``sqlite3 .backup`` does beside a server that runs."""
        with closing(sqlite3.connect(self._live)) as live, closing(sqlite3.connect(self._kept)) as kept:
            live.backup(kept)
        self.backup = copy.deepcopy({name: getattr(self, name) for name in _KNOWN})

    @precondition(lambda self: self.backup is not None)
    @rule()
    def restore(self) -> None:
        """The server is stopped, the backup put in place, the server and the agents started."""
        self.db.close()
        for path in self.directory.glob(f"{self._live.name}*"):
            path.unlink()
        shutil.copy(self._kept, self._live)
        self.db = Database.open(f"sqlite:///{self._live}")
        for name, value in copy.deepcopy(self.backup or {}).items():
            setattr(self, name, value)
        for name, host in self.hosts.items():
            host.db = self.db
            host.restart()
            self.report(name, self.totals[name])

    @rule(uuid=consumes(Cloud.leases))
    def give_back(self, uuid: str) -> None:
        """One that was made after the backup is not there any more."""
        if any(one.lease == uuid for one in self.arqs.values()):
            super().give_back(uuid)
        else:
            assert self._code(lambda: release_lease(self.db, ADMIN, uuid)) == "lease-not-found"

    @rule(late=Cloud.words)
    def hear(self, late: tuple[str, Results]) -> None:
        """A life of an agent of which the backup knows nothing has to report first."""
        name, results = late
        if results.agent_start == self.hosts[name].start:
            super().hear(late)
        else:
            code = self._code(lambda: accept_results(self.db, name, results))
            assert code in ("agent-fenced", "report-first")

    @invariant()
    def steps_are_counted(self) -> None:
        with steps.get_lock():
            steps.value += 1

    @property
    def _live(self) -> Path:
        return self.directory / "cantle.db"

    @property
    def _kept(self) -> Path:
        return self.directory / "backup"


def shard(first_seed: int, target: int) -> None:
    """Run machines until all processes together came to so many steps."""
    how = settings(
        max_examples=RUNS_AT_ONCE,
        stateful_step_count=STEPS_OF_ONE,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    number = first_seed
    while steps.value < target:
        machine = seed(number)(type("Seeded", (Longer,), {}))
        try:
            run_state_machine_as_test(machine, settings=how)
        except BaseException:  # noqa: BLE001 - shown, with how to see it again
            traceback.print_exc()
            print(f"again: .venv/bin/python -m tests.chaos.model --steps 1 --seed {number} --jobs 1", flush=True)
            sys.exit(1)
        number += 1


def main() -> int:
    """Exit code 0 when the engine did what the model says at every step."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.model", description=__doc__)
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    began = time.monotonic()
    fork = multiprocessing.get_context("fork")
    shards = [
        fork.Process(target=shard, args=(asked.seed + number * 1_000_000, asked.steps)) for number in range(asked.jobs)
    ]
    for process in shards:
        process.start()
    while any(process.is_alive() for process in shards):
        shards[0].join(30)
        shards[-1].join(0.1)
        print(f"model: {steps.value} of {asked.steps} steps", flush=True)
    failed = sum(process.exitcode != 0 for process in shards)
    print(
        f"model: {steps.value} steps in {time.monotonic() - began:.0f} s, {failed} of {asked.jobs} processes found a violation"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
