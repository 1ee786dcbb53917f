"""What a call costs does not depend on the size of the cloud: the same statements, and few of them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from tests.databases import KINDS, database
from tests.unit.engine.cloud import ADMIN, NOVA_FOR_ADMIN, Host, bound, capacity_of, make_profile, t4

from cantle.engine import attribute, bind, capacity, deployable, device, intake, lease, profile, results, work
from cantle.engine import host as hosts
from cantle.engine.arq import create_arqs, delete_arqs, delete_arqs_of_instance, get_arq, list_arqs
from cantle.engine.explain import explain
from cantle.engine.pool import list_pools
from cantle.engine.room import list_room
from cantle.model.alias import NO_ALIASES
from cantle.model.arq import Arq
from cantle.model.device import DeviceStatus
from cantle.model.page import Page
from cantle.store import arq as arq_store
from cantle.store import profile as profile_store
from cantle.store.database import Database

SIZES = (10, 1000)
MOST = 5
#: Calls that send more: a lease is chosen (its profile with all kinds, hosts, what they offer), its project's quota is asked, it is locked,
#: written in three tables and in the audit log, and what the host has left is counted. A host's failures are written there too, and at
#: the card.
#: An explanation reads cards, those out of service, and three counts.
MORE = {"create lease": 10, "release lease": 7, "results: failed": 7, "explain": 6}


class World:
    """A cloud with so many hosts' worth of requests around the one that is measured."""

    def __init__(self, db: Database, size: int) -> None:
        self.db = db
        make_profile(db, "pair", [{"resources:VGPU": "2"}])
        for number in range(10 if size < 100 else 60):
            Host(db, f"other-{number}").report(t4(1, host=f"other-{number}"))
        self.host = Host(db)
        self.host.report(t4(64))
        (model, *_rest) = create_arqs(db, ADMIN, "pair")
        self._crowd(model, size)
        self.provider = capacity_of(db).rp_uuid

    def _crowd(self, model: Arq, size: int) -> None:
        with self.db.write() as connection:
            found = profile_store.by_name(connection, "pair")
            assert found is not None
            rows = [
                {
                    "uuid": str(uuid4()),
                    "state": model.state,
                    "profile_id": found.id,
                    "profile_name": "pair",
                    "group_id": 0,
                    "resource_class": "VGPU",
                    "required": (),
                    "forbidden": (),
                    "project_id": ADMIN.project_id,
                    "created_at": dt.datetime.now(dt.UTC),
                }
                for _ in range(size)
            ]
            arq_store.add(connection, rows)

    def pair(self) -> list[Arq]:
        """Two new requests."""
        return create_arqs(self.db, ADMIN, "pair")

    def started(self) -> list[Arq]:
        """Two requests that are being bound for one instance."""
        arqs, instance = self.pair(), str(uuid4())
        bind.bind(self.db, NOVA_FOR_ADMIN, self.binds(arqs, instance))
        return list_arqs(self.db, NOVA_FOR_ADMIN, instance=instance)

    def bound(self) -> list[Arq]:
        """Two requests that are bound for one instance."""
        return bound(self.db, self.host, NOVA_FOR_ADMIN, "pair")

    def binds(self, arqs: list[Arq], instance: str) -> list[bind.Bind]:
        """Their binds to the host."""
        return [bind.Bind(arq.uuid, "compute-1", self.provider, instance) for arq in arqs]

    def leased(self) -> str:
        """An active lease."""
        made = lease.create_lease(self.db, ADMIN, profile_name="pair", hostname="compute-1")
        self.host.obey()
        return made.uuid


Prepared = Callable[[], object]


def _bind(world: World) -> Prepared:
    binds = world.binds(world.pair(), str(uuid4()))
    return lambda: bind.bind(world.db, NOVA_FOR_ADMIN, binds)


def _unbind(world: World) -> Prepared:
    unbinds = [bind.Unbind(arq.uuid) for arq in world.bound()]
    return lambda: bind.unbind(world.db, NOVA_FOR_ADMIN, unbinds)


def _delete(world: World) -> Prepared:
    uuids = [arq.uuid for arq in world.bound()]
    return lambda: delete_arqs(world.db, NOVA_FOR_ADMIN, uuids)


def _delete_of_instance(world: World) -> Prepared:
    instance = str(world.bound()[0].instance_uuid)
    return lambda: delete_arqs_of_instance(world.db, NOVA_FOR_ADMIN, instance)


def _results(world: World, refusing: str | None = None) -> Prepared:
    world.started()
    if refusing is not None:
        world.host.refusing["*"] = refusing
    message = world.host.results(work.current_work(world.db, "compute-1"))
    return lambda: results.accept_results(world.db, "compute-1", message)


def _absent(world: World) -> Prepared:
    unbinds = [bind.Unbind(arq.uuid) for arq in world.bound()]
    bind.unbind(world.db, NOVA_FOR_ADMIN, unbinds)
    message = world.host.results(work.current_work(world.db, "compute-1"))
    return lambda: results.accept_results(world.db, "compute-1", message)


def _release(world: World) -> Prepared:
    uuid = world.leased()
    return lambda: lease.release_lease(world.db, ADMIN, uuid)


def _get_lease(world: World) -> Prepared:
    uuid = world.leased()
    return lambda: lease.get_lease(world.db, ADMIN, uuid)


