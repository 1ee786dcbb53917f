"""``cantle scan`` in the guest: every row against what QEMU was told to emulate, and names against those of lspci."""

from __future__ import annotations

import subprocess
import uuid
from typing import Any

import pytest
from tests.kernel.guest import sysfs
from tests.kernel.guest.command import cantle
from tests.kernel.lab import machine
from tests.kernel.lab.machine import SHARED_DISPLAY, SHARED_NIC, address

from cantle.kernel import serial
from cantle.kernel.root import Root
from cantle.model.pci import PciAddress

LETS_GO = "; driver nvidia lets go of it first"
NO_IOMMU = "no IOMMU (kernel command line says intel_iommu=off)"

#: What only the kernel's kind of function and driver decide: address, capabilities, mode, lendable, reason.
Verdict = tuple[list[str], str | None, bool, str]


def verdicts() -> dict[str, Verdict]:
    """What must be said of each function that is shown, nothing being lent or made on any."""
    whole, cut = "can be lent whole", "can be lent whole, or cut into mediated devices"
    bmc = "no: the screen of the management controller (BMC)"
    emulated = "no: the emulated screen of a virtual machine"
    group = sysfs.group(SHARED_DISPLAY)
    shared = f"cannot: IOMMU group {group} is shared with {SHARED_NIC} (network 8086:100e, driver e1000)"
    return {
        address("t4"): (["passthrough", "mdev"], "passthrough", True, cut + LETS_GO),
        address("t4-second"): (["passthrough", "mdev"], "passthrough", True, cut + LETS_GO),
        address("a40"): (["passthrough", "sriov"], "passthrough", True, whole + LETS_GO),
        address("geforce"): (["passthrough"], "passthrough", True, f"{whole}, with {address('geforce', 1)}{LETS_GO}"),
        address("instinct"): (["passthrough"], "passthrough", True, whole),
        address("flex"): (["passthrough"], "passthrough", True, whole),
        address("bmc"): ([], "display-only", False, bmc),
        address("fpga"): (["passthrough"], "passthrough", True, f"{whole}, as an FPGA"),
        address("hot"): (["passthrough"], "passthrough", True, whole + LETS_GO),
        address("emulated"): ([], "display-only", False, emulated),
        SHARED_DISPLAY: (["passthrough"], "unassignable", False, shared),
        "mbochs": (["mdev"], "mdev", True, "can be cut into mediated devices"),
        "mdpy": (["mdev"], "mdev", True, "can be cut into mediated devices"),
        "mtty": (["mdev"], "mdev", True, "can be cut into mediated devices"),
    }


def rows(*arguments: str) -> dict[str, dict[str, Any]]:
    """Scan's rows by address. What depends on which screen the firmware chose is cut off the reasons."""
    found = {row["address"]: row for row in cantle("scan", *arguments)}
    for row in found.values():
        row["reason"] = row["reason"].removesuffix("; the host's console is on it")
    return found


def verdict(row: dict[str, Any]) -> Verdict:
    return row["capabilities"], row["mode"], row["lendable"], row["reason"]


def test_what_is_shown_is_every_display_and_accelerator_function_and_every_parent_with_its_verdict() -> None:
    assert {at: verdict(row) for at, row in rows().items()} == verdicts()


def test_ids_class_driver_group_and_virtual_functions_are_those_of_the_machine() -> None:
    identities = {
        **machine.identities(),
        address("emulated"): machine.Identity("1234", "1111", "038000", "1af4", "1100"),
    }
    nvidia = {address(name) for name in ("t4", "t4-second", "a40", "geforce", "hot")}
    for at, row in rows().items():
        if not at.startswith("0000:"):
            assert {row[key] for key in row if key.endswith("_id") or key in ("name", "driver", "iommu_group")} == {
                None
            }
            continue
        identity = identities[at]
        assert (row["vendor_id"], row["device_id"], row["class_id"]) == (
            identity.vendor,
            identity.device,
            identity.class_id[:4],
        )
        assert row["driver"] == (machine.NVIDIA_DRIVER if at in nvidia else None)
        assert row["iommu_group"] == sysfs.group(at)
        assert row["numa_node"] is None
        assert (row["sriov_total"], row["sriov_enabled"]) == ((4, 0) if at == address("a40") else (None, None))


