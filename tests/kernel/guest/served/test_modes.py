"""Modes of each kind of card on real drivers: a card with its audio, cards of AMD and Intel, parents that are no PCI function; who is in
the way of a change is named, and the card stays as it is."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kernel.guest import sysfs
from tests.kernel.guest.command import cantle, refused, run
from tests.kernel.guest.configuration import T4
from tests.kernel.guest.holder import holding
from tests.kernel.guest.world import World, handles
from tests.kernel.lab.machine import address

GEFORCE, AUDIO = address("geforce"), address("geforce", 1)
INSTINCT, FLEX = address("instinct"), address("flex")
#: In the guest's own layer of the root, which is gone when it is switched off.
BROKEN = Path("/etc/modprobe.d/broken.conf")
FOREIGN = "99999999-2222-4333-8444-555555555555"


@pytest.fixture(autouse=True)
def nothing_wanted(world: World) -> Iterator[None]:
    """A test that fails leaves no wish behind."""
    yield
    world.give_back_all()
    for card in (T4, GEFORCE, INSTINCT, FLEX, "mtty", "mdpy", "mbochs"):
        if world.device(card)["intent_state"] != "none":
            run("device", "intent", "clear", card)


def set_mode(card: str, mode: str, *options: str) -> dict[str, Any]:
    """Returns when the host has followed."""
    return dict(cantle("device", "set-mode", card, mode, *options, "--timeout", "60"))


def test_a_card_goes_to_vfio_pci_with_its_audio_stays_there_from_lease_to_lease_and_comes_back(world: World) -> None:
    assert set_mode(GEFORCE, "passthrough")["intent_state"] == "applied"
    assert (sysfs.driver(GEFORCE), sysfs.driver(AUDIO)) == ("vfio-pci", "vfio-pci")
    lease = world.lend("whole")
    assert "device-in-use" in refused("device", "intent", "clear", GEFORCE)
    world.give_back(lease)
    assert (sysfs.driver(GEFORCE), sysfs.driver(AUDIO)) == ("vfio-pci", "vfio-pci")
    with holding(GEFORCE) as pid:
        assert f"pid {pid}" in refused("device", "intent", "clear", GEFORCE, "--timeout", "10")
        assert (sysfs.driver(GEFORCE), sysfs.driver(AUDIO)) == ("vfio-pci", "vfio-pci")
    sysfs.until(lambda: sysfs.driver(GEFORCE) == "nvidia", "the card is back on its driver when the process has ended")
    sysfs.until(lambda: sysfs.driver(AUDIO) == "snd_hda_intel", "its audio is too")
    sysfs.until(lambda: world.device(GEFORCE)["intent_state"] == "none", "the server knows")


def test_a_card_is_cut_into_another_type_than_configured_and_still_knows_its_types_on_vfio_pci(world: World) -> None:
    set_mode(T4, "passthrough")
    assert (sysfs.driver(T4), world.numbers(T4)) == ("vfio-pci", (1, 0, 1))
    status, card = world.server.call("GET", f"/v1/hosts/{world.device(T4)['hostname']}/devices/{T4}")
    assert (status, card["mdev_types"][T4]["nvidia-223"]) == (200, "GRID T4-2B")
    set_mode(T4, "mdev", "--type", "nvidia-222")
    assert (sysfs.driver(T4), world.numbers(T4)) == ("nvidia", (16, 0, 16))
    lease = world.lend("small")
    assert {(sysfs.MDEVS / one / "mdev_type").resolve().name for one in handles(lease)} == {"nvidia-222"}
    world.give_back(lease)
    run("device", "intent", "clear", T4)
    assert world.numbers(T4) == (8, 0, 8)


def test_a_mediated_device_of_somebody_else_keeps_the_card_as_it_is(world: World) -> None:
    create = sysfs.PARENTS / T4 / "mdev_supported_types" / "nvidia-223" / "create"
    sysfs.write(create, FOREIGN)
    told = refused("device", "set-mode", T4, "passthrough", "--timeout", "10")
    assert FOREIGN in told
    assert (sysfs.driver(T4), sysfs.mdevs()) == ("nvidia", {FOREIGN})
    sysfs.write(sysfs.MDEVS / FOREIGN / "remove", "1")
    sysfs.until(lambda: sysfs.driver(T4) == "vfio-pci", "the agent tries again and succeeds")
    run("device", "intent", "clear", T4)
    assert sysfs.driver(T4) == "nvidia"


@pytest.fixture
def broken_modprobe() -> Iterator[None]:
    """vfio-pci is not loaded, and the command that its configuration names for loading it fails."""
    subprocess.run(["modprobe", "-r", "vfio-pci"], check=True)
    BROKEN.write_text("install vfio-pci /bin/sh -c 'echo no luck today >&2; exit 3'\n")
    yield
    BROKEN.unlink(missing_ok=True)


def test_a_modprobe_that_fails_is_told_with_its_words_and_the_card_stays_until_the_retry_succeeds(
    world: World, broken_modprobe: None
) -> None:
    drivers = sysfs.PCI / "drivers"
    assert not (drivers / "vfio-pci").exists()
    told = refused("device", "set-mode", GEFORCE, "passthrough", "--timeout", "10")
    assert "cannot load the module vfio-pci: modprobe ended with 1: " in told
    assert "no luck today" in told
    assert (sysfs.driver(GEFORCE), sysfs.driver(AUDIO)) == ("nvidia", "snd_hda_intel")
    assert sysfs.text(sysfs.function(GEFORCE) / "driver_override") == "(null)"
    BROKEN.unlink()
    sysfs.until(lambda: sysfs.driver(GEFORCE) == "vfio-pci", "the agent tries again and succeeds")
    run("device", "intent", "clear", GEFORCE)
    assert (sysfs.driver(GEFORCE), sysfs.driver(AUDIO)) == ("nvidia", "snd_hda_intel")


def test_cards_of_amd_and_intel_go_and_come_back(world: World) -> None:
    for card in (INSTINCT, FLEX):
        before = sysfs.driver(card)
        set_mode(card, "passthrough")
        assert sysfs.driver(card) == "vfio-pci"
        run("device", "intent", "clear", card)
        assert sysfs.driver(card) == before


def test_serial_ports_screens_and_pictures_change_their_type(world: World) -> None:
    world.profile("port", {"resources:VGPU": "1", "trait:CUSTOM_MDEV_MTTY_SINGLE_PORT_SERIAL": "required"})
    for parent, type_id in (("mtty", "mtty-1"), ("mdpy", "mdpy-xga"), ("mbochs", "mbochs-small")):
        before = world.numbers(parent)
        set_mode(parent, "mdev", "--type", type_id)
        row = world.capacity()[parent]
        assert row["free"] > 0
        assert any(trait.startswith("CUSTOM_MDEV_") for trait in row["traits"])
        if parent == "mtty":
            lease = world.lend("port")
            (port,) = handles(lease)
            assert (sysfs.MDEVS / port / "mdev_type").resolve().name == "mtty-1"
            assert "device-in-use" in refused("device", "set-mode", parent, "mdev", "--type", "mtty-2")
            world.give_back(lease)
        run("device", "intent", "clear", parent)
        assert world.numbers(parent) == before
