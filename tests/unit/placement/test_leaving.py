"""What is in trouble, vanishes or leaves the configuration: reserved first, and gone only when nobody has anything of it."""

from __future__ import annotations

import pytest
from tests.placement_service import Timeout
from tests.unit.placement.world import T4_2B, World, t4, whole

from cantle.errors import CantleError


def test_a_card_in_trouble_is_reserved_and_never_deleted(world: World) -> None:
    card = t4(1)
    world.has(card)
    world.sync()
    instance = world.allocate(card)
    for why in ("0000:a1:00.0 is failed", "compute-1 is down", "0000:a1:00.0 is in maintenance"):
        world.becomes(card, out_of_service=why)
        world.sync()
        assert world.shown(card.uuid)["VGPU"] == (4, 4, 1)
        assert not world.placement.call("GET", "/allocation_candidates?resources=VGPU:1")["allocation_requests"]
        world.becomes(card, out_of_service=None)
        world.sync()
        assert world.shown(card.uuid)["VGPU"] == (4, 0, 1)
    assert instance in world.placement.call("GET", f"/resource_providers/{card.uuid}/allocations")["allocations"]


def test_a_card_that_vanished_goes_and_comes_back_with_its_old_uuid(world: World) -> None:
    card = t4(1)
    world.has(card, whole(9))
    world.sync()
    world.becomes(card, out_of_service="missing")
    world.settle()
    assert world.shown(card.uuid)["VGPU"] == (4, 4, 1)
    world.becomes(card, vanished=True)
    world.settle()
    assert list(world.there()) == ["compute-1_0000:a9:00.0"]
    world.becomes(card, out_of_service=None, vanished=False)
    world.settle()
    assert world.shown(card.uuid)["VGPU"] == (4, 0, 1)


def test_a_class_that_flips_while_leased_waits_for_the_lease(world: World) -> None:
    card = whole(1)
    world.has(card)
    world.sync()
    instance = world.allocate(card)
    world.becomes(card, resource_class="VGPU", traits=frozenset({"OWNER_CYBORG", T4_2B}), offered=4, lent=1)
    outcome = world.sync()
    assert outcome.retiring == [card.name]
    assert world.shown(card.uuid)["PGPU"] == (1, 1, 1)
    assert world.shown(card.uuid)["VGPU"] == (4, 4, 1), "a card lent whole lends no parts"
    world.release(instance)
    world.becomes(card, lent=0)
    world.settle()
    assert world.there() == world.expected()


def test_what_left_the_configuration_while_leased_takes_no_new_lease_and_goes_by_itself(world: World) -> None:
    card = t4(1)
    world.has(card)
    world.sync()
    instance = world.allocate(card, 1)
    world.becomes(card, offered=0, lent=1)
    world.sync()
    assert world.shown(card.uuid)["VGPU"][:2] == (1, 1)
    world.becomes(card, lent=0)  # our own claim ends before Nova's allocation does
    assert world.sync().retiring == [card.name]
    assert card.name in world.there()
    world.release(instance)
    world.settle()
    assert world.there() == {}


def test_total_never_falls_below_what_is_used(world: World) -> None:
    card = t4(1)
    world.has(card)
    world.sync()
    for _ in range(3):
        world.allocate(card)
    world.becomes(card, offered=2, lent=2)
    outcome = world.sync()
    assert world.shown(card.uuid)["VGPU"][0] == 3
    assert outcome.retiring == [card.name]


def test_a_card_that_vanished_while_it_was_half_published_leaves_no_orphan(world: World) -> None:
    card = t4(1)
    world.has(card)
    world.placement.faults.at = {3: Timeout(after=True)}
    with pytest.raises(CantleError):
        world.sync()
    del world.parts[card.uuid]
    world.settle()
    assert world.there() == {}
    assert world.book.records == {}
