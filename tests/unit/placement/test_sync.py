"""One host's providers in the real Placement: published once, changed with few requests, completed whatever fails."""

from __future__ import annotations

from typing import Any

import pytest
from tests.placement_service import Fault, Timeout
from tests.unit.placement.world import T4_2B, World, t4, whole

from cantle.errors import NotFound, Unavailable


def test_the_card_of_the_seeds_example_comes_out_exactly(world: World) -> None:
    """Spec S0.9: a T4 at 0000:af:00.0 with nvidia-223."""
    card = t4(0xF)
    world.has(card)
    world.sync()
    found = world.placement.call("GET", f"/resource_providers?in_tree={world.node}")["resource_providers"]
    (child,) = [one for one in found if one["uuid"] != world.node]
    assert (child["uuid"], child["name"]) == (card.uuid, "compute-1_0000:af:00.0")
    assert child["parent_provider_uuid"] == world.node
    assert world.there() == {
        "compute-1_0000:af:00.0": {"VGPU": (4, 0, 1), "traits": {"OWNER_CYBORG", "CUSTOM_NVIDIA_1EB8_T4_2B"}}
    }


def test_placement_finds_a_vgpu_by_class_and_trait_and_a_generic_class_by_its_name(world: World) -> None:
    world.has(t4(1), t4(2, resource_class="CUSTOM_MLX5", traits=frozenset({"OWNER_CYBORG", "CUSTOM_MLX5_CORE"})))
    world.sync()
    for query in (
        f"resources=VGPU:1&required={T4_2B}",
        "resources=CUSTOM_MLX5:1",
        "resources=VGPU:1&required=OWNER_CYBORG",
    ):
        found = world.placement.call("GET", f"/allocation_candidates?{query}")
        assert len(found["allocation_requests"]) == 1, query
    assert not world.placement.call("GET", "/allocation_candidates?resources=VGPU:2")["allocation_requests"]


def test_what_did_not_change_costs_no_request_and_a_look_costs_one(world: World) -> None:
    world.has(t4(1), t4(2), whole(3))
    world.sync()
    assert world.sync().written == 0
    assert world.placement.faults.sent == []
    world.sync(look=True)
    assert [one.method for one in world.placement.faults.sent] == ["GET"]


def test_one_more_card_costs_three_requests_and_a_change_of_one_at_most_four(world: World) -> None:
    card = t4(1)
    world.has(card)
    world.sync()
    world.has(t4(2))
    world.sync()
    assert len(world.placement.faults.sent) == 3
    world.allocate(card)  # so that what we know of its generation is out of date
    world.becomes(card, out_of_service="in maintenance")
    world.sync()
    assert len(world.placement.faults.sent) == 4
    world.becomes(card, out_of_service=None, offered=2)
    world.sync()
    assert len(world.placement.faults.sent) <= 4


@pytest.mark.parametrize(
    "how",
    [
        {"resource_class": "PGPU", "traits": frozenset({"OWNER_CYBORG", "CUSTOM_NVIDIA_20B0"}), "offered": 1},
        {"traits": frozenset({"OWNER_CYBORG", "CUSTOM_NVIDIA_20B0"})},
        {"traits": frozenset({"OWNER_CYBORG", "CUSTOM_NVIDIA_20B0"}), "offered": 2},
        {"offered": 2},
    ],
    ids=["class", "traits", "traits-and-total", "total"],
)
def test_any_change_of_a_card_costs_four_requests_and_six_when_others_were_at_it(
    world: World, how: dict[str, Any]
) -> None:
    first, second = t4(1), t4(2)
    world.has(first, second, whole(3))  # whose trait is known from here on
    world.sync()
    world.becomes(first, **how)
    world.sync()
    assert len(world.placement.faults.sent) <= 4
    world.release(world.allocate(second))  # so that what we know of its generation is out of date
    world.becomes(second, **how)
    world.sync()
    assert len(world.placement.faults.sent) <= 6
    assert world.there() == world.expected()


