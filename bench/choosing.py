"""Choosing a host and cards without OpenStack, for fleets of 100, 1,000 and 10,000 hosts of eight cards, on PostgreSQL.

What is measured: from the call of the engine to the committed claims, one client; claims per second of four workers, processes of their
own, database and all on this machine; an explanation of what no host can serve; memory of a worker. The floor writes the same rows in
the same transaction on hosts that are known beforehand, in turn with the choices.

With ``--placement`` also the real Placement's candidates and allocation for the same fleet, as Nova asks for them.

``python -m bench.choosing [--hosts N ...] [--rounds N] [--placement]``
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

from bench.api_server import cpu_below, machine
from bench.choosing_fleet import PROFILES, fill
from bench.databases import PostgresServer
from tests.postgres import Postgres

from cantle.engine import choice, lease
from cantle.engine.clock import now
from cantle.engine.explain import explain
from cantle.engine.terms import Terms
from cantle.errors import NoCapacity
from cantle.model.alias import NO_ALIASES
from cantle.model.identity import LOCAL_ADMIN
from cantle.model.lease import OnExpiry
from cantle.model.request import of_profile
from cantle.scheduling.choose import Choice
from cantle.store import host
from cantle.store.database import Database
from cantle.store.tables import claims

SIZES = (100, 1000, 10_000)
ROUNDS = 200
WORKERS = 4
#: Seconds that the workers claim.
SPAN = 10.0
#: p50 of choose and claim in ms, by hosts.
GOALS_MS = {1000: 10.0, 10_000: 40.0}
GOAL_EXPLAIN_S, GOAL_RATE, GOAL_MEMORY_MB = 1.0, 150.0, 300.0
ASKED = [name for name in PROFILES if name != "nowhere"]


@dataclass(frozen=True, slots=True)
class Figures:
    """What came out for one fleet. Times in ms, seconds for ``explain``, memory in MB.

    ``cpu`` is what a choice with its claim costs, in this process and in the database's; ``shared`` the same of the workers, with what
    they give back: two cores that nobody else uses last for 2000 / ``shared`` claims per second.
    """

    hosts: int
    p50: float
    p99: float
    floor: float
    cpu: float
    by_profile: dict[str, float]
    explain: float
    explain_cpu: float
    rate: float
    again: float
    shared: float
    memory: float

    def missed(self) -> list[str]:
        """Goals that are missed."""
        checks = [
            (self.p50 <= GOALS_MS.get(self.hosts, 1e9), f"p50 {self.p50:.1f} ms"),
            (self.explain <= GOAL_EXPLAIN_S, f"explain {self.explain:.2f} s"),
            (self.rate >= GOAL_RATE, f"{self.rate:.0f} claims/s"),
            (self.memory <= GOAL_MEMORY_MB, f"memory {self.memory:.0f} MB"),
        ]
        return [f"{self.hosts} hosts: {what}" for good, what in checks if not good]


def measure(url: str, size: int, rounds: int, pid: int) -> Figures:
    """All figures of one fleet. ``pid`` is the database's process."""
    rounds = min(rounds, size // 3)  # a small fleet would be full
    db = Database.open(url)
    try:
        for _ in range(rounds // 2):
            lease.create_lease(db, LOCAL_ADMIN, profile_name="slice")
        before = time.process_time() + cpu_below(pid)
        for _ in range(rounds // 2):
            lease.create_lease(db, LOCAL_ADMIN, profile_name="slice")
        cpu = (time.process_time() + cpu_below(pid) - before) / (rounds // 2) * 1000
        by_profile: dict[str, list[float]] = {name: [] for name in ASKED}
        floors: list[float] = []
        for number in range(rounds + 10):
            name = ASKED[number % len(ASKED)]
            took, made = _timed(lambda name=name: lease.create_lease(db, LOCAL_ADMIN, profile_name=name))  # type: ignore[misc]
            found = _again(db, name, made.hostname)
            floor, _ = _timed(lambda found=found, name=name: _floor(db, name, found))  # type: ignore[misc]
            if number >= 10:  # connections and statements are made by then
                by_profile[name].append(took)
                floors.append(floor)
        before = time.process_time() + cpu_below(pid)
        explained = min(_timed(lambda: explain(db, name="nowhere"))[0] for _ in range(3))
        explain_cpu = (time.process_time() + cpu_below(pid) - before) / 3
    finally:
        db.close()
    rate, again, shared, memory = _crowd(url, size, pid)
    times = sorted(took for some in by_profile.values() for took in some)
    return Figures(
        size,
        statistics.median(times),
        times[int(len(times) * 0.99)],
        statistics.median(floors),
        cpu,
        {name: statistics.median(some) for name, some in by_profile.items()},
        explained / 1000,
        explain_cpu,
        rate,
        again,
        shared,
        memory,
    )


def _again(db: Database, name: str, hostname: str) -> Choice:
    """A choice that is still good, made without being timed: what the floor writes."""
    with db.read() as connection:
        asked = choice.by_name(connection, name, 1, NO_ALIASES)
        found = choice.find(connection, asked, hostname=hostname) or choice.find(connection, asked)
    assert found is not None, f"nothing is left for {name}"
    return found


def _floor(db: Database, name: str, found: Choice) -> None:
    """Lock, lease, requests, claims, stock: what is written once it is known what to write."""
    asked = choice.Asked(name, of_profile(PROFILES[name]), (), 1)

    def work(connection: Any) -> None:
        host.lock(connection, [found.host_id])
        lease.lend(connection, Terms(LOCAL_ADMIN, asked, "", None, OnExpiry.DETACH, now()), found)

    db.run(work)


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    done = call()
    return (time.perf_counter() - began) * 1000, done


def _crowd(url: str, size: int, pid: int) -> tuple[float, float, float, float]:
    """Claims per second of the workers together, how often they had to choose again per hundred, CPU of a claim in ms, theirs and the
    database's, and the memory of the largest."""
    context = multiprocessing.get_context("spawn")
    pipes: list[Pipe] = []
    workers = []
    for number in range(WORKERS):
        here, there = context.Pipe()
        pipes.append(here)
        workers.append(context.Process(target=_worker, args=(url, size // 2, number, there)))
        workers[-1].start()
    for pipe in pipes:
        pipe.recv()
    before = cpu_below(pid)
    for pipe in pipes:
        pipe.send("go")
    done = [pipe.recv() for pipe in pipes]
    spent = cpu_below(pid) - before + sum(cpu for _, _, cpu, _ in done)
    for worker in workers:
        worker.join()
    claimed = max(1, sum(count for count, *_ in done))
    again = 100 * sum(tries for _, tries, *_ in done) / claimed
    return claimed / SPAN, again, spent / claimed * 1000, max(memory for *_, memory in done)


def _memory() -> float:
    """MB that this process had at most; not those of the process that started it, which getrusage counts in."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _give_back(db: Database, uuid: str) -> None:
    """Release a lease, and say in its host's place that the units are back."""
    released = lease.release_lease(db, LOCAL_ADMIN, uuid)
    with db.write() as connection:
        connection.execute(claims.delete().where(claims.c.lease_id == released.id))


def _worker(url: str, most: int, number: int, pipe: Pipe) -> None:
    """Lease as long as the span lasts, and give back what is beyond so many leases."""
    chance = random.Random(number)  # noqa: S311
    db = Database.open(url)
    count = tries = 0
    pipe.send("ready")
    pipe.recv()
    end, before = time.monotonic() + SPAN, time.process_time()
    original = choice.hold

    def counted(*args: Any, **kwargs: Any) -> Choice | None:
        nonlocal tries
        tries += 1
        return original(*args, **kwargs)

    choice.hold = counted
    held: list[str] = []
    while time.monotonic() < end:
        try:
            held.append(lease.create_lease(db, LOCAL_ADMIN, profile_name=chance.choice(ASKED)).uuid)
            count += 1
        except NoCapacity:  # the others have all that is left: a small fleet
            most = len(held) // 2
        while len(held) > most:
            _give_back(db, held.pop(0))
    pipe.send((count, tries - count, time.process_time() - before, _memory()))
    db.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and say with the exit code whether a goal was missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--hosts", type=int, nargs="+", default=SIZES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--placement", action="store_true", help="also measure the real Placement")
    asked = parser.parse_args(arguments)
    print(machine())
    server = PostgresServer(Postgres.shared())
    missed: list[str] = []
    print(
        "hosts, p50, p99 and floor in ms, CPU in ms, explain and its CPU in s, claims/s, chosen again in %, "
        "CPU of a worker's claim in ms, MB, p50 by profile"
    )
    for size in asked.hosts:
        url = server.new()
        fill(url, size)
        found = measure(url, size, asked.rounds, server.pid)
        names = ", ".join(f"{name} {took:.1f}" for name, took in found.by_profile.items())
        figures = (
            found.p50,
            found.p99,
            found.floor,
            found.cpu,
            found.explain,
            found.explain_cpu,
            found.rate,
            found.again,
            found.shared,
            found.memory,
        )
        print(f"{found.hosts:>6}", *(f"{figure:>7.2f}" for figure in figures), f" {names}", flush=True)
        missed += found.missed()
        if asked.placement:
            from bench.choosing_placement import beside  # noqa: PLC0415 - needs Placement, which not everybody has

            print(f"       Placement: {beside(size)}", flush=True)
    print("\n".join(f"missed: {one}" for one in missed) or "all goals reached")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
