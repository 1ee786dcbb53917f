"""One host's providers in the real Placement: published once, changed with few requests, mended, and never taken from anybody."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from tests.placement_service import Fault, Placement, Timeout
from tests.unit.placement.world import T4_2B, World, t4, whole

from cantle.errors import CantleError, Conflict, NotFound, Unavailable


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


def test_a_trait_that_exists_already_is_used(world: World) -> None:
    world.placement.call("PUT", f"/traits/{T4_2B}")
    world.has(t4(1))
    world.sync()
    assert world.there() == world.expected()


def test_a_trait_that_an_operator_added_stays_and_no_trait_is_ever_deleted_for_all(world: World) -> None:
    card = t4(1)
    world.has(card)
    world.sync()
    shown = world.placement.call("GET", f"/resource_providers/{card.uuid}/traits")
    world.placement.call("PUT", "/traits/CUSTOM_GOLD")
    world.placement.call(
        "PUT", f"/resource_providers/{card.uuid}/traits", {**shown, "traits": [*shown["traits"], "CUSTOM_GOLD"]}
    )
    world.becomes(card, traits=frozenset({"OWNER_CYBORG", "CUSTOM_NVIDIA_1EB8_T4_4B"}))
    world.settle()
    assert world.shown(card.uuid)["traits"] == {"OWNER_CYBORG", "CUSTOM_NVIDIA_1EB8_T4_4B", "CUSTOM_GOLD"}
    assert T4_2B in world.placement.call("GET", "/traits?name=startswith:CUSTOM_")["traits"]


def test_reserved_and_max_unit_of_an_operator_survive_maintenance_and_a_smaller_total(world: World) -> None:
    card = t4(1)
    world.has(card)
    world.sync()
    world.operator_sets(card, reserved=3, max_unit=2)
    world.settle()
    assert world.shown(card.uuid)["VGPU"] == (4, 3, 2)
    world.becomes(card, out_of_service="in maintenance")
    world.sync()
    assert world.shown(card.uuid)["VGPU"] == (4, 4, 2)
    world.becomes(card, out_of_service=None, offered=2)
    world.sync()
    assert world.shown(card.uuid)["VGPU"] == (2, 2, 2), "never more reserved than there is"
    world.becomes(card, offered=4)
    world.sync()
    assert world.shown(card.uuid)["VGPU"] == (4, 3, 2)


def test_what_we_had_reserved_is_not_taken_for_an_operators_wish_when_we_were_killed_in_between(world: World) -> None:
    card = t4(1)
    world.has(card)
    world.sync()
    world.becomes(card, out_of_service="its host is down")
    world.placement.faults.clear()
    world.placement.faults.at = {1: Timeout(after=True)}
    world.try_sync()
    world.becomes(card, out_of_service=None)
    world.settle()
    assert world.shown(card.uuid)["VGPU"] == (4, 0, 1)


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


def test_units_lent_by_a_lease_of_our_own_are_reserved(world: World) -> None:
    world.has(t4(1, lent=3, held_back=2))
    world.sync()
    assert world.there()["compute-1_0000:a1:00.0"]["VGPU"] == (4, 2, 1)


def test_a_deleted_child_is_made_again_at_the_next_look(world: World) -> None:
    card = t4(1)
    world.has(card)
    world.sync()
    world.placement.call("DELETE", f"/resource_providers/{card.uuid}")
    world.sync(look=True)
    assert world.there() == world.expected()


def test_a_child_deleted_by_others_is_made_again_also_when_a_change_finds_out(world: World) -> None:
    card = t4(1)
    world.has(card)
    world.sync()
    world.placement.call("DELETE", f"/resource_providers/{card.uuid}")
    world.becomes(card, offered=8)
    world.sync()
    assert world.there() == world.expected()


def test_a_compute_node_made_anew_gets_the_children_of_the_former_one(world: World) -> None:
    card = t4(1)
    world.has(card)
    world.sync()
    instance = world.allocate(card)
    world.placement.call("PUT", f"/resource_providers/{world.node}", {"name": "compute-1-former"}, version="1.0")
    with pytest.raises(Conflict) as refused:
        world.sync(look=True)
    assert refused.value.code == "host-renamed"
    # Somebody who may do that takes the former one away; Placement lets a root go only without children.
    fresh = world.compute_node()
    move = {"name": card.name, "parent_provider_uuid": world.compute_node("elsewhere")}
    world.placement.call("PUT", f"/resource_providers/{card.uuid}", move)
    world.placement.call("DELETE", f"/resource_providers/{world.node}")
    world.node = fresh
    world.settle()
    assert world.there() == world.expected()
    assert instance in world.placement.call("GET", f"/resource_providers/{card.uuid}/allocations")["allocations"]


def test_a_host_that_is_not_in_placement_is_told_with_all_names_that_were_tried(world: World) -> None:
    world.placement.call("DELETE", f"/resource_providers/{world.node}")
    world.has(t4(1))
    with pytest.raises(NotFound) as refused:
        world.sync()
    assert refused.value.code == "host-not-in-placement"
    assert "'compute-1'" in refused.value.message


def test_a_provider_without_the_owners_trait_is_left_alone_and_the_others_are_served(world: World) -> None:
    card = t4(1)
    world.has(card)
    world.sync()
    shown = world.placement.call("GET", f"/resource_providers/{card.uuid}/traits")
    world.placement.call("PUT", f"/resource_providers/{card.uuid}/traits", {**shown, "traits": []})
    world.becomes(card, offered=8)
    world.has(t4(2))
    outcome = world.sync(look=True)
    assert [(name, error.code) for name, error in outcome.problems.items()] == [(card.name, "provider-not-ours")]
    assert world.shown(card.uuid)["VGPU"] == (4, 0, 1)
    assert world.there()["compute-1_0000:a2:00.0"]["VGPU"] == (4, 0, 1)


def test_providers_of_others_in_the_tree_are_never_touched(world: World) -> None:
    theirs = str(uuid.uuid4())
    body = {"name": "compute-1_pci_0000_3b_00_0", "uuid": theirs, "parent_provider_uuid": world.node}
    world.placement.call("POST", "/resource_providers", body)
    before = world.placement.call("GET", f"/resource_providers/{theirs}")
    world.has(t4(1))
    outcome = world.sync()
    assert [node.uuid for node in outcome.others or []] == [theirs]
    assert world.placement.call("GET", f"/resource_providers/{theirs}") == before


def test_a_name_that_another_provider_has_is_told_and_the_others_are_served(world: World) -> None:
    card = t4(1)
    world.placement.call("POST", "/resource_providers", {"name": card.name, "uuid": str(uuid.uuid4())})
    world.has(card, t4(2))
    outcome = world.sync()
    assert [error.code for error in outcome.problems.values()] == ["provider-name-taken"]
    assert "compute-1_0000:a2:00.0" in world.there()


def test_somebody_who_is_always_quicker_is_told_of_and_ends_nothing(world: World, service: Placement) -> None:
    card, other = t4(1), t4(2)
    world.has(card, other)
    world.sync()
    turn = iter(range(100))

    def meddle(method: str, path: str) -> None:
        if method == "PUT" and card.uuid in path:
            world.operator_sets(card, reserved=next(turn) % 3)

    world.becomes(card, offered=8)
    world.becomes(other, offered=8)
    service.faults.before = meddle
    outcome = world.sync()
    assert [error.code for error in outcome.problems.values()] == ["placement-conflict"]
    assert world.shown(other.uuid)["VGPU"] == (8, 0, 1)
    service.faults.before = None
    world.settle()
    assert world.shown(card.uuid)["VGPU"][0] == 8


@pytest.mark.parametrize("fault", [503, 502, 401, Timeout()], ids=str)
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
    assert [error.code for error in outcome.problems.values()] == ["placement-refused"]
    assert world.there()["compute-1_0000:a2:00.0"]["VGPU"] == (4, 0, 1)


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
