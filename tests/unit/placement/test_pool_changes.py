"""Pools whose cards change, and what an operator reserved while cards move into a pool or out of it: against the real Placement."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.databases import database
from tests.placement_service import Placement
from tests.unit.engine.cloud import make_profile
from tests.unit.placement.cloud import Cloud, Killed
from tests.unit.placement.test_pools import POOLED, a100, boot, end
from tests.unit.placement.test_reshaping import ALONE, becomes, providers, refuse_reshaping, room
from tests.unit.placement.world import whole

from cantle.placement.pool import Card, grouped

CARDS = 3


@pytest.fixture
def cloud(tmp_path: Path, service: Placement) -> Iterator[Cloud]:
    """A host with three identical cards, a provider each."""
    with database("sqlite", tmp_path) as db:
        made = Cloud(db, service, ALONE)
        make_profile(db, "one", [{"resources:PGPU": "1"}])
        made.host.report(*(a100(number) for number in range(1, CARDS + 1)))
        made.keeper().round()
        yield made


def operator_sets(cloud: Cloud, provider: str, **fields: Any) -> None:
    """With osc-placement, say."""
    path = f"/resource_providers/{provider}/inventories/PGPU"
    cloud.placement.call("PUT", path, {**cloud.placement.call("GET", path), **fields})


def test_a_trait_that_all_cards_of_a_pool_get_is_one_of_the_same_pool(cloud: Cloud) -> None:
    """It was another pool: without the reshaper its cards were published one by one, for a while beside the pool."""
    becomes(cloud, POOLED)
    before = providers(cloud)
    (pool,) = before.values()
    instance, _arqs = boot(cloud, "one", pool)
    refuse_reshaping(cloud)
    traits = (*a100(1).deployables[0].traits, "CUSTOM_MEMORY_40GB")
    marked = [
        msgspec.structs.replace(
            card,
            deployables=tuple(msgspec.structs.replace(one, traits=traits) for one in card.deployables),
        )
        for card in (a100(number) for number in range(1, CARDS + 1))
    ]
    seen: list[int] = []
    cloud.host.report(*marked)
    cloud.placement.faults.before = lambda _method, _path: seen.append(room(cloud))
    becomes(cloud, POOLED)
    cloud.placement.faults.before = None
    assert providers(cloud) == before
    assert list(cloud.shown().values()) == [(CARDS, 0)]
    assert "CUSTOM_MEMORY_40GB" in cloud.placement.call("GET", f"/resource_providers/{pool}/traits")["traits"]
    assert set(seen) == {CARDS - 1}
    assert cloud.states()[0].code is None
    end(cloud, instance)
    assert room(cloud) == CARDS
    assert cloud.round() == []


def test_a_card_that_leaves_its_pool_is_never_offered_twice_though_the_reshaper_is_not_for_us(cloud: Cloud) -> None:
    becomes(cloud, POOLED)
    refuse_reshaping(cloud)
    seen: list[int] = []
    cloud.host.report(a100(1), a100(2), a100(3, numa_node=1))
    cloud.placement.faults.before = lambda _method, _path: seen.append(room(cloud))
    becomes(cloud, POOLED)
    cloud.placement.faults.before = None
    assert sorted(cloud.shown().values()) == [(1, 0), (2, 0)]
    assert max(seen) == CARDS
    assert cloud.states()[0].code == "reshaper-forbidden"


def test_a_card_that_an_operator_reserved_is_reserved_in_the_pool_and_out_of_it(cloud: Cloud) -> None:
    """Its reservation was lost with its provider, and the card offered."""
    operator_sets(cloud, sorted(providers(cloud).items())[0][1], reserved=1)
    becomes(cloud, POOLED)
    assert list(cloud.shown().values()) == [(CARDS, 1)]
    becomes(cloud, ALONE)
    assert sorted(cloud.shown().values()) == [(1, 0), (1, 0), (1, 1)]
    assert cloud.round() == []


def test_the_max_unit_that_an_operator_gave_a_pool_is_there_after_it_was_cards_for_a_while(cloud: Cloud) -> None:
    """It was the pool's total again, and one instance could have all cards."""
    becomes(cloud, POOLED)
    operator_sets(cloud, next(iter(providers(cloud).values())), max_unit=2)
    becomes(cloud, ALONE)
    becomes(cloud, POOLED)
    (pool,) = providers(cloud).values()
    assert cloud.placement.call("GET", f"/resource_providers/{pool}/inventories/PGPU")["max_unit"] == 2
    operator_sets(cloud, pool, max_unit=CARDS)
    for shape in (POOLED, ALONE, POOLED):
        becomes(cloud, shape)
    (pool,) = providers(cloud).values()
    assert cloud.placement.call("GET", f"/resource_providers/{pool}/inventories/PGPU")["max_unit"] == CARDS
    assert cloud.round() == []


@pytest.mark.parametrize("request_", ["POST /reshaper", "DELETE"])
def test_it_is_reserved_once_when_the_keeper_is_killed_meanwhile(cloud: Cloud, request_: str) -> None:
    operator_sets(cloud, sorted(providers(cloud).items())[0][1], reserved=1)
    asked: list[str] = []

    def die(method: str, path: str) -> None:
        asked.extend([f"{method} {path}"] * f"{method} {path}".startswith(request_))
        if len(asked) == (2 if request_.startswith("POST") else 1):  # the first asks only whether it may
            raise Killed

    cloud.placement.faults.before = die
    with contextlib.suppress(Killed):
        becomes(cloud, POOLED)
    assert asked
    cloud.placement.faults.before = None
    assert room(cloud) == CARDS - 1
    becomes(cloud, POOLED)
    assert list(cloud.shown().values()) == [(CARDS, 1)]


