"""Across processes: two APIs, two keepers, an agents' listener and three hosts on PostgreSQL; each ended in turn under a load of binds.

Failures are counted as Nova's own client sees them. It sends the PATCH that binds once and never again; the other calls may be repeated.
How requests are spread is told in tests/real/front.py. Before an API is ended politely it is taken out of the front, as one takes a server
out of a load balancer: gunicorn closes its socket at SIGTERM, and connections that the kernel took meanwhile are lost with it.
"""

from __future__ import annotations

import http.client
import signal
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.real.installation import Installation, Refused
from tests.real.processes import wait_until

#: Who is ended, in this order.
VICTIMS = ("api-1", "api-2", "keeper-1", "keeper-2", "agents", "agent-1", "agent-2", "agent-3")

#: Binds that must be done between two ends.
BINDS = 6

ARQS = "/v2/accelerator_requests"


@pytest.fixture(scope="module")
def installation(directory: Path) -> Iterator[Installation]:
    """All of it, up."""
    made = Installation(directory / "end_to_end", 3)
    with made.front:
        try:
            made.start()
            made.caller.ask("POST", "/v2/device_profiles", [{"name": "slice", "groups": [{"resources:VGPU": "1"}]}])
            yield made
        finally:
            made.stop()


class Load:
    """One compute service a host, each in a thread: makes an instance with a slice of a card there, and deletes it, for ever."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._providers = {
            row["hostname"]: row["rp_uuid"] for row in installation.capacity() if row["resource_class"] == "VGPU"
        }
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=[host]) for host in installation.hosts]
        self.done: Counter[str] = Counter()
        self.failures: list[str] = []
        self.faults: list[BaseException] = []

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(120)
        assert not any(thread.is_alive() for thread in self._threads)

    def go_on(self) -> None:
        """Wait until each host has had a share of `BINDS` more binds."""
        before = Counter(self.done)
        each = -(-BINDS // len(self._threads))
        wait_until(
            "binds go on everywhere",
            lambda: bool(self.faults) or all(self.done[host] >= before[host] + each for host in self._providers),
            seconds=90,
        )
        assert self.faults == []

    def _work(self, host: str) -> None:
        try:
            while not self._stop.is_set():
                self._instance(host)
        except BaseException as fault:  # noqa: BLE001 - it is told by the thread that waits
            self.faults.append(fault)

    def _instance(self, host: str) -> None:
        caller, instance = self._installation.caller, str(uuid.uuid4())
        (arq,) = caller.ask("POST", ARQS, {"device_profile_name": "slice"})["arqs"]
        values = {"hostname": host, "device_rp_uuid": self._providers[host], "instance_uuid": instance}
        patch = [{"path": f"/{name}", "op": "add", "value": value} for name, value in values.items()]
        try:
            caller.once("PATCH", ARQS, {arq["uuid"]: patch})
            state = self._settled(arq["uuid"])
            if state != "Bound":
                self.failures.append(f"{arq['uuid']} on {host} ended {state}")
        except (OSError, http.client.HTTPException, Refused) as failure:
            self.failures.append(f"{arq['uuid']} on {host}: {failure!r}")
        # As Nova does when an instance goes, and when its build failed: whether the bind was done or not.
        caller.ask("DELETE", f"{ARQS}?instance={instance}")
        try:
            caller.ask("DELETE", f"{ARQS}?arqs={arq['uuid']}")
        except Refused as refused:
            assert refused.status == 404  # noqa: PT017 - it went with its instance
        self.done[host] += 1

    def _settled(self, arq: str) -> str:
        found: dict[str, Any] = {}

        def settled() -> bool:
            found.update(self._installation.caller.ask("GET", f"{ARQS}/{arq}"))
            return found["state"] in ("Bound", "BindFailed")

        wait_until(f"{arq} is settled", settled, seconds=90)
        return str(found["state"])


def all_is_free_again(installation: Installation) -> bool:
    """Nothing is lent, nothing is being taken back, every unit is there."""
    assert installation.caller.ask("GET", ARQS)["arqs"] == []
    return all(row["free"] == row["total"] > 0 and row["used"] == 0 for row in installation.capacity())


def test_no_bind_fails_while_each_part_is_ended_politely_in_turn(installation: Installation) -> None:
    with Load(installation) as load:
        for victim in VICTIMS:
            load.go_on()
            if victim.startswith("api"):
                installation.take_out(victim)
            installation.services[victim].stop(seconds=110)
            installation.start_one(victim)
            if victim.startswith("api"):
                installation.put_in(victim)
        load.go_on()
    assert load.faults == []
    assert load.failures == []
    wait_until("every unit is free again", lambda: all_is_free_again(installation), seconds=60)


def test_nothing_is_lost_while_each_part_is_killed_in_turn(installation: Installation) -> None:
    """Only a PATCH that an API was just answering may fail: at most one of each host for each API."""
    with Load(installation) as load:
        for victim in VICTIMS:
            load.go_on()
            installation.services[victim].stop(signal_number=signal.SIGKILL)
            if not victim.startswith("api"):
                load_failures = list(load.failures)
                installation.start_one(victim)
                load.go_on()
                assert load.failures == load_failures, f"{victim} is no API"
            else:
                load.go_on()  # the other one is there
                installation.start_one(victim)
        load.go_on()
    assert load.faults == []
    assert len(load.failures) <= 2 * len(installation.hosts), load.failures
    _delete_requests_nobody_heard_of(installation)
    wait_until("every unit is free again", lambda: all_is_free_again(installation), seconds=60)


def _delete_requests_nobody_heard_of(installation: Installation) -> None:
    """An API that was killed between making a request and saying so leaves one that its caller made again. Nova leaves such behind too;
    they hold nothing, and the keeper reaps them after a day."""
    left = installation.caller.ask("GET", ARQS)["arqs"]
    assert {(one["state"], one["hostname"], one["instance_uuid"]) for one in left} <= {("Initial", None, None)}
    assert len(left) <= 2 * len(installation.hosts), left
    for one in left:
        installation.caller.ask("DELETE", f"{ARQS}?arqs={one['uuid']}")
