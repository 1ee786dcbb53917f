"""A host that says which machine it is, and what is said of it: for tests of hosts as a whole."""

from __future__ import annotations

from uuid import uuid4

import msgspec
import pytest
from sqlalchemy import select, update
from tests.unit.engine.cloud import ALICE, Host, make_profile, t4

from cantle.engine.host import get_host
from cantle.engine.lease import create_lease, release_lease
from cantle.errors import CantleError, Conflict
from cantle.store.database import Database
from cantle.store.tables import hosts
from cantle.store.types import database_now
from cantle.wire.inventory import Condition, InventoryReport


class Machine(Host):
    """A host whose reports say which machine and boot it is."""

    machine = "m1"
    boot = "b1"
    followed = 0
    clock: float | None = None
    conditions: tuple[Condition, ...] = ()

    def message(self) -> InventoryReport:
        """See the base class."""
        made = super().message()
        return msgspec.structs.replace(
            made,
            digest=f"{made.digest}{len(self.conditions)}",
            machine=self.machine,
            boot=self.boot,
            generation=self.followed,
            clock=self.clock,
            conditions=self.conditions,
        )

    def reboot(self) -> None:
        """The machine starts anew, and its agent with it."""
        self.boot = str(uuid4())
        self.restart()

    def refused(self) -> str:
        """The code with which its report is refused."""
        with pytest.raises(Conflict) as caught:
            self.report()
        return caught.value.code


def machine(db: Database, name: str = "compute-1", **about: object) -> Machine:
    """One that has reported a card."""
    made = Machine(db, name)
    vars(made).update(about)
    made.report(t4(host=name))
    return made


def copy_of(one: Machine) -> Machine:
    """A copy of the machine's disk, started elsewhere: the same id, another boot."""
    made = Machine(one.db, one.name, one.devices)
    made.machine, made.boot = one.machine, str(uuid4())
    return made


def told(db: Database, hostname: str = "compute-1") -> dict[str, str]:
    """Code and message of what a person should know of a host."""
    return {one.code: one.message for one in get_host(db, hostname).conditions}


def silence(db: Database, hostname: str = "compute-1") -> None:
    """The agent was not heard of for a long time."""
    with db.write() as connection:
        connection.execute(update(hosts).where(hosts.c.hostname == hostname).values(last_seen=database_now(-3600)))


def lend(db: Database) -> CantleError | None:
    """Why nothing can be lent; None when something was, and is given back."""
    try:
        lease = create_lease(db, ALICE, profile_name="vgpu")
    except CantleError as error:
        return error
    release_lease(db, ALICE, lease.uuid)
    return None


def restored(db: Database) -> Machine:
    """A host with one lent unit whose server's database was then restored from a backup of before that."""
    make_profile(db)
    one = machine(db)
    with db.read() as connection:
        backup = connection.execute(select(hosts.c.generation)).scalar_one()
    release_lease(db, ALICE, create_lease(db, ALICE, profile_name="vgpu").uuid)
    one.followed = one.obey().generation
    assert one.followed > backup
    with db.write() as connection:
        connection.execute(update(hosts).values(generation=backup))
    return one
