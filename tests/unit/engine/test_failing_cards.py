"""A card that could not be made ready a moment ago is chosen only where no other would do."""

from __future__ import annotations

import threading
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import select, update
from tests.databases import database
from tests.unit.engine.cloud import ALICE, NOVA_FOR_ALICE, Host, make_profile, whole

from cantle.engine.arq import create_arqs
from cantle.engine.bind import Bind, bind
from cantle.engine.lease import create_lease, get_lease
from cantle.engine.work import current_work
from cantle.keeper import deadline
from cantle.model.attachment import Attachment
from cantle.model.lease import LeaseState
from cantle.store import host as host_store
from cantle.store import provider_pool
from cantle.store.database import Database
from cantle.store.tables import arqs, claims, deployables, hosts
from cantle.store.types import database_now

BAD, GOOD = "0000:3b:00.0", "0000:86:00.0"


@pytest.fixture
def host(db: Database) -> Host:
    """A host with two whole cards, and a profile for one."""
    one = Host(db)
    one.report(whole(address=BAD), whole(address=GOOD))
    make_profile(db, "card", [{"resources:PGPU": "1"}])
    return one


def lend(db: Database, *agents: Host) -> LeaseState:
    """What becomes of a new lease: of `BAD` nothing can be made ready."""
    made = create_lease(db, ALICE, profile_name="card")
    for one in agents:
        try_all(one)
    return get_lease(db, ALICE, made.uuid).state


def try_all(host: Host) -> None:
    """It tries what is wanted, and takes back what failed."""
    wanted = current_work(host.db, host.name).wanted
    host.refusing = {one.uuid: "bind-failed" for one in wanted if f"0000:{one.attach_info['bus']}:00.0" == BAD}
    host.obey()
    host.refusing = {}
    host.obey()


def test_lease_after_lease_fails_on_the_same_bad_card_while_its_neighbour_is_free(db: Database, host: Host) -> None:
    assert lend(db, host) is LeaseState.FAILED
    assert lend(db, host) is LeaseState.ACTIVE
    # Where no other is left it is tried again: it may be well by now.
    assert lend(db, host) is LeaseState.FAILED


def test_a_host_whose_card_fails_swallows_no_lease_that_another_host_could_serve(db: Database) -> None:
    one, other = Host(db), Host(db, "compute-2")
    one.report(whole(address=BAD))
    other.report(whole(host="compute-2", address=GOOD))
    make_profile(db, "card", [{"resources:PGPU": "1"}])
    assert lend(db, one, other) is LeaseState.FAILED
    assert lend(db, one, other) is LeaseState.ACTIVE


def test_a_card_that_is_preferred_and_fails_gives_way_to_one_that_is_not(db: Database, host: Host) -> None:
    host.report(whole(address=BAD, traits=("CUSTOM_LIKED",)), whole(address=GOOD))
    make_profile(db, "liked", [{"resources:PGPU": "1", "accel:prefer": "CUSTOM_LIKED"}])
    create_lease(db, ALICE, profile_name="liked")
    try_all(host)
    made = create_lease(db, ALICE, profile_name="liked")
    try_all(host)
    assert get_lease(db, ALICE, made.uuid).state is LeaseState.ACTIVE


@pytest.mark.parametrize(("guest", "then"), [(None, "compute-2"), ("lxc:c1", "compute-1")])
def test_lease_after_lease_goes_to_a_host_that_does_not_answer_while_another_does(
    db: Database, host: Host, guest: str | None, then: str
) -> None:
    """With all its cards it is the last choice, unless it may have waited for the lease's own guest."""
    Host(db, "compute-2").report(whole(host="compute-2"))
    into = None if guest is None else Attachment.parse(guest)
    first = create_lease(db, ALICE, profile_name="card", hostname="compute-1", attachment=into)
    with db.write() as connection:
        connection.execute(update(arqs).values(deadline=database_now(-1)))
    assert deadline.sweep(db) == 1
    assert get_lease(db, ALICE, first.uuid).state is LeaseState.FAILED
    assert create_lease(db, ALICE, profile_name="card").hostname == then


