"""The lab itself: what the other tests stand on is as machine.py says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.kernel.guest import sysfs
from tests.kernel.lab import machine
from tests.kernel.lab.inside import Host


def test_the_kernel_that_runs_is_the_one_whose_modules_are_here() -> None:
    assert [path.name for path in Path("/usr/lib/modules").iterdir()] == [os.uname().release]


@pytest.mark.parametrize("address", sorted(machine.identities()))
def test_each_masqueraded_function_reads_as_what_it_passes_for(address: str) -> None:
    identity = machine.identities()[address]
    function = sysfs.function(address)
    read = [
        sysfs.text(function / name) for name in ("vendor", "device", "class", "subsystem_vendor", "subsystem_device")
    ]
    assert read == [
        f"0x{part}"
        for part in (identity.vendor, identity.device, identity.class_id, identity.subvendor, identity.subdevice)
    ]


def test_the_vendor_s_driver_is_on_nvidia_s_gpus_and_on_nothing_else() -> None:
    bound = {
        path.name for path in (sysfs.PCI / "drivers" / machine.NVIDIA_DRIVER).iterdir() if path.name.startswith("0000:")
    }
    assert bound == {machine.address(name) for name in ("t4", "t4-second", "a40", "geforce", "hot")}


def test_a_card_and_a_stranger_behind_one_bridge_share_an_iommu_group_and_other_cards_are_alone() -> None:
    shared = sysfs.group(machine.SHARED_DISPLAY)
    assert shared == sysfs.group(machine.SHARED_NIC) == sysfs.group(machine.BRIDGE)
    others = [sysfs.group(machine.address(card.name)) for card in machine.CARDS]
    assert None not in others
    assert len({shared, *others}) == len(others) + 1


def test_a_request_that_qemu_refuses_comes_back_as_qemu_s_words(host: Host) -> None:
    with pytest.raises(RuntimeError, match="Device 'no-such-card' not found"):
        host.ask("device_del", id="no-such-card")
