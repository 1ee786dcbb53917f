"""Two servers on one real MariaDB at the same request or lease at the very same moment: what `tests/unit/engine/test_parting_races.py` does
on PostgreSQL. MariaDB locks what a statement looks at, so one of the two may have to wait for the other, or is given up for it and begins
again: here each has a thread of its own, and the end must be the same whoever came first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import delete, event
from tests.real.mariadb import MariaDb
from tests.real.processes import running
from tests.unit.engine.cloud import ALICE, NOVA_FOR_ALICE, Host, capacity_of, make_profile, t4

from cantle.engine.arq import create_arqs, delete_arqs, delete_arqs_of_instance, get_arq, list_arqs
from cantle.engine.bind import Bind, Unbind, bind, unbind
from cantle.engine.lease import create_lease, get_lease, release_lease
from cantle.engine.move import move_lease
from cantle.errors import CantleError
from cantle.model.alias import NO_ALIASES
from cantle.model.arq import ArqState
from cantle.model.lease import LeaseState
from cantle.store.database import Database
from cantle.store.migrate import upgrade
from cantle.store.schema import metadata

Job = Callable[[], object]

#: Seconds that anything may take.
PATIENCE = 60.0

#: Seconds after which one that has not come to its end is taken to wait for a lock. If it is only slow, the two meet at another moment.
SEEMS_TO_WAIT = 0.5

#: Statements of a delete, an unbind, a bind, a release and a move that write, in their order: before each of them the other server acts.
DELETE = ["UPDATE hosts", "SELECT arqs.id", "UPDATE claims", "DELETE FROM arqs"]
UNBIND = ["UPDATE hosts", "SELECT arqs.id", "UPDATE claims", "UPDATE arqs"]
BIND = ["UPDATE hosts", "SELECT arqs.id", "SELECT deployables", "INSERT INTO claims", "UPDATE arqs"]
RELEASE = ["UPDATE hosts", "UPDATE leases", "UPDATE claims", "DELETE FROM arqs"]


@pytest.fixture(scope="module")
def url(directory: Path) -> Iterator[str]:
    """An empty database of a MariaDB that is up."""
    made = MariaDb(directory)
    try:
        made.create()
        with running(made.service, made.answers):
            found = made.new_database("parting")
            upgrade(found)
            yield found
    finally:
        made.remove()


@pytest.fixture
def servers(url: str) -> Iterator[tuple[Database, Database]]:
    """Two servers, which know nothing of each other, on an emptied database."""
    first, second = Database.open(url), Database.open(url)
    with first.write() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(delete(table))
    yield first, second
    first.close()
    second.close()


class Other:
    """What the other server does, in a thread of its own. ``ended`` is what it returned, or the refusal it raised."""

    def __init__(self, job: Job) -> None:
        self.ended: object = None
        self._job = job
        self._thread = threading.Thread(target=self._run, daemon=True)

    def act(self) -> None:
        """Begin, and return when it is done, or seems to wait for a lock."""
        self._thread.start()
        self._thread.join(SEEMS_TO_WAIT)

    def end(self) -> object:
        """Wait until it is done."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        return self.ended

    def _run(self) -> None:
        try:
            self.ended = self._job()
        except CantleError as error:
            self.ended = error


@contextmanager
def just_before(db: Database, words: str, job: Job) -> Iterator[Other]:
    """Once, before this server sends a statement of a writing transaction that begins so, the other begins."""
    other = Other(job)
    came: list[str] = []

    def look(_connection: object, _cursor: object, statement: str, *_rest: Any) -> None:
        if not came and statement.startswith(words):
            came.append(statement)
            other.act()

    event.listen(db._writer, "before_cursor_execute", look)
    try:
        yield other
    finally:
        event.remove(db._writer, "before_cursor_execute", look)
    assert came
    other.end()


def free(db: Database) -> tuple[Host, Bind]:
    """A host of one unit, and how a request would be bound on that unit."""
    host = Host(db)
    host.report(t4(1))
    make_profile(db)
    (arq,) = create_arqs(db, NOVA_FOR_ALICE, "vgpu")
    return host, Bind(arq.uuid, host.name, capacity_of(db, host.name).rp_uuid, str(uuid4()))


def second(db: Database, one: Bind) -> tuple[Host, Bind]:
    """Another host of one unit, and the same there."""
    host = Host(db, "compute-2")
    host.report(t4(1, host=host.name))
    return host, replace(one, hostname=host.name, device_rp_uuid=capacity_of(db, host.name).rp_uuid)


def settled(db: Database, *hosts: Host) -> dict[str, int]:
    """Units lent after each host has done what it should."""
    for host in hosts:
        host.obey()
    return {host.name: capacity_of(db, host.name).used for host in hosts}


def refusals(servers: tuple[Database, Database], moment: str, one: Bind, elsewhere: Bind) -> list[str]:
    """The codes of whichever of two binds is refused, of which the second comes in the middle of the first."""
    here, there = servers
    codes = []
    with just_before(here, moment, lambda: bind(there, NOVA_FOR_ALICE, [elsewhere])) as other:
        try:
            bind(here, NOVA_FOR_ALICE, [one])
        except CantleError as error:
            codes.append(error.code)
    if isinstance(other.ended, CantleError):
        codes.append(other.ended.code)
    return codes