@pytest.mark.parametrize("code", ["guest-not-found", "agent-knows-no-guests", "cdi-name-taken"])
def test_a_guest_that_somebody_misspelt_says_nothing_against_the_card(db: Database, host: Host, code: str) -> None:
    create_lease(db, ALICE, profile_name="card")
    host.refusing = {one.uuid: code for one in current_work(db, host.name).wanted}
    host.obey()
    host.refusing = {}
    host.obey()
    with db.read() as connection:
        assert connection.execute(select(deployables.c.failed_at).distinct()).scalars().all() == [None]


def test_a_card_that_failed_a_while_ago_is_chosen_as_any_other(db: Database, host: Host) -> None:
    assert lend(db, host) is LeaseState.FAILED
    with db.write() as connection:
        connection.execute(
            update(deployables).where(deployables.c.failed_at.is_not(None)).values(failed_at=database_now(-3600))
        )
    assert lend(db, host) is LeaseState.FAILED


def lent_by(db: Database, profile: str) -> str:
    """The host that a new lease is of."""
    create_lease(db, ALICE, profile_name=profile)
    with db.read() as connection:
        query = select(hosts.c.hostname).join(claims, claims.c.host_id == hosts.c.id)
        return str(connection.execute(query).scalar_one())


def bad_and_good(db: Database, bad: int) -> None:
    """So many hosts with a card that just failed, first by name, and one with a card that did not."""
    for number in range(bad):
        name = f"a-{number}"
        Host(db, name).report(whole(host=name, address=BAD, traits=("CUSTOM_LIKED",)))
    with db.write() as connection:
        connection.execute(update(deployables).values(failed_at=database_now()))
    Host(db, "good").report(whole(host="good", address=GOOD))


def test_three_preferred_cards_that_fail_hide_the_good_one_of_another_host(db: Database) -> None:
    """They were met again among the cards that are liked less, and counted twice."""
    bad_and_good(db, 3)
    make_profile(db, "liked", [{"resources:PGPU": "1", "accel:prefer": "CUSTOM_LIKED"}])
    assert lent_by(db, "liked") == "good"


def test_a_bad_card_is_not_taken_since_the_good_ones_host_is_busy_for_a_moment() -> None:
    with database("postgresql", Path()) as db:
        bad_and_good(db, 1)
        make_profile(db, "card", [{"resources:PGPU": "1"}])
        locked, done = threading.Event(), threading.Event()

        def be_busy() -> None:
            with db.write() as connection:
                number = connection.execute(select(hosts.c.id).where(hosts.c.hostname == "good")).scalar_one()
                host_store.lock(connection, [number])
                locked.set()
                done.wait(10)

        somebody = threading.Thread(target=be_busy)
        somebody.start()
        assert locked.wait(10)
        # By then the lease waits for that host, or has taken the bad card.
        threading.Timer(0.2, done.set).start()
        assert lent_by(db, "card") == "good"
        somebody.join()


def test_instance_after_instance_is_not_bound_to_the_bad_card_of_a_pool(db: Database, host: Host) -> None:
    pool = str(uuid4())
    with db.write() as connection:
        rows = connection.execute(select(deployables.c.id, deployables.c.host_id)).all()
        provider_pool.replace(connection, rows[0].host_id, {row.id: (pool, "PGPU") for row in rows})
    assert [boot(db, host, pool), boot(db, host, pool)] == [BAD, GOOD]


def boot(db: Database, host: Host, pool: str) -> str:
    """The card on which an instance's request is bound."""
    (arq,) = create_arqs(db, NOVA_FOR_ALICE, "card")
    bind(db, NOVA_FOR_ALICE, [Bind(arq.uuid, "compute-1", pool, str(uuid4()))])
    (unit,) = current_work(db, "compute-1").wanted
    try_all(host)
    return f"0000:{unit.attach_info['bus']}:00.0"
