"""What publishing costs, against the real Placement: first publication, nothing to do, a look, one card's change; and Placement's search
for eight identical cards, pooled and not.

Placement runs in a process of its own, on SQLite with one thread, behind a plain HTTP server without kept connections: its part of the
time is an upper bound. Requests are counted where Placement gets them. Memory is of the process that publishes, with the database and
the filling of it; what the publishing added is shown beside.

Looks at trees are put off while nothing is to be done, for a first publication of 1,000 hosts takes about as long as the time between two.

``python -m bench.placement [--hosts N]``: 20 hosts of 8 cards of 16 units unless said; 1,000 take some minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import requests
from keystoneauth1 import adapter, noauth, session
from sqlalchemy import update
from tests.placement_service import placement
from tests.unit.engine.cloud import ADMIN, Host, t4, whole

from cantle.engine.capacity import list_capacity
from cantle.engine.device import list_devices, set_status
from cantle.keeper.placement import Publisher
from cantle.keeper.placement_host import Settings
from cantle.model.device import DeviceStatus
from cantle.placement.client import PlacementClient
from cantle.store import publication
from cantle.store.database import Database
from cantle.store.migrate import upgrade
from cantle.store.provider_tables import placement_hosts
from cantle.store.tables import hosts
from cantle.store.types import database_now

CARDS = 8
UNITS = 16
#: Hosts for the search.
SEARCHED = 100
#: Seconds an eight-card search may take over them, with pools.
GOAL_SEARCH_S = 0.2
#: Requests that one card's change may take.
GOAL_CHANGE = 4
#: Seconds after which a search is given up.
PATIENCE_S = 20.0
#: What a search without pools is capped at: Placement's own default is no cap.
CAP = 1000


class Service:
    """A Placement in a process of its own."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = requests.Session()

    def client(self) -> PlacementClient:
        """Ours for it."""
        made = session.Session(auth=noauth.NoAuth(endpoint=self.url))
        return PlacementClient(adapter.Adapter(made, service_type="placement", endpoint_override=self.url))

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Ask it something; the JSON of the answer."""
        headers = {"OpenStack-API-Version": "placement 1.39", "X-Auth-Token": "admin"}
        answer = self._http.request(method, self.url + path, json=body, headers=headers, timeout=PATIENCE_S)
        answer.raise_for_status()
        return answer.json() if answer.content else None


@contextmanager
def service(**options: int) -> Iterator[Service]:
    """A Placement with nothing in it; whatever it is doing at the end is broken off."""
    here, there = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_serve, args=(there, options), daemon=True)
    process.start()
    try:
        yield Service(here.recv())
    finally:
        process.terminate()
        process.join()


def _serve(parent: Connection, options: dict[str, int]) -> None:
    with placement(**options) as made, made.listening() as url:
        parent.send(url)
        threading.Event().wait()


def main() -> int:
    """Measure, print, and return 1 when a goal is missed."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--hosts", type=int, default=20)
    missed = publishing(reader.parse_args().hosts)
    return int(searching() or missed)


def publishing(count: int) -> bool:
    """Publish that many hosts; whether a goal was missed."""
    print(f"{count} hosts x {CARDS} cards x {UNITS} units")
    with service() as there, tempfile.TemporaryDirectory() as directory:
        url = f"sqlite:///{Path(directory) / 'cantle.db'}"
        upgrade(url)
        db = Database.open(url)
        for number in range(count):
            name = f"compute-{number}"
            there.call("POST", "/resource_providers", {"name": name, "uuid": str(uuid4())})
            Host(db, name).report(*(t4(UNITS, host=name, address=f"0000:{card + 1:02x}:00.0") for card in range(CARDS)))
        first_host = Host(db, "compute-0")
        stay_up(db)
        client = there.client()
        keeper = Publisher(db, client, Settings(), stop=threading.Event(), patient=False)
        before = memory()
        first = timed("first publication", client, lambda: rounds(keeper))
        print(f"{'  of which a host':44} {first / count:8.1f} requests")
        no_looks(db)
        idle = max(timed("a round with nothing to do", client, keeper.round) for _ in range(3))
        timed("a look at every host's tree", client, lambda: look(db, keeper, count))
        no_looks(db)
        change = changes(db, there, client, keeper, first_host)
        print(f"{'memory of the keeper, added by publishing':44} {memory():8.1f} MB, {memory() - before:.1f} MB")
        db.close()
    print(f"goal: nothing to do = 0 requests: {'met' if idle == 0 else 'MISSED'}")
    print(f"goal: one card's change <= {GOAL_CHANGE} requests: {'met' if change <= GOAL_CHANGE else 'MISSED'}")
    return idle > 0 or change > GOAL_CHANGE


