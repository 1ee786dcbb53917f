"""What waiting agents cost, how soon they hear of work, what an unchanged report costs, and what happens when all come back at once.

    python -m bench.agents                         200 agents, half a minute
    python -m bench.agents --agents 2000 --seconds 60
    python -m bench.agents --database sqlite       `cantle serve`, everything in one process

With PostgreSQL and MariaDB the agents' listener is gunicorn as docs/deploy says, one worker with a thread for each agent and a hundred
more, and another gunicorn answers clients. TLS is at the proxy, so none is here. Each agent has a token of its own, looks at its host every
minute and reports when a real one would. CPU is of the server's processes, not of the database's nor of the agents'. Another client's calls
are measured by a process of its own; all agents are one process, on the same machine.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.agents_crowd import Crowd
from bench.agents_others import Others, call
from bench.databases import KINDS, databases
from sqlalchemy import func, select
from tests.real.processes import Service, answers, free_port

from cantle.engine.token import add
from cantle.model import uuids
from cantle.model.identity import LOCAL_ADMIN
from cantle.model.token import Role
from cantle.store import migrate
from cantle.store.database import Database
from cantle.store.tables import hosts
from cantle.store.types import database_now

DEPLOY = Path(__file__).parents[1] / "docs" / "deploy"

GOAL_CPU = 8.0
GOAL_MB = 250.0
GOAL_REPORT_MS = 2.0
GOAL_BACK_S = 60.0
GOAL_OTHERS = 3.0

#: Hosts woken, reports sent, and seconds for which another client calls while nothing else happens.
WAKES = 100
REPORTS = 500
NORMAL_S = 20.0


@dataclass
class Servers:
    """The agents' listener, and where clients are answered; both are one with SQLite."""

    agents: Service
    agents_port: int
    public_port: int

    def stop_agents(self) -> None:
        """End the agents' listener, as its supervisor would."""
        self.agents.stop(seconds=120)

    def start_agents(self) -> None:
        """Start it again."""
        self.agents.start(lambda: answers(f"http://127.0.0.1:{self.agents_port}/readyz"))


def main() -> int:
    """Measure, print, and return 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--database", choices=KINDS, default="postgresql")
    chosen = parser.parse_args()
    load = os.getloadavg()[0]
    print(
        f"{platform.python_version()}, {os.cpu_count()} processors, load {load:.1f}; {chosen.agents} agents on {chosen.database}"
    )
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cantle-bench-")))
        url = stack.enter_context(databases(chosen.database)).new()
        migrate.upgrade(url)
        tokens = make_tokens(url, chosen.agents)
        servers = stack.enter_context(serving(place, url, chosen.database, chosen.agents))
        others = Others(servers.public_port)
        stack.callback(others.close)
        return asyncio.run(measure(servers, others, Silence(url, stack), tokens, chosen.seconds))


class Silence:
    """Asks the database of which hosts it has not been written that they were heard."""

    def __init__(self, url: str, stack: ExitStack) -> None:
        self._database = Database.open(url)
        stack.callback(self._database.close)

    def since(self, moment: dt.datetime) -> int:
        """How many were not heard after that moment of the database's."""
        with self._database.read() as connection:
            query = select(func.count()).where(hosts.c.last_seen <= moment)
            return connection.execute(query).scalar_one()

    def now(self) -> dt.datetime:
        """The database's time."""
        with self._database.read() as connection:
            moment: dt.datetime = connection.execute(select(database_now())).scalar_one()
            return moment


def make_tokens(url: str, count: int) -> dict[str, str]:
    """A token for each host, by its name."""
    database = Database.open(url)
    try:
        with database.write() as connection:
            names = [f"bench{number:05d}" for number in range(count)]
            return {
                name: add(connection, LOCAL_ADMIN, uuids.new(), name="agent", role=Role.AGENT, hostname=name)
                for name in names
            }
    finally:
        database.close()


@contextmanager
def serving(place: Path, url: str, kind: str, agents: int) -> Iterator[Servers]:
    """The servers, up."""
    config = place / "cantle.conf"
    config.write_text(f"[database]\nconnection = {url}\n[agents]\nwaiting_places = {agents + 50}\n")
    agents_port, public_port = free_port(), free_port()
    if kind == "sqlite":
        argv = [
            sys.executable, "-m", "cantle.cli.main", "serve", "--simulated-only", "--state-dir", str(place / "state"),
            "--config-file", str(config), "--listen", f"127.0.0.1:{public_port}", "--agents-listen", f"127.0.0.1:{agents_port}",
        ]  # fmt: skip
        both = [Service("serve", argv, place)]
    else:
        both = [
            gunicorn("agents", "agents", config, agents_port, agents + 100, "nice", "-n", "5"),
            gunicorn("api", "application", config, public_port, 24),
        ]
    ports = dict(zip(("agents", "api"), (agents_port, public_port), strict=True))
    try:
        for service in both:
            port = ports.get(service.name, agents_port)
            service.start(lambda: answers(f"http://127.0.0.1:{port}/readyz"))  # noqa: B023 - called at once
        yield Servers(both[0], agents_port, public_port)
    finally:
        for service in both:
            service.stop(seconds=10)


