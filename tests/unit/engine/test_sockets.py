"""The policy ``socket``, from the report of a host to the choice of its cards and the answer why not."""

from __future__ import annotations

import hashlib

import msgspec
import pytest
from tests.unit.engine.cloud import ADMIN, Host, make_profile, whole

from cantle.engine.capacity import list_capacity
from cantle.engine.explain import explain
from cantle.engine.host import forget, get_host
from cantle.engine.intake import accept_report
from cantle.engine.lease import create_lease
from cantle.engine.room import list_room
from cantle.errors import NoCapacity
from cantle.model.alias import NO_ALIASES
from cantle.model.explanation import Explanation
from cantle.model.numa import Sockets
from cantle.store import host as hosts
from cantle.store.database import Database

#: Two sockets with two nodes each.
BOARD: dict[int, int | None] = {0: 0, 1: 0, 2: 1, 3: 1}


def report(
    db: Database, nodes: tuple[int | None, ...], sockets: dict[int, int | None], name: str = "compute-1"
) -> Host:
    """A host with a card on each of these nodes."""
    agent = Host(db, name)
    cards = [
        msgspec.structs.replace(whole(host=name, address=f"0000:{number:02x}:00.0"), numa_node=node)
        for number, node in enumerate(nodes, 1)
    ]
    agent.devices = cards
    digest = hashlib.sha256(repr((cards, sockets)).encode()).hexdigest()
    accept_report(db, name, msgspec.structs.replace(agent.message(), sockets=sockets, digest=digest))
    return agent


def _explained(refusal: NoCapacity) -> Explanation:
    found = refusal.details["explanation"]
    assert isinstance(found, Explanation)
    return found


def taken(db: Database, nodes: tuple[int, ...]) -> set[str]:
    """The cards that a lease of the profile ``one`` takes, by address."""
    before = _lent(db)
    create_lease(db, ADMIN, profile_name="one", nodes=nodes)
    return _lent(db) - before


def _lent(db: Database) -> set[str]:
    return {one.device_address for one in list_capacity(db) if one.used}


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        (BOARD, BOARD),
        ({1: 0, 0: None}, {0: None, 1: 0}),
        ({}, None),
        ({-1: 0}, None),
        ({0: -1}, None),
        ({0: 1 << 31}, None),
        (dict.fromkeys(range(1025), 0), None),
    ],
)
def test_a_host_has_the_sockets_that_its_agent_tells(
    db: Database, told: dict[int, int | None], kept: Sockets | None
) -> None:
    """Of an older agent, and of one that tells nonsense, nothing is known."""
    report(db, (0,), told)
    assert get_host(db, "compute-1").sockets == kept


def test_sockets_that_an_agent_tells_since_its_upgrade_are_taken_in_with_the_same_cards(db: Database) -> None:
    report(db, (0, 1), {})
    report(db, (0, 1), BOARD)
    assert get_host(db, "compute-1").sockets == BOARD


def test_a_host_that_was_forgotten_has_no_sockets(db: Database) -> None:
    report(db, (0,), BOARD)
    with db.write() as connection:
        row = hosts.find(connection, "compute-1")
        assert row is not None
        hosts.change(connection, row.id, last_seen=None)
    forget(db, ADMIN, "compute-1")
    with db.read() as connection:
        row = hosts.find(connection, "compute-1")
    assert row is not None
    assert row.sockets is None


@pytest.mark.parametrize(
    ("policy", "sockets", "fits"),
    [
        ("socket", BOARD, True),
        ("required", BOARD, False),
        ("socket", {0: 0, 1: 1}, False),
        ("socket", {0: 0, 1: None}, False),
        ("socket", {}, False),
        ("preferred", {}, True),
    ],
)
def test_two_cards_on_two_nodes_of_one_socket(
    db: Database, policy: str, sockets: dict[int, int | None], fits: bool
) -> None:
    make_profile(db, "pair", [{"resources:PGPU": "1", "accel:numa_policy": policy}] * 2)
    report(db, (0, 1), sockets)
    assert bool(explain(db, name="pair").fit_count) is fits
    (room,) = list_room(db, aliases=NO_ALIASES)
    assert dict(room.by_host) == ({"compute-1": 1} if fits else {})
    if fits:
        assert len(create_lease(db, ADMIN, profile_name="pair").arqs) == 2
    else:
        with pytest.raises(NoCapacity) as refused:
            create_lease(db, ADMIN, profile_name="pair")
        assert [one.code for one in _explained(refused.value).together] == ["numa-apart"]


def test_equal_cards_on_hosts_with_other_sockets_are_not_taken_for_the_same(db: Database) -> None:
    """Hosts that look alike are looked at once; boards of other sockets do not look alike."""
    make_profile(db, "pair", [{"resources:PGPU": "1", "accel:numa_policy": "socket"}] * 2)
    report(db, (0, 1), {0: 0, 1: 1}, "apart")
    report(db, (0, 1), {0: 0, 1: 0}, "near")
    assert explain(db, name="pair").fitting == ("near",)
    assert create_lease(db, ADMIN, profile_name="pair").hostname == "near"


def test_equal_cards_are_near_a_guest_on_one_host_and_not_on_the_other(db: Database) -> None:
    """Cards that look alike are looked at once; on boards of other sockets they do not look alike."""
    make_profile(db, "one", [{"resources:PGPU": "1", "accel:numa_policy": "socket"}])
    report(db, (1,), {0: 0, 1: 1}, "apart")
    report(db, (1,), {0: 0, 1: 0}, "near")
    found = explain(db, name="one", nodes=(0,))
    assert (found.fitting, [(one.code, one.cards) for one in found.groups[0].reasons]) == (
        ("near",),
        [("numa-other", 1)],
    )


def test_a_guest_on_a_node_is_given_cards_of_its_socket_the_nearest_first(db: Database) -> None:
    make_profile(db, "one", [{"resources:PGPU": "1", "accel:numa_policy": "socket"}])
    report(db, (3, 2, 1, 0, None), BOARD)
    assert taken(db, (0,)) == {"0000:04:00.0"}
    assert taken(db, (0,)) == {"0000:03:00.0"}
    with pytest.raises(NoCapacity) as refused:
        create_lease(db, ADMIN, profile_name="one", nodes=(0,))
    assert sorted((one.code, one.cards) for one in _explained(refused.value).groups[0].reasons) == [
        ("all-lent", 2),
        ("numa-other", 1),
        ("numa-other", 1),
        ("numa-unknown", 1),
    ]


def test_where_sockets_are_not_known_that_is_the_reason(db: Database) -> None:
    make_profile(db, "one", [{"resources:PGPU": "1", "accel:numa_policy": "socket"}])
    report(db, (1,), {})
    (reason,) = explain(db, name="one", nodes=(0,)).groups[0].reasons
    assert (reason.code, reason.what) == (
        "sockets-unknown",
        "is on NUMA node 1 of a host that does not tell the socket of each node",
    )
    report(db, (1,), BOARD)
    assert explain(db, name="one", nodes=(0,)).fit_count == 1, "the reason was the true one"