def _list_leases(world: World) -> Prepared:
    world.leased()
    return lambda: lease.list_leases(world.db, ADMIN)


def _list_of_instance(world: World) -> Prepared:
    instance = str(world.bound()[0].instance_uuid)
    return lambda: list_arqs(world.db, NOVA_FOR_ADMIN, instance=instance, resolved=True)


def _get_arq(world: World) -> Prepared:
    uuid = world.bound()[0].uuid
    return lambda: get_arq(world.db, ADMIN, uuid)


def _page_of_arqs(world: World) -> Prepared:
    marker = world.pair()[0].uuid
    return lambda: list_arqs(world.db, ADMIN, page=Page(limit=5, marker=marker))


def _delete_profile(world: World) -> Prepared:
    make_profile(world.db, "gone")
    return lambda: profile.delete_profiles(world.db, ADMIN, ["gone"])


def _set_status(world: World) -> Prepared:
    (found,) = device.list_devices(world.db, hostname="compute-1")
    return lambda: device.set_status(world.db, ADMIN, found.uuid, DeviceStatus.MAINTAINING)


def _get_device(world: World) -> Prepared:
    (found,) = device.list_devices(world.db, hostname="compute-1")
    return lambda: device.get_device(world.db, found.uuid)


def _get_deployable(world: World) -> Prepared:
    uuid = capacity_of(world.db).deployable_uuid
    return lambda: deployable.get_deployable(world.db, uuid)


def _create_attribute(world: World) -> Prepared:
    number = deployable.get_deployable(world.db, capacity_of(world.db).deployable_uuid).id
    return lambda: attribute.create_attribute(world.db, ADMIN, deployable_id=number, key="rack", value="r7")


def _delete_attribute(world: World) -> Prepared:
    number = deployable.get_deployable(world.db, capacity_of(world.db).deployable_uuid).id
    made = attribute.create_attribute(world.db, ADMIN, deployable_id=number, key="row", value="r7")
    return lambda: attribute.delete_attribute(world.db, ADMIN, made.uuid)


CALLS: dict[str, Callable[[World], Prepared]] = {
    "create profile": lambda world: lambda: make_profile(world.db, "new"),
    "get profile": lambda world: lambda: profile.get_profile(world.db, "pair"),
    "list profiles": lambda world: lambda: profile.list_profiles(world.db, names=["pair"]),
    "delete profile": _delete_profile,
    "list devices": lambda world: lambda: device.list_devices(world.db),
    "get device": _get_device,
    "set status": _set_status,
    "list deployables": lambda world: lambda: deployable.list_deployables(world.db),
    "get deployable": _get_deployable,
    "list attributes": lambda world: lambda: attribute.list_attributes(world.db),
    "create attribute": _create_attribute,
    "delete attribute": _delete_attribute,
    "list hosts": lambda world: lambda: hosts.list_hosts(world.db),
    "list capacity": lambda world: lambda: capacity.list_capacity(world.db),
    "create ARQs": lambda world: lambda: create_arqs(world.db, ADMIN, "pair"),
    "list ARQs": lambda world: lambda: list_arqs(world.db, ADMIN),
    "list ARQs of an instance": _list_of_instance,
    "a page of ARQs": _page_of_arqs,
    "get ARQ": _get_arq,
    "bind": _bind,
    "unbind": _unbind,
    "delete ARQs": _delete,
    "delete ARQs of an instance": _delete_of_instance,
    "create lease": lambda world: lambda: lease.create_lease(world.db, ADMIN, profile_name="pair"),
    "get lease": _get_lease,
    "list leases": _list_leases,
    "explain": lambda world: lambda: explain(world.db, name="pair"),
    "how many more": lambda world: lambda: list_room(world.db, aliases=NO_ALIASES),
    "list pools": lambda world: lambda: list_pools(world.db),
    "release lease": _release,
    "work": lambda world: lambda: work.current_work(world.db, "compute-1"),
    "results: ready": _results,
    "results: failed": lambda world: _results(world, "mdev-no-space"),
    "results: absent": _absent,
    "a report that is known": lambda world: lambda: intake.accept_report(world.db, "compute-1", world.host.message()),
}


@pytest.fixture(scope="module", params=KINDS)
def counts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, int]]:
    """Statements by size of the cloud and call."""
    found: dict[int, dict[str, int]] = {}
    for size in SIZES:
        directory: Path = tmp_path_factory.mktemp(f"{request.param}-{size}")
        with database(request.param, directory) as db:
            world = World(db, size)
            found[size] = {}
            for name, prepare in CALLS.items():
                call = prepare(world)
                with db.statements() as sent:
                    call()
                found[size][name] = len(sent)
                world.host.refusing.clear()
                for opened in device.list_devices(db, hostname="compute-1"):
                    device.set_status(db, ADMIN, opened.uuid, DeviceStatus.ENABLED)
    return found


@pytest.mark.parametrize("name", CALLS)
def test_a_call_sends_few_statements_and_as_many_in_a_large_cloud(counts: dict[int, dict[str, int]], name: str) -> None:
    small, large = (counts[size][name] for size in SIZES)
    assert small == large
    assert 1 <= small <= MORE.get(name, MOST)
