"""What `bench.api` measures with: batches of requests, and one of the servers that are compared with the figures found for it."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from bench.api_cloud import Provider
from bench.api_load import Outcome, Request, drive
from bench.api_server import cpu_below

ARQS = "/v2/accelerator_requests"


class Measured(Protocol):
    """A server that runs."""

    @property
    def port(self) -> int:
        """Where it answers."""

    def cpu(self) -> float:
        """Seconds of CPU it has used."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Requests of one operation, sent by so many clients at once. The first of each kind warms up and is not counted."""

    operation: str
    clients: int
    requests: list[Request]
    counted: bool


@dataclass(slots=True)
class Side:
    """One of the servers compared: where it is, and the database behind it that has CPU of its own."""

    name: str
    server: Measured
    database_pid: int | None = None
    figures: dict[tuple[str, int], list[tuple[Outcome, float]]] = field(default_factory=dict)

    def run(self, batch: Batch, requests: Sequence[Request]) -> None:
        """Send them, and keep what came of it with the CPU that each took here."""
        before = self._cpu()
        outcome = drive(self.server.port, batch.clients, requests)
        if outcome.refused:
            raise SystemExit(f"bench: {self.name} refused {outcome.refused} of {len(requests)} {batch.operation}s")
        used = (self._cpu() - before) / len(requests)
        if batch.counted:
            self.figures.setdefault((batch.operation, batch.clients), []).append((outcome, used))

    def _cpu(self) -> float:
        return self.server.cpu() + (0.0 if self.database_pid is None else cpu_below(self.database_pid))

    def rates(self, operation: str, clients: int) -> list[float]:
        """Requests per second, by round."""
        return [outcome.rate for outcome, _ in self.figures[operation, clients]]

    def cpu(self, operation: str, clients: int) -> list[float]:
        """Seconds of CPU per request, by round."""
        return [used for _, used in self.figures[operation, clients]]


def binding(uuid: str, target: Provider, instance: str) -> bytes:
    """The body of a bind, as Nova sends it."""
    values = {"hostname": target.hostname, "device_rp_uuid": target.rp_uuid, "instance_uuid": instance}
    return encoded({uuid: [{"path": f"/{name}", "op": "add", "value": value} for name, value in values.items()]})


def unbinding(uuid: str) -> bytes:
    """The body of an unbind, as Nova sends it."""
    return encoded(
        {uuid: [{"path": f"/{name}", "op": "remove"} for name in ("hostname", "device_rp_uuid", "instance_uuid")]}
    )


def encoded(body: object) -> bytes:
    """JSON."""
    return json.dumps(body).encode()


def middle(values: Sequence[float]) -> float:
    """The median."""
    return statistics.median(values)


def ratio(ones: Sequence[float], others: Sequence[float]) -> float:
    """The median of the rounds' ratios: what slows a whole round is not in it."""
    return middle([one / other for one, other in zip(ones, others, strict=True)])
