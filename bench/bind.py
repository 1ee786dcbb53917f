"""From PATCH to Bound, as the client that waits sees it: one host with a whole agent on a simulated kernel, and 200 hosts.

SQLite: API, keeper and agent in one process, as ``cantle serve`` has them. PostgreSQL, MariaDB: clients' API, agents' API, keeper and
agent, each a process of its own. The 200 hosts are light: they speak the real protocol over the real client, and answer at once.

The client sends the PATCH and then asks for the ARQ, every 2 ms (each of 16 every 20 ms), until it is Bound; what its asking costs is
in the CPU. Unbinding and giving back happen between the rounds and are not counted. The floor (`bench.bind_floor`) is measured in turn
with the one host. Both write to a simulated kernel in memory, where a real one's files are; databases and the agent's own files are on
the disk.

``python -m bench.bind [--database sqlite|postgresql|mariadb] [--rounds N]``
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bench import bind_floor, bind_parts
from bench.api_cloud import CARDS, CLASS, UNITS, Provider, build
from bench.api_load import Connection, Request
from bench.api_server import Server, cpu_below, machine, running
from bench.api_side import ARQS, encoded
from bench.bind_client import CLIENTS, bind_all
from bench.databases import Maker, Sqlite, databases
from bench.kernel_place import kernel_place, told

from cantle.store.migrate import upgrade

ROUNDS = 6
HOSTS = 200
#: Binds of a round: as many as the one host has units; and with 16 clients.
ONE, MANY = bind_parts.UNITS, 96
#: Seconds that anything may take before we give up.
PATIENCE = 60.0

#: p50 and p99 (None: no goal) in ms at one client, binds per second at 16, CPU per bind in ms.
GOALS = {
    "sqlite": (10.0, 25.0, 100.0, 10.0),
    "postgresql": (18.0, 40.0, 150.0, 10.0),
    "mariadb": (40.0, None, 150.0, 10.0),
}


@dataclass(slots=True)
class Cantle:
    """One of the Cantles that are measured: its processes, and where clients call.

    :param database_pid: of the database's process, if it has one.
    """

    port: int
    processes: list[Server]
    database_pid: int | None
    providers: list[Provider] = field(default_factory=list)

    def cpu(self) -> float:
        """Seconds of CPU that all its processes have used."""
        below = 0.0 if self.database_pid is None else cpu_below(self.database_pid)
        return below + sum(process.cpu() for process in self.processes)

    def call(self, method: str, path: str, body: object = None) -> bytes:
        """One request that must succeed."""
        connection = Connection(self.port)
        status, answer = connection.call(Request(method, path, b"" if body is None else encoded(body)))
        connection.close()
        if not 200 <= status < 300:
            raise SystemExit(f"bench: {method} {path} was answered {status}: {answer.decode()}")
        return answer

    def capacity(self) -> list[dict[str, object]]:
        """What is offered, and how much of it is used."""
        found: list[dict[str, object]] = json.loads(self.call("GET", "/v1/capacity"))["capacity"]
        return [one for one in found if one["resource_class"] == CLASS]

    def prepare(self, deployables: int) -> None:
        """Wait until so many are offered, and make the profiles."""
        until(lambda: len(self.capacity()) == deployables)
        self.providers = [Provider(str(one["hostname"]), str(one["rp_uuid"])) for one in self.capacity()]
        for units in (ONE, MANY):
            groups = [{f"resources:{CLASS}": str(units)}]
            self.call("POST", "/v2/device_profiles", [{"name": f"units-{units}", "groups": groups}])

    def clear(self, uuids: Sequence[str]) -> None:
        """Delete the ARQs, and wait until the hosts have taken all back."""
        self.call("DELETE", f"{ARQS}?arqs={','.join(uuids)}")
        until(lambda: all(one["used"] == 0 for one in self.capacity()))


@dataclass(slots=True)
class Figures:
    """Of all rounds of one kind: seconds of each bind; of each round binds per second, and seconds of CPU per bind."""

    seconds: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


def main() -> int:
    """Measure, print, and return 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description="From PATCH to Bound: latency, rate, CPU.")
    parser.add_argument("--database", choices=tuple(GOALS), default="sqlite")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    one, floor, spread, crowd = Figures(), Figures(), Figures(), Figures()
    with databases(options.database) as maker, kernel_place() as kernel, ExitStack() as stack:
        bare = start_floor(stack, maker, options.rounds + 1, kernel / "floor")
        alone = start_cantle(stack, maker, 0, kernel / "cantle")
        cloud = start_cantle(stack, maker, HOSTS, kernel / "unused")
        alone.prepare(1)
        cloud.prepare(HOSTS)
        for number in range(options.rounds + 1):
            counted = number > 0  # the first round warms up
            bind_round(alone, one if counted else Figures(), clients=1, binds=ONE)
            floor_round(bare, floor if counted else Figures())
            bind_round(cloud, spread if counted else Figures(), clients=1, binds=ONE)
            bind_round(cloud, crowd if counted else Figures(), clients=CLIENTS, binds=MANY)
    print(
        f"{options.database}, {options.rounds} rounds; PATCH to Bound; simulated kernel in {told(kernel)}; {machine()}"
    )
    print(f"{'':44} {'p50 ms':>7} {'p99 ms':>7} {'binds/s':>8} {'CPU ms per bind':>16}")
    show("floor: the same commits and round trips", floor)
    show("one host, 1 client", one)
    show(f"{HOSTS} hosts, 1 client", spread)
    show(f"{HOSTS} hosts, {CLIENTS} clients", crowd)
    times = statistics.median(one.seconds) / statistics.median(floor.seconds)
    print(f"{'one host against the floor, medians':44} {times:7.2f}")
    return verdict(options.database, one, crowd)