def card(number: int, trait: str = "CUSTOM_A", **how: Any) -> Card:
    """One of several identical cards."""
    part = whole(number, traits=frozenset({"OWNER_CYBORG", trait}), **how)
    return Card(number, part, "passthrough", "A100", 0)


def of_pool(pools: Mapping[int, tuple[str, str]], *numbers: int) -> set[str]:
    """The pools that these cards are in."""
    return {pools[number][0] for number in numbers}


def test_a_pool_goes_with_most_of_its_cards_when_all_of_them_change() -> None:
    before = grouped([card(number) for number in range(5)], {})
    (pool,) = of_pool(before, *range(5))
    after = grouped([card(number, "CUSTOM_B" if number < 3 else "CUSTOM_C") for number in range(5)], before)
    assert of_pool(after, 0, 1, 2) == {pool}
    assert len(of_pool(after, 3, 4) - {pool}) == 1


def test_a_pool_stays_with_the_cards_that_do_not_change() -> None:
    before = grouped([card(number) for number in range(5)], {})
    after = grouped([card(number, "CUSTOM_B" if number else "CUSTOM_A") for number in range(5)], before)
    assert of_pool(after, 0) == of_pool(before, 0)
    assert not of_pool(after, 1, 2, 3, 4) & of_pool(before, 0)


def test_a_card_that_is_not_offered_while_the_others_change_comes_back_as_what_it_is_then() -> None:
    before = grouped([card(number) for number in range(3)], {})
    gone = replace(card(2), part=replace(card(2).part, offered=0))
    between = grouped([card(0, "CUSTOM_B"), card(1, "CUSTOM_B"), gone], before)
    assert of_pool(between, 0, 1, 2) == of_pool(before, 0)
    back = [card(0, "CUSTOM_B"), card(1, "CUSTOM_B"), card(2)]
    assert set(grouped(back, between)) == {0, 1}
    assert of_pool(grouped([*back[:2], card(2, "CUSTOM_B")], between), 0, 1, 2) == of_pool(before, 0)


def test_a_trait_that_an_operator_gave_all_cards_is_their_pools_and_one_of_a_single_card_is_not(cloud: Cloud) -> None:
    """It was lost with the cards' providers. A pool that had the trait of one card would promise it for all."""
    cards = sorted(providers(cloud).values())
    for card in cards:
        adds_trait(cloud, card, "CUSTOM_GOLD")
    adds_trait(cloud, cards[0], "CUSTOM_BEST")
    becomes(cloud, POOLED)
    (pool,) = providers(cloud).values()
    assert operators_traits(cloud, pool) == {"CUSTOM_GOLD"}
    becomes(cloud, ALONE)
    assert [operators_traits(cloud, card) for card in providers(cloud).values()] == [{"CUSTOM_GOLD"}] * CARDS
    assert cloud.round() == []


def test_a_lent_card_that_goes_into_another_pool_is_not_offered_there(tmp_path: Path, service: Placement) -> None:
    """Its allocation stays at the former pool, and the new one offered it once more: the second instance's bind failed."""
    with database("sqlite", tmp_path) as db:
        cloud = Cloud(db, service, POOLED)
        make_profile(db, "one", [{"resources:PGPU": "1"}])
        cloud.host.report(*(a100(number) for number in range(1, 6)))
        cloud.keeper().round()
        (former,) = providers(cloud).values()
        instance, _arqs = boot(cloud, "one", former)  # it has the first
        cloud.host.report(*(a100(number, numa_node=int(number < 3)) for number in range(1, 6)))
        becomes(cloud, POOLED)
        (new,) = set(providers(cloud).values()) - {former}
        assert sorted(cloud.shown().values()) == [(2, 1), (3, 0)]
        second, _arqs = boot(cloud, "one", new)
        end(cloud, second)
        end(cloud, instance)
        becomes(cloud, POOLED)
        assert sorted(cloud.shown().values()) == [(2, 0), (3, 0)]


def test_a_pool_that_a_lent_card_has_left_offers_one_less_until_its_release_and_never_one_too_many(
    cloud: Cloud,
) -> None:
    """No number is right before the release and after it; the keeper may be away when it comes."""
    becomes(cloud, POOLED)
    (pool,) = providers(cloud).values()
    instance, _arqs = boot(cloud, "one", pool)  # it has the first
    cloud.host.report(a100(1, numa_node=1), a100(2), a100(3))
    becomes(cloud, POOLED)
    assert room(cloud) == CARDS - 2
    end(cloud, instance)
    assert room(cloud) == CARDS - 1, "all cards of the pool; nobody has published anything since"
    becomes(cloud, POOLED)
    assert room(cloud) == CARDS


def adds_trait(cloud: Cloud, provider: str, name: str) -> None:
    """An operator gives a provider a trait."""
    path = f"/resource_providers/{provider}/traits"
    seen = cloud.placement.call("GET", path)
    cloud.placement.call("PUT", f"/traits/{name}")
    cloud.placement.call("PUT", path, {**seen, "traits": [*seen["traits"], name]})


def operators_traits(cloud: Cloud, provider: str) -> set[str]:
    """Of these traits, those that a provider has."""
    seen = cloud.placement.call("GET", f"/resource_providers/{provider}/traits")
    return {"CUSTOM_GOLD", "CUSTOM_BEST"} & set(seen["traits"])
