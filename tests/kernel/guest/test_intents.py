"""Intents on a real kernel, from the command to the driver and back, and after a reboot with the server away.

The last two tests are one story over two starts of the guest; what passes between them is on the disk at /keep, as on a real host.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kernel.guest import configuration, sysfs
from tests.kernel.guest.command import CANTLE, cantle, run
from tests.kernel.guest.configuration import T4
from tests.kernel.guest.holder import holding
from tests.kernel.guest.world import World, handles
from tests.kernel.lab.machine import SHARED_DISPLAY, SHARED_NIC, address

KEEP = Path("/keep")
STATE = KEEP / "intents"
LENT = KEEP / "intents-lent.json"
CARD = address("t4-second")
GEFORCE, AUDIO = address("geforce"), address("geforce", 1)
INSTINCT, FLEX = address("instinct"), address("flex")
FOREIGN = "99999999-2222-4333-8444-555555555555"


@pytest.fixture(scope="module")
def world(cards: None) -> Iterator[World]:
    world = World(STATE, configuration.write(KEEP))
    try:
        sysfs.until(lambda: T4 in world.capacity(), "the agent's first report")
        world.profile("slice", {"resources:VGPU": "1", "trait:CUSTOM_NVIDIA_1EB8_T4_1B": "required"})
        world.profile("port", {"resources:VGPU": "1", "trait:CUSTOM_MDEV_MTTY_SINGLE_PORT_SERIAL": "required"})
        world.profile("whole", {"resources:PGPU": "1", "trait:CUSTOM_NVIDIA_2204": "required"})
        yield world
    finally:
        world.server.stop()


def set_mode(card: str, mode: str, *options: str) -> dict[str, Any]:
    """Returns when the host has followed."""
    return dict(cantle("device", "set-mode", card, mode, *options))


def refused(*arguments: str) -> str:
    """What a command that must fail says."""
    done = subprocess.run([CANTLE, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode != 0, f"cantle {' '.join(arguments)} did not fail"
    return done.stderr


def test_a_plan_names_the_steps_and_the_kernel_is_as_before(world: World) -> None:
    told = run("device", "set-mode", GEFORCE, "passthrough", "--plan")
    assert f"take {GEFORCE} from the driver nvidia" in told
    assert f"give {AUDIO} to the driver vfio-pci" in told
    assert (sysfs.driver(GEFORCE), sysfs.driver(AUDIO)) == ("nvidia", "snd_hda_intel")


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
    lease = world.lend("slice")
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


def test_a_card_in_a_group_with_a_network_card_is_refused_before_anything_is_touched(world: World) -> None:
    before = (sysfs.driver(SHARED_DISPLAY), sysfs.driver(SHARED_NIC))
    assert SHARED_NIC in refused("device", "set-mode", SHARED_DISPLAY, "passthrough", "--timeout", "5")
    assert (sysfs.driver(SHARED_DISPLAY), sysfs.driver(SHARED_NIC)) == before


def test_cards_of_amd_and_intel_go_and_come_back(world: World) -> None:
    for card in (INSTINCT, FLEX):
        before = sysfs.driver(card)
        set_mode(card, "passthrough")
        assert sysfs.driver(card) == "vfio-pci"
        run("device", "intent", "clear", card)
        assert sysfs.driver(card) == before


def test_serial_ports_screens_and_pictures_change_their_type(world: World) -> None:
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


def test_intents_are_set_and_units_lent_and_the_server_dies(world: World) -> None:
    set_mode(T4, "mdev", "--type", "nvidia-222")
    set_mode(GEFORCE, "passthrough")
    set_mode("mtty", "mdev", "--type", "mtty-1")
    lent = [world.lend("slice"), world.lend("port"), world.lend("whole")]
    LENT.write_text(json.dumps(lent))
    world.server.kill()
    power_off(handles(lent[0]) + handles(lent[1]))


def power_off(units: list[str]) -> None:
    """What the loss of power does to what is in the kernel, done here for the tests that come after in this boot."""
    for one in units:
        sysfs.write(sysfs.MDEVS / one / "remove", "1")
    for card, driver in ((GEFORCE, "nvidia"), (AUDIO, "snd_hda_intel")):
        sysfs.write(sysfs.function(card) / "driver_override", "\n")
        sysfs.write(sysfs.PCI / "drivers/vfio-pci/unbind", card)
        sysfs.write(sysfs.PCI / "drivers" / driver / "bind", card)


@pytest.mark.boot("rebooted")
def test_after_the_reboot_cards_and_units_are_as_wanted_before_any_server_runs() -> None:
    lent = json.loads(LENT.read_text())
    mdevs = {*handles(lent[0]), *handles(lent[1])}
    assert not mdevs & sysfs.mdevs()
    assert sysfs.driver(GEFORCE) == "nvidia"
    config = configuration.write(KEEP)
    told = run("agent", "restore", "--state-dir", str(STATE), "--config-file", config)
    assert told.endswith("3 intents, 3 lent units, 0 failures\n")
    assert mdevs <= sysfs.mdevs()
    assert (sysfs.driver(GEFORCE), sysfs.driver(AUDIO)) == ("vfio-pci", "vfio-pci")
    world = World(STATE, config)
    try:
        sysfs.until(lambda: world.device(T4)["intent_state"] == "applied", "the agent's first report")
        assert world.numbers(T4) == (16, 1, 15)
        for lease in lent:
            assert world.lease(lease)["state"] == "active"
            world.give_back(lease)
        assert not mdevs & sysfs.mdevs()
        for card in (T4, GEFORCE, "mtty"):
            run("device", "intent", "clear", card)
        assert (sysfs.driver(GEFORCE), sysfs.driver(AUDIO)) == ("nvidia", "snd_hda_intel")
    finally:
        world.server.stop()
