"""Cards that become a pool, and a pool that becomes cards again: at once, through the real Placement's reshaper, or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.databases import database
from tests.placement_service import Fault, Placement, Timeout
from tests.unit.engine.cloud import ADMIN, NOVA_FOR_ALICE, make_profile
from tests.unit.placement.cloud import Cloud, Killed, commits_up_to, killed_at
from tests.unit.placement.test_pools import POOLED, a100, boot, end

from cantle.engine.arq import create_arqs, list_arqs
from cantle.engine.bind import Bind, bind
from cantle.engine.device import list_devices, set_status
from cantle.engine.host import drain
from cantle.keeper.placement_host import Settings
from cantle.model.arq import ArqState
from cantle.model.device import DeviceStatus
from cantle.model.provider import Inventory, Provider, Record
from cantle.placement import exchange
from cantle.placement.difference import Create, Delete, Difference, SetInventories, SetTraits, Step
from cantle.store import provider_pool

CARDS = 3
ALONE = Settings()
# The requests that make a pool of three cards: a look, three for what is in use, the role, a provider and its traits, the exchange, three
# deletions, three to read the pool. `make chaos` has all of them.


@pytest.fixture
def cloud(tmp_path: Path, service: Placement) -> Iterator[Cloud]:
    """A host with three identical cards on one NUMA node, a provider each."""
    with database("sqlite", tmp_path) as db:
        made = Cloud(db, service, ALONE)
        make_profile(db, "one", [{"resources:PGPU": "1"}])
        made.host.report(*(a100(number) for number in range(1, CARDS + 1)))
        made.keeper().round()
        yield made


def becomes(cloud: Cloud, settings: Settings) -> None:
    """A keeper with another configuration looks at the host."""
    cloud.settings = settings
    cloud.time_passes()
    cloud.keeper().round()


def providers(cloud: Cloud) -> dict[str, str]:
    """By name, the uuid of what is below the compute node."""
    found = cloud.placement.call("GET", f"/resource_providers?in_tree={cloud.nodes['compute-1']}")["resource_providers"]
    return {one["name"]: one["uuid"] for one in found if one["uuid"] != cloud.nodes["compute-1"]}


def room(cloud: Cloud) -> int:
    """Units that may be taken now."""
    found = 0
    for uuid in providers(cloud).values():
        usages = cloud.placement.call("GET", f"/resource_providers/{uuid}/usages")["usages"]
        inventories = cloud.placement.call("GET", f"/resource_providers/{uuid}/inventories")["inventories"]
        found += sum(max(0, one["total"] - one["reserved"] - usages[name]) for name, one in inventories.items())
    return found


def shape_in_database(cloud: Cloud) -> int:
    """How many cards are in a pool there."""
    (state,) = cloud.states()
    with cloud.db.read() as connection:
        return len(provider_pool.of_host(connection, state.host_id))


def test_at_no_moment_is_a_card_offered_twice_or_not_at_all(cloud: Cloud) -> None:
    seen: list[int] = []
    cloud.placement.faults.before = lambda _method, _path: seen.append(room(cloud))
    becomes(cloud, POOLED)
    assert list(cloud.shown().values()) == [(CARDS, 0)]
    assert shape_in_database(cloud) == CARDS
    becomes(cloud, ALONE)
    assert list(cloud.shown().values()) == [(1, 0)] * CARDS
    assert shape_in_database(cloud) == 0
    assert set(seen) == {CARDS}
    cloud.placement.faults.before = None
    assert cloud.round() == []


def test_it_is_one_request_to_the_reshaper_after_its_role_was_checked(cloud: Cloud) -> None:
    cloud.placement.faults.clear()
    becomes(cloud, POOLED)
    sent = [f"{one.method} {one.path.split('/')[1]} {one.status}" for one in cloud.placement.faults.sent]
    writes = [line for line in sent if not line.startswith("GET")]
    assert writes[0] == "POST reshaper 400", "asked for nothing: only whether we may"
    assert writes.count("POST reshaper 204") == 1
    assert writes[-CARDS:] == ["DELETE resource_providers 204"] * CARDS


def test_a_drained_host_changes_its_shape_and_stays_drained(cloud: Cloud) -> None:
    drain(cloud.db, ADMIN, "compute-1")
    cloud.keeper().round()
    becomes(cloud, POOLED)
    assert list(cloud.shown().values()) == [(CARDS, CARDS)]
    assert "POST /reshaper" in cloud.placement.faults.writes


@pytest.mark.parametrize("standing", [ALONE, POOLED], ids=["alone", "pooled"])
def test_without_the_role_the_shape_stays_and_everything_else_goes_on(
    tmp_path: Path, service: Placement, standing: Settings
) -> None:
    """An administrator's role is enough for everything but the reshaper where Placement enforces its new rules."""
    with database("sqlite", tmp_path) as db:
        cloud = Cloud(db, service, standing)
        cloud.host.report(a100(1), a100(2))
        cloud.keeper().round()
        before = providers(cloud)
        refuse_reshaping(cloud)
        becomes(cloud, ALONE if standing is POOLED else POOLED)
        (state,) = cloud.states()
        assert state.code == "reshaper-forbidden"
        assert "role 'service'" in state.problem
        assert providers(cloud) == before
        card = list_devices(db)[0]
        set_status(db, ADMIN, card.uuid, DeviceStatus.MAINTAINING)
        cloud.time_passes()
        cloud.keeper().round()
        assert providers(cloud) == before
        assert room(cloud) == 1, "the card in maintenance is reserved all the same"
        cloud.placement.faults.before = None
        cloud.placement.faults.at.clear()
        service.roles = "service"
        cloud.time_passes()
        cloud.keeper().round()
        assert cloud.states()[0].code is None
        assert set(providers(cloud)).isdisjoint(before)