def start_floor(stack: ExitStack, maker: Maker, rounds: int, kernel: Path) -> socket.socket:
    """A client of the floor."""
    binds = rounds * ONE
    cloud = build(maker.new(), hosts=-(-binds // (CARDS * UNITS)), work=binds, full=0)
    copied = maker.copy(cloud.url)
    scripts = bind_floor.recorded(cloud, binds)
    server = stack.enter_context(running(bind_floor.serve, copied, kernel, scripts))
    return bind_floor.connected(server.port)


def start_cantle(stack: ExitStack, maker: Maker, hosts: int, kernel: Path) -> Cantle:
    """A running one, with a whole agent on one host, or light ones on so many."""
    url = maker.new()
    upgrade(url)
    scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="cantle-bench-"))

    def start(part: Callable[..., None], *arguments: object) -> Server:
        return stack.enter_context(running(part, *arguments))

    if isinstance(maker, Sqlite):
        processes = [start(bind_parts.all_in_one, url, scratch, kernel, hosts)]
        public, inner = processes[0].told
    else:
        processes = [start(bind_parts.clients_api, url), start(bind_parts.agents_api, url, hosts)]
        public, inner = (process.port for process in processes)
        processes.append(start(bind_parts.keeper, url))
        if not hosts:
            processes.append(start(bind_parts.agent, inner, scratch, kernel))
    if hosts:
        processes.append(start(bind_parts.light_agents, inner, hosts))
    return Cantle(public, processes, maker.pid)


def bind_round(cantle: Cantle, figures: Figures, *, clients: int, binds: int) -> None:
    """Make ARQs, bind them, so many at a time, one host after the other; give all back."""
    made = json.loads(cantle.call("POST", ARQS, {"device_profile_name": f"units-{binds}"}))["arqs"]
    uuids = [arq["uuid"] for arq in made]
    targets = [cantle.providers[number % len(cantle.providers)] for number in range(binds)]
    before = cantle.cpu()
    seconds, latencies = bind_all(cantle.port, clients, list(zip(uuids, targets, strict=True)))
    figures.cpu.append((cantle.cpu() - before) / binds)
    figures.rates.append(binds / seconds)
    figures.seconds += latencies
    cantle.clear(uuids)


def floor_round(bare: socket.socket, figures: Figures) -> None:
    """As many binds at the floor."""
    began = time.perf_counter()
    for _ in range(ONE):
        started = time.perf_counter()
        bind_floor.bind_once(bare)
        figures.seconds.append(time.perf_counter() - started)
    figures.rates.append(ONE / (time.perf_counter() - began))


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that must come true."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit("bench: the hosts did not do what they should")
        time.sleep(0.02)


def percentile(values: Sequence[float], part: float) -> float:
    """The value that so many percent do not exceed."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part / 100))]


def show(what: str, figures: Figures) -> None:
    """A line."""
    p50, p99 = (1000 * percentile(figures.seconds, part) for part in (50, 99))
    cpu = f"{1000 * statistics.median(figures.cpu):16.2f}" if figures.cpu else f"{'':16}"
    print(f"{what:44} {p50:7.1f} {p99:7.1f} {statistics.median(figures.rates):8.0f} {cpu}")


def verdict(kind: str, one: Figures, crowd: Figures) -> int:
    """Print which goals are met; 1 when one is not."""
    most_p50, most_p99, least_rate, most_cpu = GOALS[kind]
    found = {
        f"one host, p50 <= {most_p50:.0f} ms": 1000 * percentile(one.seconds, 50) <= most_p50,
        f"{CLIENTS} clients, binds per second >= {least_rate:.0f}": statistics.median(crowd.rates) >= least_rate,
        f"{CLIENTS} clients, CPU per bind <= {most_cpu:.0f} ms": 1000 * statistics.median(crowd.cpu) <= most_cpu,
    }
    if most_p99 is not None:
        found[f"one host, p99 <= {most_p99:.0f} ms"] = 1000 * percentile(one.seconds, 99) <= most_p99
    for what, met in found.items():
        print(f"goal: {what}: {'met' if met else 'MISSED'}")
    return int(not all(found.values()))


if __name__ == "__main__":
    sys.exit(main())