@pytest.mark.parametrize("moment", [one for one in DELETE if one != "UPDATE claims"])
def test_a_request_that_is_bound_while_it_is_deleted_is_gone_or_its_bind_is_refused(
    servers: tuple[Database, Database], moment: str
) -> None:
    here, there = servers
    host, one = free(here)
    with just_before(here, moment, lambda: bind(there, NOVA_FOR_ALICE, [one])) as other:
        delete_arqs(here, NOVA_FOR_ALICE, [one.arq_uuid])
    assert other.ended is None or (isinstance(other.ended, CantleError) and other.ended.code == "arq-not-found")
    assert settled(here, host) == {host.name: 0}
    assert capacity_of(here, host.name).free == 1


@pytest.mark.parametrize("moment", [one for one in UNBIND if one != "UPDATE claims"])
def test_a_request_that_is_bound_while_it_is_unbound_holds_a_unit_only_if_the_bind_came_last(
    servers: tuple[Database, Database], moment: str
) -> None:
    here, there = servers
    host, one = free(here)
    with just_before(here, moment, lambda: bind(there, NOVA_FOR_ALICE, [one])) as other:
        unbind(here, NOVA_FOR_ALICE, [Unbind(one.arq_uuid)])
    assert other.ended is None
    used = settled(here, host)[host.name]
    assert get_arq(here, ALICE, one.arq_uuid).state is (ArqState.BOUND if used else ArqState.UNBOUND)


@pytest.mark.parametrize("moment", BIND)
def test_a_request_that_is_deleted_while_it_is_bound_is_gone_with_its_unit(
    servers: tuple[Database, Database], moment: str
) -> None:
    here, there = servers
    host, one = free(here)
    refused = None
    with just_before(here, moment, lambda: delete_arqs(there, NOVA_FOR_ALICE, [one.arq_uuid])) as other:
        try:
            bind(here, NOVA_FOR_ALICE, [one])
        except CantleError as error:
            refused = error.code
    assert other.ended is None
    assert refused in (None, "arq-not-found")
    assert list_arqs(here, ALICE) == []
    assert settled(here, host) == {host.name: 0}


@pytest.mark.parametrize("moment", BIND)
def test_a_request_that_is_bound_on_two_hosts_at_once_gets_one_unit(
    servers: tuple[Database, Database], moment: str
) -> None:
    here, _ = servers
    host, one = free(here)
    another, elsewhere = second(here, one)
    assert refusals(servers, moment, one, elsewhere) == ["arq-not-bindable"]
    used = settled(here, host, another)
    arq = get_arq(here, ALICE, one.arq_uuid)
    assert arq.state is ArqState.BOUND
    assert used == {name: int(name == arq.hostname) for name in used}


@pytest.mark.parametrize("moment", BIND)
def test_an_instance_that_is_bound_on_two_hosts_at_once_is_bound_on_one(
    servers: tuple[Database, Database], moment: str
) -> None:
    here, _ = servers
    host, one = free(here)
    (arq,) = create_arqs(here, NOVA_FOR_ALICE, "vgpu")
    another, elsewhere = second(here, replace(one, arq_uuid=arq.uuid))
    assert refusals(servers, moment, one, elsewhere) == ["instance-has-arqs"]
    assert sum(settled(here, host, another).values()) == 1
    assert len(list_arqs(here, NOVA_FOR_ALICE, instance=one.instance_uuid)) == 1


@pytest.mark.parametrize("moment", BIND)
def test_an_instance_that_is_deleted_while_it_is_bound_has_all_or_nothing(
    servers: tuple[Database, Database], moment: str
) -> None:
    """As if one had come after the other; a later delete takes back what stands."""
    here, there = servers
    host, one = free(here)
    gone = one.instance_uuid
    with just_before(here, moment, lambda: delete_arqs_of_instance(there, NOVA_FOR_ALICE, gone)) as other:
        bind(here, NOVA_FOR_ALICE, [one])
    assert other.ended is None
    assert settled(here, host)[host.name] == len(list_arqs(here, ALICE))
    delete_arqs_of_instance(here, NOVA_FOR_ALICE, gone)
    assert settled(here, host) == {host.name: 0}
    assert list_arqs(here, ALICE) == []


@pytest.mark.parametrize("moment", RELEASE)
def test_a_lease_that_is_moved_while_it_is_given_back_is_over_on_both_hosts(
    servers: tuple[Database, Database], moment: str
) -> None:
    here, there = servers
    lease, hosts = _lent(here)
    with just_before(here, moment, lambda: _move(there, lease, "compute-2")) as other:
        release_lease(here, ALICE, lease)
    assert not isinstance(other.ended, CantleError) or other.ended.code == "lease-over"
    assert sum(settled(here, *hosts).values()) == 0
    assert get_lease(here, ALICE, lease).state is LeaseState.RELEASED


@pytest.mark.parametrize("moment", RELEASE)
def test_a_lease_that_two_move_at_once_is_on_one_host(servers: tuple[Database, Database], moment: str) -> None:
    here, there = servers
    lease, hosts = _lent(here)
    with just_before(here, moment, lambda: _move(there, lease, "compute-2")) as other:
        _move(here, lease, "compute-3")
    assert not isinstance(other.ended, CantleError)
    used = settled(here, *hosts)
    found = get_lease(here, ALICE, lease)
    assert found.state is LeaseState.ACTIVE
    assert used == {name: int(name == found.hostname) for name in used}


def _lent(db: Database) -> tuple[str, list[Host]]:
    """A lease on the first of three hosts of one unit each."""
    hosts = [Host(db, f"compute-{number}") for number in (1, 2, 3)]
    for host in hosts:
        host.report(t4(1, host=host.name))
    make_profile(db)
    return create_lease(db, ALICE, profile_name="vgpu", hostname="compute-1").uuid, hosts


def _move(db: Database, lease: str, to: str) -> None:
    move_lease(db, ALICE, lease, to=to, stopped=True, aliases=NO_ALIASES)