def changes(db: Database, there: Service, client: PlacementClient, keeper: Publisher, host: Host) -> int:
    """Changes of one card, as they come and after an instance came and went meanwhile; the most requests that one took, save those of the
    last, for which six are promised."""
    device = next(one for one in list_devices(db) if (one.hostname, one.address) == (host.name, "0000:01:00.0"))
    places = {(one.hostname, one.device_address): one.rp_uuid for one in list_capacity(db)}
    provider = places[device.hostname, device.address]
    most = 0
    for meanwhile in ("", ", after a boot"):
        for status, words in ((DeviceStatus.MAINTAINING, "into maintenance"), (DeviceStatus.ENABLED, "out of it")):
            boot(there, provider, bool(meanwhile))
            set_status(db, ADMIN, device.uuid, status)
            most = max(most, timed(f"one card {words}{meanwhile}", client, keeper.round))
    for number, meanwhile in enumerate(("", ", after a boot")):
        there.call("PUT", f"/traits/CUSTOM_TYPE_{number}")
        boot(there, provider, bool(meanwhile))
        traits = ("OWNER_CYBORG", f"CUSTOM_TYPE_{number}")
        cards = [t4(UNITS, host=host.name, address=f"0000:{card + 1:02x}:00.0") for card in range(CARDS)]
        offered = msgspec.structs.replace(
            cards[0].deployables[0], traits=traits, handles=cards[0].deployables[0].handles[number + 1 :]
        )
        cards[0] = msgspec.structs.replace(cards[0], deployables=(offered,))
        host.report(*cards)
        sent = timed(f"one card of another type and size{meanwhile}", client, keeper.round)
        most = most if meanwhile else max(most, sent)
    return most


def boot(there: Service, provider: str, wanted: bool) -> None:
    """An instance takes a unit and ends: what the keeper remembers of the provider is out of date."""
    if wanted:
        instance = str(uuid4())
        body = {
            "allocations": {provider: {"resources": {"VGPU": 1}}},
            **{"project_id": "p", "user_id": "u", "consumer_generation": None, "consumer_type": "INSTANCE"},
        }
        with contextlib.suppress(requests.HTTPError):  # not while it is in maintenance
            there.call("PUT", f"/allocations/{instance}", body)
            there.call("DELETE", f"/allocations/{instance}")


def no_looks(db: Database) -> None:
    """Nothing is due for a while."""
    with db.write() as connection:
        connection.execute(update(placement_hosts).values(due_at=database_now(600), looked_at=database_now()))


def rounds(keeper: Publisher) -> None:
    """Rounds until nothing is due, as a keeper does them."""
    while keeper.round():
        pass


def stay_up(db: Database) -> None:
    """No host falls silent while we measure."""
    with db.write() as connection:
        connection.execute(update(hosts).values(last_seen=database_now(86400)))


def look(db: Database, keeper: Publisher, count: int) -> None:
    """What happens every ten minutes."""
    with db.read() as connection:
        rows, _left = publication.surveyed(connection)
    for row, stamp in rows[:count]:
        keeper.publish(row.id, row.hostname, stamp, look=True)


def searching() -> bool:
    """Search for eight identical cards of one host, over hosts with a pool each, and on one host without."""
    print(f"\nsearch for {CARDS} identical cards of one host")
    words = "required=OWNER_CYBORG&limit=1000"
    with service() as there:
        fill(there, SEARCHED, pooled=True)
        pool, found = search(there, f"resources=PGPU:{CARDS}&{words}")
        print(f"{f'{SEARCHED} hosts, pooled: one group of {CARDS}':44} {pool:8.3f} s, {found} candidates")
    groups = "&".join(f"resources_{n}=PGPU:1&required_{n}=OWNER_CYBORG" for n in range(CARDS))
    query = f"{groups}&group_policy=none&limit=1000"
    for options, name in (({"max_allocation_candidates": CAP}, f"capped at {CAP}"), ({}, "as it comes")):
        with service(**options) as there:
            fill(there, 1, pooled=False)
            seconds, found = search(there, query)
            words = (
                f"{seconds:8.1f} s, {found} candidates" if found is not None else f"given up after {PATIENCE_S:.0f} s"
            )
            print(f"{f'1 host, {CARDS} providers, {CARDS} groups, {name}':44} {words}")
    print(f"goal: pooled <= {GOAL_SEARCH_S} s: {'met' if pool <= GOAL_SEARCH_S else 'MISSED'}")
    return pool > GOAL_SEARCH_S


def fill(there: Service, count: int, *, pooled: bool) -> None:
    """Publish hosts with eight identical whole cards."""
    with tempfile.TemporaryDirectory() as directory:
        url = f"sqlite:///{Path(directory) / 'cantle.db'}"
        upgrade(url)
        db = Database.open(url)
        for number in range(count):
            name = f"compute-{number}"
            there.call("POST", "/resource_providers", {"name": name, "uuid": str(uuid4())})
            cards = (whole(host=name, address=f"0000:{card + 1:02x}:00.0") for card in range(CARDS))
            Host(db, name).report(*(msgspec.structs.replace(card, numa_node=0) for card in cards))
        settings = Settings(pool_identical=pooled)
        publisher = Publisher(db, there.client(), settings, stop=threading.Event(), patient=False)
        rounds(publisher)
        db.close()


def search(there: Service, query: str) -> tuple[float, int | None]:
    """The best of three searches in seconds and how many candidates it found; None when it was given up."""
    best, found = PATIENCE_S, None
    for _ in range(3):
        began = time.perf_counter()
        try:
            found = len(there.call("GET", f"/allocation_candidates?{query}")["allocation_requests"])
        except requests.Timeout:
            return PATIENCE_S, None
        best = min(best, time.perf_counter() - began)
        if best > 1:
            break
    return best, found


def timed(what: str, client: PlacementClient, work: Callable[[], object]) -> int:
    """Do it; print and return the requests it took."""
    before, began = client.requests, time.perf_counter()
    work()
    sent = client.requests - before
    print(f"{what:44} {sent:8} requests {time.perf_counter() - began:8.2f} s")
    return sent


def memory() -> float:
    """The most this process had so far, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    sys.exit(main())
