"""What Nova would ask the real Placement for the same fleet: candidates for one whole card, and the allocation of one of them.

Placement runs in a process of its own, on SQLite, with one thread (as in `bench.placement`). Its tables are filled directly; the questions
go over HTTP as Nova's do.
"""

from __future__ import annotations

import multiprocessing
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any
from uuid import uuid4

import requests
from bench.choosing_fleet import CARDS
from bench.placement import Service
from tests.placement_service import placement

TRAIT = "CUSTOM_NVIDIA_20B0"
#: Nova's ``[scheduler] max_placement_results``.
LIMIT = 1000
ROUNDS = 5


def beside(size: int) -> str:
    """Median times in ms of the candidates and of the allocation, and how many candidates there were, in words."""
    candidates: list[float] = []
    allocations: list[float] = []
    count = 0
    with _service(size) as there, suppress(requests.exceptions.Timeout):
        for _ in range(ROUNDS):
            began = time.perf_counter()
            found = there.call("GET", f"/allocation_candidates?resources=PGPU:1&required={TRAIT}&limit={LIMIT}")
            candidates.append((time.perf_counter() - began) * 1000)
            count = len(found["allocation_requests"])
            body = {
                "allocations": found["allocation_requests"][0]["allocations"],
                "project_id": str(uuid4()),
                "user_id": str(uuid4()),
                "consumer_generation": None,
                "consumer_type": "INSTANCE",
            }
            began = time.perf_counter()
            there.call("PUT", f"/allocations/{uuid4()}", body)
            allocations.append((time.perf_counter() - began) * 1000)
    if not allocations:
        return "candidates given up: they take longer than anybody waits"
    asked, taken = statistics.median(candidates), statistics.median(allocations)
    return f"candidates {asked:.0f} ms ({count}), allocation {taken:.0f} ms"


@contextmanager
def _service(size: int) -> Iterator[Service]:
    here, there = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_serve, args=(there, size), daemon=True)
    process.start()
    try:
        yield Service(here.recv())
    finally:
        process.terminate()
        process.join()


def _serve(parent: Connection, size: int) -> None:
    with placement() as made, made.listening() as url:
        Service(url).call("PUT", f"/traits/{TRAIT}")
        _fill(size)
        parent.send(url)
        threading.Event().wait()


def _fill(size: int) -> None:
    """A root for each host, and a provider of one PGPU for each of its cards; every second host's cards have the trait."""
    from placement.db_api import get_placement_engine  # noqa: PLC0415 - made by the service above
    from sqlalchemy import text  # noqa: PLC0415

    providers: list[dict[str, Any]] = []
    inventories: list[dict[str, Any]] = []
    traits: list[dict[str, Any]] = []
    with get_placement_engine().begin() as connection:
        resource_class = connection.execute(text("SELECT id FROM resource_classes WHERE name = 'PGPU'")).scalar()
        trait = connection.execute(text("SELECT id FROM traits WHERE name = :name"), {"name": TRAIT}).scalar()
        number = 1000
        for host in range(size):
            number += 1
            root = number
            providers.append({"id": root, "uuid": str(uuid4()), "name": f"host-{host}", "root": root, "parent": None})
            for card in range(CARDS):
                number += 1
                name = f"host-{host}_{card}"
                providers.append({"id": number, "uuid": str(uuid4()), "name": name, "root": root, "parent": root})
                inventories.append({"provider": number, "class": resource_class})
                if host % 2 == 0:
                    traits.append({"provider": number, "trait": trait})
        connection.execute(
            text(
                "INSERT INTO resource_providers (id, uuid, name, generation, root_provider_id, parent_provider_id) "
                "VALUES (:id, :uuid, :name, 0, :root, :parent)"
            ),
            providers,
        )
        connection.execute(
            text(
                "INSERT INTO inventories (resource_provider_id, resource_class_id, total, reserved, min_unit, max_unit, step_size, "
                "allocation_ratio) VALUES (:provider, :class, 1, 0, 1, 1, 1, 1.0)"
            ),
            inventories,
        )
        connection.execute(
            text("INSERT INTO resource_provider_traits (resource_provider_id, trait_id) VALUES (:provider, :trait)"),
            traits,
        )
