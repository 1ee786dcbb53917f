"""What an operator sets of a provider of ours: there again when it is made anew or has another class, where that does no harm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.placement.world import World, t4, whole

from cantle.model.provider import Operator, Provider, Record, Wanted
from cantle.placement.difference import SetInventories, difference
from cantle.placement.wanted import Part

HIS = {"max_unit": 4, "min_unit": 2, "step_size": 2, "allocation_ratio": 0.5}
GOLD = "CUSTOM_GOLD"


def deleted(world: World, card: Part) -> Part:
    """Somebody deletes the provider."""
    world.placement.call("DELETE", f"/resource_providers/{card.uuid}")
    return card


def another_class(world: World, card: Part) -> Part:
    """Its mediated devices get another class (``mdev_class``)."""
    return world.becomes(card, resource_class="CUSTOM_MLX5")


def smaller(world: World, card: Part) -> Part:
    """It is one unit of another class from now on: lent whole."""
    return world.becomes(card, resource_class="PGPU", offered=1)


def adds_trait(world: World, card: Part, *more: str) -> None:
    """An operator adds traits, which he has made known before."""
    path = f"/resource_providers/{card.uuid}/traits"
    seen = world.placement.call("GET", path)
    for name in more:
        world.placement.call("PUT", f"/traits/{name}")
    world.placement.call("PUT", path, {**seen, "traits": [*seen["traits"], *more]})


def inventory(world: World, card: Part) -> dict[str, Any]:
    """What Placement has of it now, of its one class."""
    found = world.placement.call("GET", f"/resource_providers/{card.uuid}/inventories")["inventories"]
    assert list(found) == [card.resource_class]
    fields: dict[str, Any] = found[card.resource_class]
    return fields


@pytest.mark.parametrize(("change", "known"), [(deleted, True), (another_class, True), (another_class, False)])
def test_min_unit_step_ratio_and_traits_of_an_operator_are_there_again(
    world: World, change: Callable[[World, Part], Part], known: bool
) -> None:
    """All but ``reserved`` and ``max_unit`` was lost when the provider was deleted by hand, or its class changed."""
    card = t4(1, offered=8)
    world.has(card)
    world.sync()
    world.operator_sets(card, reserved=2, **HIS)
    adds_trait(world, card, GOLD)
    if known:
        world.sync(look=True)
    card = change(world, card)
    world.settle()
    found = inventory(world, card)
    assert {name: found[name] for name in ("total", "reserved", *HIS)} == {"total": 8, "reserved": 2, **HIS}
    assert world.shown(card.uuid)["traits"] == {*card.traits, GOLD}


def test_what_he_takes_back_stays_away(world: World) -> None:
    card = t4(1, offered=8)
    world.has(card)
    world.sync()
    world.operator_sets(card, **HIS)
    adds_trait(world, card, GOLD)
    world.settle()
    world.operator_sets(card, min_unit=1, step_size=1, allocation_ratio=1.0, max_unit=1)
    path = f"/resource_providers/{card.uuid}/traits"
    world.placement.call("PUT", path, {**world.placement.call("GET", path), "traits": sorted(card.traits)})
    world.settle()
    deleted(world, card)
    world.settle()
    assert world.there() == world.expected()
    assert inventory(world, card)["min_unit"] == 1


@pytest.mark.parametrize("change", [deleted, another_class])
def test_a_ratio_that_would_lend_a_unit_twice_is_left_where_he_set_it_and_carried_nowhere(
    world: World, change: Callable[[World, Part], Part]
) -> None:
    card = t4(1)
    world.has(card)
    world.sync()
    world.operator_sets(card, allocation_ratio=4.0)
    world.becomes(card, offered=8)
    world.settle()
    assert inventory(world, card)["allocation_ratio"] == 4.0, "his, as long as it is there"
    card = change(world, world.parts[card.uuid])
    world.settle()
    assert inventory(world, card)["allocation_ratio"] == 1.0


def test_numbers_with_which_nothing_could_be_taken_wait_for_a_class_that_they_fit(world: World) -> None:
    """A card that is lent whole is one unit: in steps of two, nobody would get it, and nothing would say why."""
    card = t4(1, offered=8)
    world.has(card)
    world.sync()
    world.operator_sets(card, **HIS)
    world.settle()
    card = smaller(world, card)
    world.settle()
    assert inventory(world, card) | {"max_unit": 1} == {
        **inventory(world, card),
        **{"total": 1, "reserved": 0, "max_unit": 1, "min_unit": 1, "step_size": 1, "allocation_ratio": 1.0},
    }
    card = world.becomes(card, resource_class="VGPU", offered=8)
    world.settle()
    assert {name: inventory(world, card)[name] for name in HIS} == HIS


@pytest.mark.parametrize("number", range(1, 7))
def test_a_keeper_killed_while_it_makes_the_provider_anew_loses_nothing_of_it(world: World, number: int) -> None:
    card = t4(1, offered=8)
    world.has(card)
    world.sync()
    world.operator_sets(card, **HIS)
    adds_trait(world, card, GOLD)
    world.settle()
    deleted(world, card)
    world.placement.faults.clear()
    world.placement.faults.at = {number: 503}
    world.troubled = True
    world.try_sync()
    world.settle()
    assert {name: inventory(world, card)[name] for name in HIS} == HIS
    assert GOLD in world.shown(card.uuid)["traits"]


def test_a_card_that_is_lent_whole_keeps_a_trait_and_no_ratio(world: World) -> None:
    card = whole(1)
    world.has(card)
    world.sync()
    world.operator_sets(card, allocation_ratio=0.5)
    adds_trait(world, card, GOLD)
    world.settle()
    deleted(world, card)
    world.settle()
    assert inventory(world, card)["allocation_ratio"] == 1.0, "half a card is none"
    assert GOLD in world.shown(card.uuid)["traits"]


@given(
    total=st.integers(1, 16),
    operator=st.builds(
        Operator,
        max_unit=st.none() | st.integers(1, 16),
        min_unit=st.integers(1, 20),
        step_size=st.integers(1, 20),
        allocation_ratio=st.sampled_from([-1.0, 0.0, 0.1, 0.5, 1.0, 1.5, 16.0]),
    ),
)
def test_a_provider_made_anew_offers_something_and_no_more_than_there_is(total: int, operator: Operator) -> None:
    """By Placement's own rule of what may be taken: from min_unit to max_unit in steps, up to the capacity."""
    wish = Wanted("a uuid", "card", "VGPU", total, 1, frozenset({"OWNER_CYBORG"}))
    found = difference(wish, Record("a uuid", "card", operator=operator), None, "root")
    (one,) = (step.inventories["VGPU"] for step in found.steps if isinstance(step, SetInventories))
    capacity = int(one.total * one.allocation_ratio)
    takeable = [units for units in range(one.min_unit, min(one.max_unit, capacity) + 1) if units % one.step_size == 0]
    assert takeable
    assert capacity <= total
    after = Provider("a uuid", "card", "root", 3, {"VGPU": one}, wish.traits)
    again = difference(wish, found.before, after, "root")
    assert again.steps == ()
    assert again.before.operator == operator, "what was not written is remembered all the same"
