"""Clients that bind and wait: each sends its PATCH, then asks for the ARQ until that is Bound, and takes the next."""

from __future__ import annotations

import heapq
import json
import selectors
import time
from itertools import count

from bench.api_cloud import Provider
from bench.api_load import Connection, Request
from bench.api_side import ARQS, binding

from cantle.model.uuids import new

#: How many there are where there is more than one.
CLIENTS = 16
#: Seconds from an answer that said "not yet" to the next question, by clients: 16 that ask every 2 ms keep a server busy with nothing else.
PAUSE = {1: 0.002, CLIENTS: 0.02}


class Client:
    """One who binds an ARQ, and asks until it is Bound."""

    def __init__(self, port: int) -> None:
        self.connection = Connection(port)
        self._uuid = ""
        self._started = 0.0
        self.patched = False

    def begin(self, uuid: str, target: Provider) -> None:
        """Send the PATCH."""
        self._uuid, self.patched = uuid, False
        self._started = time.perf_counter()
        self._send(Request("PATCH", ARQS, binding(uuid, target, new())))

    def ask(self) -> None:
        """Send the GET."""
        self._send(Request("GET", f"{ARQS}/{self._uuid}"))

    def _send(self, request: Request) -> None:
        self.connection.send(request.encoded())

    def take(self, answer: tuple[int, bytes]) -> float | None:
        """What an answer means: how long the bind took, or None if that is not known yet."""
        status, body = answer
        if not 200 <= status < 300:
            raise SystemExit(f"bench: {status}: {body.decode()}")
        if not self.patched:
            self.patched = True
            return None
        state = json.loads(body)["state"]
        if state not in ("BindStarted", "Bound"):
            raise SystemExit(f"bench: {body.decode()}")
        return time.perf_counter() - self._started if state == "Bound" else None


def bind_all(port: int, clients: int, jobs: list[tuple[str, Provider]]) -> tuple[float, list[float]]:
    """Bind all, each client its next as soon as one is Bound. Seconds over all, and of each."""
    waiting = jobs[::-1]
    latencies: list[float] = []
    asking: list[tuple[float, int, Client]] = []
    order = count()
    with selectors.DefaultSelector() as selector:
        everybody = [Client(port) for _ in range(clients)]
        began = time.perf_counter()
        for client in everybody:
            client.begin(*waiting.pop())
            selector.register(client.connection.socket, selectors.EVENT_READ, client)
        while len(latencies) < len(jobs):
            pause = max(0.0, asking[0][0] - time.perf_counter()) if asking else None
            for key, _ in selector.select(pause):
                client = key.data
                first = not client.patched
                if (answer := client.connection.receive()) is None:
                    continue
                selector.unregister(client.connection.socket)
                took = client.take(answer)
                if took is None:
                    heapq.heappush(
                        asking, (time.perf_counter() + (0.0 if first else PAUSE[clients]), next(order), client)
                    )
                    continue
                latencies.append(took)
                if waiting:
                    client.begin(*waiting.pop())
                    selector.register(client.connection.socket, selectors.EVENT_READ, client)
            while asking and asking[0][0] <= time.perf_counter():
                client = heapq.heappop(asking)[2]
                client.ask()
                selector.register(client.connection.socket, selectors.EVENT_READ, client)
        seconds = time.perf_counter() - began
        for client in everybody:
            client.connection.close()
    return seconds, latencies
