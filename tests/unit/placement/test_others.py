"""What others have in a host's tree, or change of ours: found, mended, kept, and never taken from anybody."""

from __future__ import annotations

import uuid

import pytest
from tests.placement_service import Placement, Timeout
from tests.unit.placement.world import T4_2B, World, t4

from cantle.errors import Conflict


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


def test_a_trait_that_cannot_be_taken_away_now_is_taken_away_later_and_lends_nothing_meanwhile(world: World) -> None:
    """A card becomes another type, and Placement refuses to let go of the old one's trait: nothing may be taken under the wrong name."""
    card, other = t4(1), t4(2)
    world.has(card, other)
    world.sync()
    other_type = frozenset({"OWNER_CYBORG", "CUSTOM_NVIDIA_1EB8_T4_4B"})
    world.becomes(card, traits=other_type, offered=2)
    world.becomes(other, out_of_service="in maintenance")

    def refused(method: str, path: str) -> None:
        sent = len(world.placement.faults.sent) + 1
        if method == "PUT" and path == f"/resource_providers/{card.uuid}/traits":
            world.placement.faults.at[sent] = 409

    world.placement.faults.before = refused
    outcome = world.sync()
    assert [(name, error.code) for name, error in outcome.problems.items()] == [(card.name, "placement-conflict")]
    assert T4_2B in world.shown(card.uuid)["traits"]
    assert world.shown(card.uuid)["VGPU"] == (4, 4, 1)
    assert world.shown(other.uuid)["VGPU"] == (4, 4, 1), "the others are served"
    world.settle()
    assert world.there() == world.expected()


def test_a_trait_and_a_class_that_nobody_of_ours_has_any_more_stay_known_and_others_keep_theirs(world: World) -> None:
    """Traits and classes are everybody's: none is deleted for all, also not with the last provider of ours."""
    first, second = (t4(number, resource_class="CUSTOM_MLX5") for number in (1, 2))
    world.has(first, second)
    world.sync()
    world.becomes(first, vanished=True)
    world.settle()
    assert T4_2B in world.shown(second.uuid)["traits"]
    world.becomes(second, vanished=True)
    world.settle()
    assert world.there() == {}
    assert T4_2B in world.placement.call("GET", "/traits?name=startswith:CUSTOM_")["traits"]
    classes = world.placement.call("GET", "/resource_classes")["resource_classes"]
    assert "CUSTOM_MLX5" in {one["name"] for one in classes}


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
    """Also whose it is, what to look at, and the command that takes it away: only that Placement had answered 409 was told."""
    card, other = t4(1), str(uuid.uuid4())
    world.placement.call("POST", "/resource_providers", {"name": card.name, "uuid": other})
    world.has(card, t4(2))
    outcome = world.sync()
    assert [error.code for error in outcome.problems.values()] == ["provider-name-taken"]
    words = outcome.problems[card.name].message
    assert card.name in words
    for command in ("show --allocations", "delete"):
        assert f"openstack resource provider {command} {other}" in words
    assert "cantle placement adopt compute-1 --plan" in words
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