def refuse_reshaping(cloud: Cloud) -> None:
    """Whoever calls has the roles of a project's administrator in a Placement that wants the service role."""
    cloud.placement.roles = "admin,member,reader"


def test_a_new_host_is_published_as_a_pool_without_the_role(tmp_path: Path, service: Placement) -> None:
    with database("sqlite", tmp_path) as db:
        cloud = Cloud(db, service, POOLED)
        refuse_reshaping(cloud)
        cloud.host.report(a100(1), a100(2))
        cloud.keeper().round()
        assert list(cloud.shown().values()) == [(2, 0)]
        assert cloud.states()[0].code is None


@pytest.mark.parametrize("number", [2, 5, 6, 7, 8, 9, 11, 13])
def test_a_keeper_killed_at_any_request_of_it_is_followed_by_one_that_completes_it(cloud: Cloud, number: int) -> None:
    for settings, shown in ((POOLED, [(CARDS, 0)]), (ALONE, [(1, 0)] * CARDS)):
        cloud.settings = settings
        cloud.time_passes()
        killed_at(cloud, number)
        cloud.placement.faults.clear()
        assert room(cloud) == CARDS
        becomes(cloud, settings)
        assert list(cloud.shown().values()) == shown
        assert [state.code for state in cloud.states()] == [None]
        assert cloud.round() == []


@pytest.mark.parametrize("number", range(1, 9))
def test_a_keeper_killed_before_any_commit_of_it_is_followed_by_one_that_completes_it(
    cloud: Cloud, number: int
) -> None:
    for settings, shown in ((POOLED, [(CARDS, 0)]), (ALONE, [(1, 0)] * CARDS)):
        cloud.settings = settings
        cloud.time_passes()
        with commits_up_to(cloud.db, number), contextlib.suppress(Killed):
            cloud.keeper().round()
        assert room(cloud) == CARDS
        becomes(cloud, settings)
        assert list(cloud.shown().values()) == shown
        assert shape_in_database(cloud) == (CARDS if settings is POOLED else 0)
        assert cloud.round() == []


@pytest.mark.parametrize("number", [1, 3, 5, 6, 7, 8, 9])
@pytest.mark.parametrize("fault", [409, Timeout(after=True)], ids=str)
def test_whatever_request_of_it_fails_the_next_attempts_complete_it(cloud: Cloud, number: int, fault: Fault) -> None:
    cloud.settings = POOLED
    cloud.time_passes()
    cloud.placement.faults.clear()
    cloud.placement.faults.at = {number: fault}
    cloud.keeper().round()
    cloud.placement.faults.clear()
    assert room(cloud) == CARDS
    becomes(cloud, POOLED)
    assert list(cloud.shown().values()) == [(CARDS, 0)]
    assert cloud.states()[0].code is None
    assert cloud.round() == []