def test_a_change_after_which_nothing_is_offered_is_not_closed_twice(world: World) -> None:
    """All was reserved, the traits written, and all reserved once more: a card in maintenance that is another type now."""
    card = t4(1)
    world.has(card, whole(2))  # whose trait is known from here on
    world.sync()
    other_type = frozenset({"OWNER_CYBORG", "CUSTOM_NVIDIA_20B0"})
    world.becomes(card, traits=other_type, out_of_service="in maintenance")
    world.sync()
    assert [one.path.rsplit("/", 1)[-1] for one in world.placement.faults.sent] == ["inventories", "traits"]
    assert world.there() == world.expected()


@pytest.mark.parametrize("number", range(1, 9))
@pytest.mark.parametrize("fault", [409, 500, 503, Timeout(), Timeout(after=True)], ids=str)
def test_whatever_request_of_a_first_publication_fails_the_next_attempts_complete_it(
    world: World, number: int, fault: Fault
) -> None:
    """500 on the second of three calls for a new card, and all its siblings."""
    world.has(t4(1), whole(2))
    world.placement.faults.at = {number: fault}
    world.try_sync()
    world.settle()
    assert world.there() == world.expected()


def test_500_on_the_second_of_three_calls_for_a_new_card_leaves_nothing_to_take_and_is_completed_next_time(
    world: World,
) -> None:
    world.has(t4(1))
    world.sync()
    new = t4(2)
    world.has(new)
    world.placement.faults.at = {2: 500}
    outcome = world.sync()
    assert [(one.method, one.status) for one in world.placement.faults.sent] == [("POST", 200), ("PUT", 500)]
    assert list(outcome.problems) == [new.name]
    assert world.there()[new.name] == {"traits": set()}, "it is there and lends nothing"
    world.placement.faults.clear()
    world.sync(look=True)
    assert world.there() == world.expected()


def test_traits_come_before_inventory_so_that_nothing_is_taken_without_them(world: World) -> None:
    world.has(t4(1))
    world.placement.faults.before = lambda method, path: seen.append((method, path.rsplit("/", 1)[-1]))
    seen: list[tuple[str, str]] = []
    world.sync()
    writes = [
        name for method, name in seen if method != "GET" and name in ("traits", "inventories", "resource_providers")
    ]
    assert writes[0] == "resource_providers"
    assert writes[-1] == "inventories"


def test_units_lent_by_a_lease_of_our_own_are_reserved(world: World) -> None:
    world.has(t4(1, lent=3, held_back=2))
    world.sync()
    assert world.there()["compute-1_0000:a1:00.0"]["VGPU"] == (4, 2, 1)


def test_a_host_that_is_not_in_placement_is_told_with_all_names_that_were_tried(world: World) -> None:
    world.placement.call("DELETE", f"/resource_providers/{world.node}")
    world.has(t4(1))
    with pytest.raises(NotFound) as refused:
        world.sync()
    assert refused.value.code == "host-not-in-placement"
    assert "'compute-1'" in refused.value.message


@pytest.mark.parametrize("fault", [500, 503, 502, 504, 401, Timeout()], ids=str)
def test_a_placement_that_is_away_ends_the_attempt_at_once(world: World, fault: Any) -> None:
    world.has(*(t4(number) for number in range(8)))
    world.placement.faults.always = fault
    with pytest.raises(Unavailable) as refused:
        world.sync()
    assert refused.value.code == "placement-away"
    assert len(world.placement.faults.sent) == 1


def test_a_first_provider_that_fails_does_not_hold_up_the_second(world: World) -> None:
    world.has(t4(1), t4(2))
    world.placement.faults.at = {3: 500}
    outcome = world.sync()
    assert [error.code for error in outcome.problems.values()] == ["placement-away"]
    assert world.there()["compute-1_0000:a2:00.0"]["VGPU"] == (4, 0, 1)