def gunicorn(name: str, application: str, config: Path, port: int, threads: int, *before: str) -> Service:
    """As docs/deploy says; agents with ``nice``, as their unit of systemd has it."""
    deployed = DEPLOY / f"gunicorn-{name}.conf.py"
    argv = [
        *before, sys.executable, "-m", "gunicorn", "--config", str(deployed), "--bind", f"127.0.0.1:{port}", "--workers", "1",
        "--threads", str(threads), "--worker-connections", str(threads + 500), f"cantle.wsgi:{application}",
    ]  # fmt: skip
    return Service(name, argv, config.parent, env={"CANTLE_CONFIG": str(config)})


async def measure(servers: Servers, others: Others, silence: Silence, tokens: dict[str, str], seconds: float) -> int:
    """All of it, one after the other."""
    missed = 0
    crowd = Crowd(servers.agents_port, tokens)
    began = time.monotonic()
    async with crowd:
        await crowd.settled()
        print(f"{'all have reported and wait, after':52} {time.monotonic() - began:8.1f} s")
        missed += await idle(servers, crowd, seconds)
        await wake(servers, crowd)
        missed += await unchanged(servers, crowd)
        missed += await herd(servers, others, silence)
    return int(missed > 0)


async def idle(servers: Servers, crowd: Crowd, seconds: float) -> int:
    """Everybody waits."""
    await asyncio.sleep(2)
    cpu, calls = used(servers.agents.pid), crowd.answers()
    await asyncio.sleep(seconds)
    share = 100 * (used(servers.agents.pid) - cpu) / seconds
    megabytes = memory(servers.agents.pid)
    rate = (crowd.answers() - calls) / seconds
    line(f"{len(crowd.agents)} idle agents, CPU of one core", share, "%", GOAL_CPU)
    line("memory, RSS of all its processes", megabytes, "MB", GOAL_MB)
    line("calls answered", rate, "/s")
    return (share > GOAL_CPU) + (megabytes > GOAL_MB)


async def wake(servers: Servers, crowd: Crowd) -> None:
    """From a client's call that changes a host until the host's agent has the answer."""
    found = []
    for agent in random.sample(crowd.agents, min(WAKES, len(crowd.agents))):

        async def change(name: str = agent.name) -> None:
            await asyncio.to_thread(call, servers.public_port, "POST", f"/v1/hosts/{name}/confirm")

        found.append(1000 * await crowd.woken(agent.name, change))
        await asyncio.sleep(0.02)
    line("wake-up, from the call to the agent's answer: p50", percentile(found, 50), "ms")
    line("wake-up: p99", percentile(found, 99), "ms")


async def unchanged(servers: Servers, crowd: Crowd) -> int:
    """The same report again and again, by one agent that does nothing else: what `confirm` forgot is reported again first."""
    one = crowd.agents[0]
    reporter = one.again()
    await reporter.report()
    before = used(servers.agents.pid)
    idle_before = crowd.answers()
    began = time.monotonic()
    for _ in range(REPORTS):
        await reporter.report()
    spent, elapsed = used(servers.agents.pid) - before, time.monotonic() - began
    each = 1000 * spent / (REPORTS + crowd.answers() - idle_before)
    line("an unchanged report, CPU", each, "ms", GOAL_REPORT_MS)
    line("an unchanged report, time", 1000 * elapsed / REPORTS, "ms")
    return int(each > GOAL_REPORT_MS)


async def herd(servers: Servers, others: Others, silence: Silence) -> int:
    """The agents' listener is restarted: all agents come back, while another client goes on calling the API."""
    others.begin()
    await asyncio.sleep(NORMAL_S)
    normal = await asyncio.to_thread(others.end)
    apart = servers.agents.name != "serve"
    if apart:
        others.begin()
    began = time.monotonic()
    await asyncio.to_thread(servers.stop_agents)
    moment = await asyncio.to_thread(silence.now)
    await asyncio.to_thread(servers.start_agents)
    if not apart:
        others.begin()
    while await asyncio.to_thread(silence.since, moment):
        await asyncio.sleep(0.5)
    back = time.monotonic() - began
    found = await asyncio.to_thread(others.end)
    slower = percentile(found, 99) / percentile(normal, 99)
    line("from the order to restart, until the last is back", back, "s", GOAL_BACK_S)
    line("another client's call, p99", percentile(normal, 99), "ms")
    line("the same while agents come back", percentile(found, 99), "ms")
    line("the same, times its normal p99", slower, "x", GOAL_OTHERS)
    return (back > GOAL_BACK_S) + (slower > GOAL_OTHERS)


def used(pid: int) -> float:
    """Seconds of CPU of a process and its children, as far as they run."""
    ticks = os.sysconf("SC_CLK_TCK")
    return sum(
        sum(map(int, Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()[11:13])) / ticks
        for one in family(pid)
    )


def memory(pid: int) -> float:
    """RSS of a process and its children, in MB."""
    return sum(
        int(row.split()[1]) / 1024
        for one in family(pid)
        for row in Path(f"/proc/{one}/status").read_text().splitlines()
        if row.startswith("VmRSS:")
    )


def family(pid: int) -> list[int]:
    """A process and all below it."""
    children = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [pid, *(below for child in children for below in family(child))]


def percentile(values: list[float], percent: int) -> float:
    """By the nearest rank."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def line(what: str, value: float, unit: str, goal: float | None = None) -> None:
    """One row of the table."""
    verdict = "" if goal is None else f"   goal <= {goal:g}: {'met' if value <= goal else 'MISSED'}"
    print(f"{what:52} {value:8.1f} {unit:3}{verdict}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
