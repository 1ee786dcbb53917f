"""Many at once: no unit is lent twice, and nobody is refused while one is free (promise 2)."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import select
from tests.databases import KINDS, database, server_url, sqlite_url
from tests.unit.engine.cloud import (
    ADMIN,
    ALICE,
    NOVA_FOR_ADMIN,
    NOVA_FOR_ALICE,
    Host,
    bound,
    capacity_of,
    make_profile,
    t4,
)

from cantle.engine.arq import create_arqs, delete_arqs_of_instance, get_arq, list_arqs
from cantle.engine.bind import Bind, Unbind, bind, unbind
from cantle.engine.lease import create_lease, release_lease
from cantle.engine.profile import create_profile, delete_profiles, list_profiles
from cantle.engine.work import current_work
from cantle.errors import BadRequest, CantleError, Conflict, NoCapacity, NotFound
from cantle.model.arq import ArqState
from cantle.store.database import Database
from cantle.store.tables import claims

RACERS = 16
UNITS = 8


@pytest.fixture(params=[*KINDS, "sqlite, two servers"])
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[Database]]:
    """Servers on one database, which know nothing of each other."""
    if request.param in ("postgresql", "mariadb"):
        with database(request.param, tmp_path) as first:
            second = Database.open(server_url(request.param))
            yield [first, second]
            second.close()
    else:
        url = sqlite_url(tmp_path)
        opened = [Database.open(url) for _ in range(2 if "two" in request.param else 1)]
        yield opened
        for db in opened:
            db.close()


Job = Callable[[], object]


def all_at_once(jobs: Sequence[Job]) -> list[object]:
    """What each job returned or raised; all begin together."""
    gate = threading.Barrier(len(jobs))

    def run(job: Job) -> object:
        gate.wait(30)
        try:
            return job()
        except CantleError as error:
            return error

    with ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(run, jobs))


def no_unit_twice(db: Database) -> int:
    """Claims there are; each has a unit of its own."""
    with db.read() as connection:
        units = connection.execute(select(claims.c.attach_handle_id)).scalars().all()
    assert len(set(units)) == len(units)
    return len(units)


def test_sixteen_binds_for_eight_units(servers: list[Database]) -> None:
    Host(servers[0]).report(t4(UNITS))
    make_profile(servers[0])
    provider = capacity_of(servers[0]).rp_uuid
    arqs = [create_arqs(servers[0], NOVA_FOR_ALICE, "vgpu")[0] for _ in range(RACERS)]

    def job(number: int) -> Job:
        one = Bind(arqs[number].uuid, "compute-1", provider, str(uuid4()))
        return partial(bind, servers[number % len(servers)], NOVA_FOR_ALICE, [one])

    ended = all_at_once([job(number) for number in range(RACERS)])
    assert Counter(type(one) for one in ended) == {type(None): UNITS, NoCapacity: RACERS - UNITS}
    assert no_unit_twice(servers[0]) == UNITS
    states = Counter(arq.state for arq in list_arqs(servers[0], ALICE))
    assert states == {ArqState.BIND_STARTED: UNITS, ArqState.INITIAL: RACERS - UNITS}


def test_sixteen_leases_for_eight_units_of_two_hosts(servers: list[Database]) -> None:
    for name in ("compute-1", "compute-2"):
        Host(servers[0], name).report(t4(UNITS // 2, host=name))
    make_profile(servers[0])
    ended = all_at_once(
        [partial(create_lease, servers[number % len(servers)], ALICE, profile_name="vgpu") for number in range(RACERS)]
    )
    refused = [one for one in ended if isinstance(one, CantleError)]
    assert len(refused) == RACERS - UNITS
    for one in refused:
        assert one.code == "no-capacity"
        assert "lent completely" in one.message
    assert no_unit_twice(servers[0]) == UNITS


def test_two_leases_for_the_last_unit(servers: list[Database]) -> None:
    Host(servers[0]).report(t4(1))
    make_profile(servers[0])
    ended = all_at_once(
        [partial(create_lease, server, ALICE, profile_name="vgpu") for server in (servers[0], servers[-1])]
    )
    assert sorted(isinstance(one, NoCapacity) for one in ended) == [False, True]
    assert no_unit_twice(servers[0]) == 1


def test_one_instance_bound_on_two_hosts_at_once_is_bound_on_one(servers: list[Database]) -> None:
    """Nova asked twice, and the hosts' locks are not the same."""
    for name in ("compute-1", "compute-2"):
        Host(servers[0], name).report(t4(UNITS, host=name))
    make_profile(servers[0])
    providers = {name: capacity_of(servers[0], name).rp_uuid for name in ("compute-1", "compute-2")}
    for _ in range(UNITS // 2):
        instance = str(uuid4())
        asked = [
            [Bind(create_arqs(servers[0], NOVA_FOR_ALICE, "vgpu")[0].uuid, name, rp, instance) for _ in range(2)]
            for name, rp in providers.items()
        ]
        ended = all_at_once(
            [
                partial(bind, server, NOVA_FOR_ALICE, binds)
                for server, binds in zip((servers[0], servers[-1]), asked, strict=True)
            ]
        )
        (late,) = [one for one in ended if one is not None]
        assert isinstance(late, CantleError)
        assert late.code == "instance-has-arqs"
        found = list_arqs(servers[0], NOVA_FOR_ALICE, instance=instance)
        assert len(found) == 2
        assert len({arq.hostname for arq in found}) == 1


def test_one_request_bound_for_two_instances_at_once(servers: list[Database]) -> None:
    Host(servers[0]).report(t4(UNITS))
    make_profile(servers[0])
    (arq,) = create_arqs(servers[0], NOVA_FOR_ALICE, "vgpu")
    provider = capacity_of(servers[0]).rp_uuid
    ended = all_at_once(
        [
            partial(bind, server, NOVA_FOR_ALICE, [Bind(arq.uuid, "compute-1", provider, str(uuid4()))])
            for server in servers * 2
        ]
    )
    losers = [one for one in ended if one is not None]
    assert len(losers) == len(ended) - 1
    assert {type(one) for one in losers} == {Conflict}
    assert no_unit_twice(servers[0]) == 1


def test_two_sets_of_requests_for_one_instance_at_once(servers: list[Database]) -> None:
    Host(servers[0]).report(t4(UNITS))
    make_profile(servers[0])
    provider, instance = capacity_of(servers[0]).rp_uuid, str(uuid4())
    arqs = [create_arqs(servers[0], NOVA_FOR_ALICE, "vgpu")[0] for _ in range(4)]
    ended = all_at_once(
        [
            partial(
                bind,
                servers[number % len(servers)],
                NOVA_FOR_ALICE,
                [Bind(arqs[number].uuid, "compute-1", provider, instance)],
            )
            for number in range(4)
        ]
    )
    assert Counter(type(one) for one in ended) == {type(None): 1, BadRequest: 3}
    assert no_unit_twice(servers[0]) == 1


def test_the_host_says_ready_while_the_request_is_let_go(servers: list[Database]) -> None:
    """Whoever comes first, the unit is to be taken back and the request is not Bound."""
    host = Host(servers[0])
    host.report(t4(UNITS))
    make_profile(servers[0])
    provider = capacity_of(servers[0]).rp_uuid
    for _ in range(10):
        (arq,) = create_arqs(servers[0], NOVA_FOR_ALICE, "vgpu")
        bind(servers[0], NOVA_FOR_ALICE, [Bind(arq.uuid, "compute-1", provider, str(uuid4()))])
        work = current_work(servers[0], "compute-1")
        ended = all_at_once(
            [partial(host.obey, work), partial(unbind, servers[-1], NOVA_FOR_ALICE, [Unbind(arq.uuid)])]
        )
        assert not [one for one in ended if isinstance(one, CantleError)]
        assert get_arq(servers[0], ALICE, arq.uuid).state is ArqState.UNBOUND
        assert len(current_work(servers[0], "compute-1").unwanted) == 1
        host.obey()
        assert no_unit_twice(servers[0]) == 0


def test_one_instance_is_deleted_by_many_and_a_lease_released_by_many(servers: list[Database]) -> None:
    host = Host(servers[0])
    host.report(t4(UNITS))
    make_profile(servers[0])
    instance = str(uuid4())
    bound(servers[0], host, instance=instance)
    lease = create_lease(servers[0], ALICE, profile_name="vgpu")
    jobs: list[Job] = [partial(delete_arqs_of_instance, server, NOVA_FOR_ADMIN, instance) for server in servers * 2]
    jobs += [partial(release_lease, server, ALICE, lease.uuid) for server in servers * 2]
    ended = all_at_once(jobs)
    assert not [one for one in ended if isinstance(one, CantleError)]
    assert len(current_work(servers[0], "compute-1").unwanted) == 2


def test_many_make_and_delete_one_profile(servers: list[Database]) -> None:
    groups = [{"resources:VGPU": "1"}]
    made = all_at_once(
        [
            partial(create_profile, servers[number % len(servers)], ADMIN, name="gold", groups=groups)
            for number in range(8)
        ]
    )
    assert Counter(getattr(one, "code", "made") for one in made) == {"made": 1, "profile-name-taken": 7}
    assert len(list_profiles(servers[0])) == 1
    gone = all_at_once([partial(delete_profiles, server, ADMIN, ["gold"]) for server in servers * 4])
    assert {type(one) for one in gone} <= {type(None), NotFound}
    assert list_profiles(servers[0]) == []


def test_two_agents_of_a_new_host_report_at_once(servers: list[Database]) -> None:
    ended = all_at_once([partial(Host(server).report, t4(UNITS)) for server in servers * 2])
    assert not [one for one in ended if isinstance(one, CantleError) and one.code != "agent-fenced"]
    assert capacity_of(servers[0]).total == UNITS
    assert capacity_of(servers[0]).free == UNITS