def test_all_functions_are_those_of_lspci_with_its_names() -> None:
    listing = subprocess.run(["lspci", "-D", "-nn"], capture_output=True, text=True, check=True).stdout
    listed = dict(line.split(" ", 1) for line in listing.splitlines())
    found = rows("--all")
    assert {at for at in found if at.startswith("0000:")} == listed.keys()
    for at, line in listed.items():
        row = found[at]
        assert f"[{row['class_id']}]: " in line
        assert f"[{row['vendor_id']}:{row['device_id']}]" in line
        # lspci says "Device" of a product that is in no list, and names no vendor that is in none.
        name = (row["name"] or "").removesuffix(f" Device {row['device_id']}")
        assert f": {name}" in line or not name


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nvswitch", "no: NVSwitch, the fabric between the machine's GPUs"),
        ("geforce", f"goes with {address('geforce')}"),
    ],
)
def test_what_is_no_card_says_what_it_is(name: str, reason: str) -> None:
    row = rows("--all")[address(name, 1 if name == "geforce" else 0)]
    assert verdict(row) == ([], None, False, reason)


def test_a_card_that_is_cut_says_into_what() -> None:
    one = str(uuid.uuid4())
    types = sysfs.PARENTS / address("t4") / "mdev_supported_types"
    sysfs.write(types / "nvidia-234/create", one)
    try:
        full = rows()[address("t4")]
    finally:
        sysfs.write(sysfs.MDEVS / one / "remove", "1")
    reason = "cannot now: full (1 nvidia-234 made)"
    assert verdict(full) == (["passthrough", "mdev"], "mdev", False, reason)


def test_virtual_functions_are_parts_of_their_card_and_never_cards() -> None:
    a40 = address("a40")
    switch = sysfs.function(a40) / "sriov_numvfs"
    sysfs.write(switch, "3")
    try:
        found = rows()
    finally:
        sysfs.write(switch, "0")
    assert (found[a40]["sriov_enabled"], found[a40]["mode"]) == (3, "mdev")
    parts = [f"{a40[:-1]}{number}" for number in (1, 2, 3)]
    assert [at for at in found if at.startswith(a40[:-1])] == [a40, *parts]
    for at in parts:
        assert verdict(found[at]) == (["mdev"], "mdev", False, f"part of {a40}, room for mdevs")
        assert found[at]["device_id"] == "2235"


@pytest.mark.boot("no-iommu")
def test_without_an_iommu_whole_cards_cannot_be_lent_and_the_reason_says_what_to_change() -> None:
    found = rows()
    assert {row["iommu_group"] for row in found.values()} == {None}
    for name in ("a40", "geforce", "instinct", "flex", "fpga", "hot"):
        assert verdict(found[address(name)])[1:] == ("unassignable", False, f"cannot: {NO_IOMMU}")
    assert verdict(found[SHARED_DISPLAY])[1:] == ("unassignable", False, f"cannot: {NO_IOMMU}")
    cut = f"can be cut into mediated devices (not lent whole: {NO_IOMMU})"
    assert verdict(found[address("t4")])[1:] == ("mdev", True, cut)
    assert verdict(found["mtty"]) == (["mdev"], "mdev", True, "can be cut into mediated devices")


def test_the_serial_number_of_a_card_is_that_of_lspci_and_most_have_none() -> None:
    lines = subprocess.run(["lspci", "-D", "-vv"], capture_output=True, text=True, check=True).stdout.splitlines()
    listed: dict[str, str] = {}
    at = ""
    for line in lines:
        if line[:1].isdigit():
            at = line.split(" ", 1)[0]
        elif "Device Serial Number " in line:
            listed[at] = line.rpartition(" ")[2]
    assert listed == {address("fpga"): machine.SERIAL}
    found = {name: serial.own(Root(), PciAddress.parse(name)) for name in rows("--all") if name.startswith("0000:")}
    assert {name: one for name, one in found.items() if one} == {address("fpga"): {"serial": machine.SERIAL}}
