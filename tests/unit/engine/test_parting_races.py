"""Two at the same request or lease at the very same moment: one binds or moves what the other gives back. Nova gave up waiting for its
PATCH, say, and deletes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import event
from tests.databases import database, server_url
from tests.unit.engine.cloud import ALICE, NOVA_FOR_ALICE, Host, capacity_of, make_profile, t4

from cantle.engine.arq import create_arqs, delete_arqs, delete_arqs_of_instance, get_arq
from cantle.engine.bind import Bind, Unbind, bind, unbind
from cantle.engine.lease import create_lease, get_lease, release_lease
from cantle.engine.move import move_lease
from cantle.engine.work import current_work
from cantle.errors import BadRequest, Conflict
from cantle.model.alias import NO_ALIASES
from cantle.model.arq import ArqState
from cantle.model.lease import LeaseState
from cantle.store.database import Database


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[Database, Database]]:
    """Two servers on one PostgreSQL, which know nothing of each other. On SQLite one writer waits for the other, so that nothing comes
    between; MariaDB locks each host it looks at, which in so small a cloud are all there are, and the two would wait for each other."""
    with database("postgresql", tmp_path) as first:
        second = Database.open(server_url("postgresql"))
        yield first, second
        second.close()


@contextmanager
def just_before(db: Database, words: str, happen: Callable[[], object]) -> Iterator[list[str]]:
    """Once, before this server sends a writing statement that begins so, something else happens. What it came before."""
    came: list[str] = []

    def look(_connection: object, _cursor: object, statement: str, *_rest: Any) -> None:
        if not came and statement.startswith(words):
            came.append(statement)
            happen()

    event.listen(db._writer, "before_cursor_execute", look)
    try:
        yield came
    finally:
        event.remove(db._writer, "before_cursor_execute", look)


@pytest.mark.parametrize("made_ready", [False, True])
@pytest.mark.parametrize("moment", ["SELECT arqs.id", "DELETE FROM arqs"])
def test_a_request_that_is_bound_while_it_is_deleted_gives_its_unit_back(
    servers: tuple[Database, Database], moment: str, made_ready: bool
) -> None:
    here, there = servers
    host, arq, one = _free(here)
    told: list[int] = []

    def happen() -> None:
        told.append(_bind(there, one))
        if made_ready:
            replace(host, db=there).obey()

    with just_before(here, moment, happen) as came:
        delete_arqs(here, NOVA_FOR_ALICE, [arq])
    assert came
    _comes_back(here, host, told[0])


@pytest.mark.parametrize("moment", ["SELECT arqs.id", "UPDATE arqs"])
def test_a_request_that_is_bound_while_it_is_unbound_gives_its_unit_back(
    servers: tuple[Database, Database], moment: str
) -> None:
    here, there = servers
    host, arq, one = _free(here)
    told: list[int] = []
    with just_before(here, moment, lambda: told.append(_bind(there, one))) as came:
        unbind(here, NOVA_FOR_ALICE, [Unbind(arq)])
    assert came
    assert get_arq(here, ALICE, arq).state is ArqState.UNBOUND
    _comes_back(here, host, told[0])


def test_a_request_that_is_bound_on_two_hosts_at_once_gets_one_unit(servers: tuple[Database, Database]) -> None:
    here, there = servers
    _, arq, one = _free(here)
    Host(here, "compute-2").report(t4(1, host="compute-2"))
    other = replace(one, hostname="compute-2", device_rp_uuid=capacity_of(here, "compute-2").rp_uuid)
    with (
        just_before(here, "INSERT INTO claims", lambda: bind(there, NOVA_FOR_ALICE, [other])) as came,
        pytest.raises(Conflict) as late,
    ):
        bind(here, NOVA_FOR_ALICE, [one])
    assert came
    assert late.value.code == "arq-not-bindable"
    assert get_arq(here, ALICE, arq).hostname == "compute-2"
    assert [capacity_of(here, name).used for name in ("compute-1", "compute-2")] == [0, 1]


def test_an_instance_that_is_bound_on_two_hosts_at_once_is_bound_on_one(servers: tuple[Database, Database]) -> None:
    """Each holds the lock of its host, and has seen that the instance has no ARQs."""
    here, there = servers
    host, _, one = _free(here)
    Host(here, "compute-2").report(t4(1, host="compute-2"))
    (arq,) = create_arqs(here, NOVA_FOR_ALICE, "vgpu")
    other = replace(one, arq_uuid=arq.uuid, hostname="compute-2", device_rp_uuid=capacity_of(here, "compute-2").rp_uuid)
    with (
        just_before(here, "UPDATE arqs", lambda: bind(there, NOVA_FOR_ALICE, [other])) as came,
        pytest.raises(BadRequest) as late,
    ):
        bind(here, NOVA_FOR_ALICE, [one])
    assert came
    assert late.value.code == "instance-has-arqs"
    assert get_arq(here, ALICE, one.arq_uuid).state is ArqState.INITIAL
    assert [capacity_of(here, name).used for name in (host.name, "compute-2")] == [0, 1]


def test_an_instance_that_is_deleted_before_its_bind_is_committed_has_what_was_bound(
    servers: tuple[Database, Database],
) -> None:
    """As if the bind came after it: so Nova evacuates (docs/lending.md). What it deletes later, by instance or by ARQ, comes back."""
    here, there = servers
    host, arq, one = _free(here)
    with just_before(
        here, "UPDATE arqs", lambda: delete_arqs_of_instance(there, NOVA_FOR_ALICE, one.instance_uuid)
    ) as came:
        told = _bind(here, one)
    assert came
    assert get_arq(here, ALICE, arq).state is ArqState.BIND_STARTED
    delete_arqs_of_instance(here, NOVA_FOR_ALICE, one.instance_uuid)
    _comes_back(here, host, told)


def test_a_lease_that_is_moved_while_it_is_given_back_is_given_back_by_its_new_host(
    servers: tuple[Database, Database],
) -> None:
    here, there = servers
    lease, hosts = _lent(here)
    told: list[int] = []
    with just_before(here, "UPDATE hosts", lambda: told.append(_move(there, lease, "compute-2"))) as came:
        release_lease(here, ALICE, lease)
    assert came
    assert get_lease(here, ALICE, lease).hostname == "compute-2"
    _comes_back(here, hosts[1], told[0])
    hosts[0].obey()
    assert get_lease(here, ALICE, lease).state is LeaseState.RELEASED


def test_a_lease_that_two_move_at_once_leaves_nothing_on_the_host_between(servers: tuple[Database, Database]) -> None:
    here, there = servers
    lease, hosts = _lent(here)
    told: list[int] = []
    with just_before(here, "UPDATE hosts", lambda: told.append(_move(there, lease, "compute-2"))) as came:
        _move(here, lease, "compute-3")
    assert came
    assert get_lease(here, ALICE, lease).hostname == "compute-3"
    _comes_back(here, hosts[1], told[0])


def _lent(db: Database) -> tuple[str, list[Host]]:
    """A lease on the first of three hosts of one unit each."""
    hosts = [Host(db, f"compute-{number}") for number in (1, 2, 3)]
    for host in hosts:
        host.report(t4(1, host=host.name))
    make_profile(db)
    return create_lease(db, ALICE, profile_name="vgpu", hostname="compute-1").uuid, hosts


def _move(db: Database, lease: str, to: str) -> int:
    """Move it; the generation that the host is told of then."""
    move_lease(db, ALICE, lease, to=to, stopped=True, aliases=NO_ALIASES)
    return current_work(db, to).generation


def _free(db: Database) -> tuple[Host, str, Bind]:
    """A host of one unit, a request, and how it would be bound on that unit."""
    host = Host(db)
    host.report(t4(1))
    make_profile(db)
    (arq,) = create_arqs(db, NOVA_FOR_ALICE, "vgpu")
    return host, arq.uuid, Bind(arq.uuid, "compute-1", capacity_of(db).rp_uuid, str(uuid4()))


def _bind(db: Database, one: Bind) -> int:
    """Bind it; the generation that the host is told of then."""
    bind(db, NOVA_FOR_ALICE, [one])
    return current_work(db, one.hostname).generation


def _comes_back(db: Database, host: Host, told: int) -> None:
    """The host is told something new: to take the unit back. When it has, the unit is free."""
    work = current_work(db, host.name)
    assert (len(work.wanted), len(work.unwanted)) == (0, 1)
    assert work.generation > told
    host.obey()
    assert capacity_of(db, host.name).free == 1