@pytest.mark.parametrize("way", ["into a pool", "out of it"])
def test_an_instance_between_its_allocation_and_its_bind_gets_its_card(cloud: Cloud, way: str) -> None:
    """Nova has taken a unit in the one shape, and binds when the other is there."""
    before, after = (ALONE, POOLED) if way == "into a pool" else (POOLED, ALONE)
    becomes(cloud, before)
    name, provider = sorted(providers(cloud).items())[0]
    instance = allocate(cloud, provider)
    becomes(cloud, after)
    assert room(cloud) == CARDS - 1
    assert name in providers(cloud), "what is taken stays until its end"
    (arq,) = create_arqs(cloud.db, NOVA_FOR_ALICE, "one")
    bind(cloud.db, NOVA_FOR_ALICE, [Bind(arq.uuid, "compute-1", provider, instance)])
    cloud.host.obey()
    (held,) = list_arqs(cloud.db, NOVA_FOR_ALICE, instance=instance)
    assert held.state is ArqState.BOUND
    becomes(cloud, after)
    assert room(cloud) == CARDS - 1
    end(cloud, instance)
    for _ in range(2):
        becomes(cloud, after)
    assert room(cloud) == CARDS
    assert name not in providers(cloud)


def allocate(cloud: Cloud, provider: str) -> str:
    """What Nova's scheduler does."""
    instance = "8b4a1f0e-7d0c-4f0e-9a53-1c6e0d1c0001"
    body = {
        "allocations": {provider: {"resources": {"PGPU": 1}}},
        **{"project_id": "p", "user_id": "u", "consumer_generation": None, "consumer_type": "INSTANCE"},
    }
    cloud.placement.call("PUT", f"/allocations/{instance}", body)
    return instance


def test_an_instance_that_comes_while_it_happens_is_not_lost(cloud: Cloud) -> None:
    """It takes a unit between our look and the exchange: Placement says so, and it stays where it is."""
    provider = sorted(providers(cloud).values())[0]
    taken: list[str] = []

    def meanwhile(method: str, path: str) -> None:
        if path == "/reshaper" and method == "POST" and len(taken) < 2:
            taken.append(allocate(cloud, provider) if taken else "")

    cloud.placement.faults.before = meanwhile
    becomes(cloud, POOLED)
    cloud.placement.faults.before = None
    assert len(taken) == 2
    assert room(cloud) == CARDS - 1
    assert cloud.placement.call("GET", f"/allocations/{taken[1]}")["allocations"]


def test_cards_in_use_stay_where_they_are_and_the_others_move(cloud: Cloud) -> None:
    provider = sorted(providers(cloud).values())[0]
    instance, _arqs = boot(cloud, "one", provider)
    becomes(cloud, POOLED)
    assert sorted(cloud.shown().values()) == [(1, 1), (CARDS, 1)]
    end(cloud, instance)
    becomes(cloud, POOLED)
    assert list(cloud.shown().values()) == [(CARDS, 0)]


inventories = st.dictionaries(
    st.sampled_from(["PGPU", "CUSTOM_A"]), st.builds(Inventory, st.integers(1, 4)), max_size=2
)


@st.composite
def differences(draw: st.DrawFn) -> Difference:
    """A provider that is made, changed or deleted."""
    seen = Provider("u", "n", "p", 1, draw(inventories)) if draw(st.booleans()) else None
    record = Record("u", "n", seen)
    if seen is not None and draw(st.booleans()):
        return Difference((Delete(),), record)
    steps: list[Step] = [Create("p"), SetTraits(frozenset())] if seen is None else []
    closing: list[Step] = (
        [SetInventories(dict(seen.inventories)), SetTraits(frozenset())] if seen and draw(st.booleans()) else []
    )
    last: list[Step] = [SetInventories(draw(inventories))] if draw(st.booleans()) or seen is None else []
    return Difference((*steps, *closing, *last), record)


@given(one=differences())
def test_what_comes_first_and_the_exchange_are_all_there_is_to_do(one: Difference) -> None:
    steps = exchange.first(one)
    rest = one.steps[len(steps) :]
    assert steps + rest == one.steps
    assert not any(isinstance(step, Delete) for step in steps)
    assert exchange.is_last(one) == any(isinstance(step, Delete) for step in rest)
    after = exchange.exchanged(one)
    before = {} if one.before.seen is None else one.before.seen.inventories
    for step in rest:
        ends = step.inventories if isinstance(step, SetInventories) else {}
        assert after == (None if ends == before else ends)
    assert rest or after is None
