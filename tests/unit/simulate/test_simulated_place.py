"""Where a simulated host is kept: opened again, booted, made anew, and refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.unit.simulate.shown import FIRST, M40, T4, TYPES, everything

from cantle import simulate
from cantle.errors import BadRequest, HostError
from cantle.kernel import mdev


def test_opening_the_directory_again_keeps_its_state(t4: simulate.SimulatedRoot) -> None:
    t4.write(f"{TYPES}/nvidia-223/create", FIRST)
    again = simulate.build(simulate.load("t4"), t4.path)
    assert mdev.devices(again) == [mdev.MdevDevice(FIRST, "nvidia-223", T4)]
    again.write(f"sys/bus/mdev/devices/{FIRST}/remove", "1")
    assert mdev.devices(t4) == []


def test_a_reboot_forgets_what_a_reboot_forgets(t4: simulate.SimulatedRoot) -> None:
    before = everything(t4)
    t4.write(f"{TYPES}/nvidia-223/create", FIRST)
    t4.hold(FIRST)
    t4.write(f"sys/bus/pci/devices/{M40}/driver_override", "vfio-pci")
    t4.write("sys/bus/pci/drivers/nvidia/unbind", M40)
    simulate.reboot(t4)
    assert everything(t4) == before


def test_a_pulled_card_is_gone_until_the_reboot(t4: simulate.SimulatedRoot) -> None:
    before = everything(t4)
    t4.write(f"{TYPES}/nvidia-223/create", FIRST)
    t4.unplug(T4)
    assert T4 not in t4.names("sys/bus/pci/devices")
    assert mdev.devices(t4) == []
    assert mdev.parents(t4) == []
    simulate.reboot(t4)
    assert everything(t4) == before


def test_a_directory_of_another_description_is_made_anew(tmp_path: Path) -> None:
    simulate.build(simulate.load("t4"), tmp_path / "host")
    root = simulate.build(simulate.load("mtty"), tmp_path / "host")
    assert mdev.parents(root) == ["mtty"]
    described = tmp_path / "host/.simulated/description.json"
    described.chmod(0o600)
    described.write_text('{"of": "another version"}')
    assert mdev.parents(simulate.build(simulate.load("mtty"), tmp_path / "host")) == ["mtty"]


def test_a_directory_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(BadRequest) as caught:
        simulate.build(simulate.load("t4"), tmp_path)
    assert caught.value.code == "simulation-foreign"
    assert os.listdir(tmp_path) == ["thesis.txt"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HostError) as caught:
        simulate.build(simulate.load("t4"), tmp_path / "file" / "t4")
    assert caught.value.code == "simulation-failed"
    assert os.listdir(tmp_path) == ["file"]
