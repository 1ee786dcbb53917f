"""Intents: an operator turns a card into something else with ``cantle device set-mode``, on real drivers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.kernel.guest import sysfs
from tests.kernel.guest.command import cantle, refused, run
from tests.kernel.guest.world import World, handles
from tests.kernel.lab.machine import SHARED_DISPLAY, SHARED_NIC, address

CARD = address("t4-second")


@pytest.fixture(autouse=True)
def as_configured(world: World) -> Iterator[None]:
    """Each test finds and leaves the card as the configuration says: lent whole, on its own driver."""
    assert sysfs.driver(CARD) == "nvidia"
    yield
    world.give_back_all()
    if world.device(CARD)["intent"]:
        run("device", "intent", "clear", CARD)
    assert sysfs.driver(CARD) == "nvidia"


def set_mode(*arguments: str) -> dict[str, Any]:
    """The card as the command shows it when its host has followed."""
    return dict(cantle("device", "set-mode", CARD, *arguments, "--timeout", "60"))


def test_a_plan_names_the_steps_and_changes_nothing(world: World) -> None:
    plan = cantle("device", "set-mode", CARD, "passthrough", "--plan")
    assert (plan["device"], plan["mode"], plan["code"]) == (CARD, "passthrough", None)
    assert [step["name"] for step in plan["steps"]] == ["set-override", "unbind-driver", "bind-driver"]
    assert sysfs.driver(CARD) == "nvidia"
    assert sysfs.text(sysfs.function(CARD) / "driver_override") == "(null)"


def test_a_card_wanted_for_passthrough_is_on_vfio_pci_lent_or_not_and_still_lists_what_else_it_could_be(
    world: World,
) -> None:
    card = set_mode("passthrough")
    assert (card["mode"], card["intent_state"], sysfs.driver(CARD)) == ("passthrough", "applied", "vfio-pci")
    assert "mdev" in world.device(CARD)["capabilities"]
    lease = world.lend("second")
    assert sysfs.driver(CARD) == "vfio-pci"
    world.give_back(lease)
    assert sysfs.driver(CARD) == "vfio-pci"


def test_a_card_is_cut_into_another_type_and_made_whole_again(world: World) -> None:
    assert world.capacity()[CARD]["resource_class"] == "PGPU"
    set_mode("mdev", "--type", "nvidia-222")
    assert world.numbers(CARD) == (16, 0, 16)
    lease = world.lend("small")
    (handle,) = handles(lease)
    assert (sysfs.MDEVS / handle / "mdev_type").resolve().name == "nvidia-222"
    assert (sysfs.MDEVS / handle).resolve().parent.name == CARD
    world.give_back(lease)

    run("device", "intent", "clear", CARD)
    assert (world.capacity()[CARD]["resource_class"], world.numbers(CARD)) == ("PGPU", (1, 0, 1))


def test_a_card_with_a_lent_slice_is_not_turned_into_something_else(world: World) -> None:
    set_mode("mdev", "--type", "nvidia-222")
    lease = world.lend("small")
    words = refused("device", "set-mode", CARD, "passthrough")
    assert lease["uuid"] in words
    assert (sysfs.driver(CARD), sysfs.mdevs()) == ("nvidia", set(handles(lease)))


def test_a_card_that_shares_its_group_is_not_turned_and_nothing_of_the_group_is_touched(world: World) -> None:
    words = refused("device", "set-mode", SHARED_DISPLAY, "passthrough", "--timeout", "60")
    assert SHARED_NIC in words
    assert world.device(SHARED_DISPLAY)["intent"] is None
    assert (sysfs.driver(SHARED_DISPLAY), sysfs.driver(SHARED_NIC)) == (None, "e1000")
    assert sysfs.text(sysfs.function(SHARED_DISPLAY) / "driver_override") == "(null)"
