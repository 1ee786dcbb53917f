"""openstack-cyborg 17 beside Cantle, as `bench.api --peer` shows it: the same requests, the same MariaDB, measured in the same run.

Its fake driver has 16 units on one host, so its batches have 16 requests. It never has more ARQs than these, which is kind to it: the
cost of its binds and lists grows with the ARQs of the project.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

from bench.api_cloud import PROFILE, Provider
from bench.api_load import Connection, Request
from bench.api_side import ARQS, Batch, Side, binding, encoded, middle, unbinding
from bench.peer import CLASS, HEADERS, HOST, TRAIT, UNITS, Peer

#: Binds per second by clients: how many times the peer's that we want to be.
GOALS = {1: 12, 16: 20}

_HEAD = "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items())


def measure_peer(peer: Peer, clients: Sequence[int], rounds: int) -> Side:
    """Its figures. The first round warms up and is not counted."""
    side = Side("openstack-cyborg 17", peer)
    groups = [{f"resources:{CLASS}": "1", f"trait:{TRAIT}": "required"}]
    _call(peer, "POST", "/v2/device_profiles", [{"name": PROFILE, "groups": groups}])
    for number in range(rounds):
        for many in clients:
            _life(side, peer, many, counted=number > 0)
    return side


def _life(side: Side, peer: Peer, clients: int, *, counted: bool) -> None:
    """A batch of ARQs is made, bound, looked at, unbound and deleted."""

    def run(operation: str, ask: Callable[[str], tuple[str, str, bytes]], things: Sequence[str]) -> None:
        requests = [Request(*ask(thing), head=_HEAD) for thing in things]
        side.run(Batch(operation, clients, requests, counted), requests)

    run("create", lambda _: ("POST", ARQS, encoded({"device_profile_name": PROFILE})), [""] * UNITS)
    uuids = [arq["uuid"] for arq in _call(peer, "GET", ARQS)["arqs"]]
    instances = {uuid: str(uuid4()) for uuid in uuids}
    target = Provider(HOST, peer.rp_uuid)
    run("bind", lambda uuid: ("PATCH", ARQS, binding(uuid, target, instances[uuid])), uuids)
    run("get", lambda uuid: ("GET", f"{ARQS}/{uuid}", b""), uuids)
    run("list", lambda uuid: ("GET", f"{ARQS}?instance={instances[uuid]}&bind_state=resolved", b""), uuids)
    run("unbind", lambda uuid: ("PATCH", ARQS, unbinding(uuid)), uuids)
    run("delete", lambda uuid: ("DELETE", f"{ARQS}?arqs={uuid}", b""), uuids)


def _call(peer: Peer, method: str, path: str, body: object = None) -> Any:
    connection = Connection(peer.port)
    status, answer = connection.call(Request(method, path, b"" if body is None else encoded(body), head=_HEAD))
    connection.close()
    if not 200 <= status < 300:
        raise SystemExit(f"bench: the peer answered {method} {path} with {status}: {answer.decode()}")
    return json.loads(answer or b"null")


def show_peer(cantle: Side, peer: Side) -> int:
    """Both, and how many goals are missed."""
    print(f"\n{'':18}{'requests per second':^26}{'CPU per request, all processes, ms':^36}")
    print(
        f"{'operation':9} {'clients':>7} {'Cyborg':>8} {'Cantle':>8} {'times':>7} {'Cyborg':>10} {'Cantle':>10} {'times':>10}"
    )
    for operation, clients in peer.figures:
        rates = [middle(side.rates(operation, clients)) for side in (peer, cantle)]
        cpus = [1000 * middle(side.cpu(operation, clients)) for side in (peer, cantle)]
        print(
            f"{operation:9} {clients:7} {rates[0]:8.1f} {rates[1]:8.0f} {rates[1] / rates[0]:7.0f}"
            f" {cpus[0]:10.1f} {cpus[1]:10.2f} {cpus[0] / cpus[1]:10.0f}"
        )
    missed = 0
    for clients, least in GOALS.items():
        times = middle(cantle.rates("bind", clients)) / middle(peer.rates("bind", clients))
        met = times >= least
        missed += not met
        print(
            f"goal: binds at {clients} clients >= {least} times the peer's: {times:.0f} times: {'met' if met else 'MISSED'}"
        )
    return missed
