"""IOMMU groups, and why there are none."""

from __future__ import annotations

import pytest
from tests.unit.kernel.tree import GROUPS, Tree

from cantle.kernel import iommu

INTEL = "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu vme vmx\n"
AMD = "processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu vme svm\n"
GUEST = INTEL.replace("vmx", "vmx hypervisor")


def test_groups_have_their_members_by_number(tree: Tree) -> None:
    tree.function("0000:01:00.0", "10de:2204", "030000", group=2)
    tree.function("0000:01:00.1", "10de:1aef", "040300", group=2)
    tree.function("0000:05:00.0", "8086:1521", "020000", group=13)
    assert iommu.groups(tree.root) == {2: ("0000:01:00.0", "0000:01:00.1"), 13: ("0000:05:00.0",)}
    assert iommu.members(tree.root, 13) == ("0000:05:00.0",)
    assert iommu.members(tree.root, 99) == ()
    assert iommu.enabled(tree.root)


def test_without_a_group_there_is_no_iommu(tree: Tree) -> None:
    assert not iommu.enabled(tree.root)
    assert iommu.groups(tree.root) == {}


def test_the_no_iommu_mode_of_vfio_is_told_apart(tree: Tree) -> None:
    tree.function("0000:01:00.0", "10de:2204", "030000", group=0)
    assert not iommu.is_noiommu(tree.root, 0)
    tree.file(f"{GROUPS}/0/name", "vfio-noiommu\n")
    assert iommu.is_noiommu(tree.root, 0)


@pytest.mark.parametrize(
    ("cpuinfo", "cmdline", "tables", "why"),
    [
        (INTEL, "quiet splash", ["DMAR", "FACP"], "kernel command line lacks intel_iommu=on"),
        (INTEL, "quiet", [], "kernel command line lacks intel_iommu=on"),
        (INTEL, "intel_iommu=on", ["FACP"], "firmware offers none: turn on VT-d in its setup"),
        (INTEL, "intel_iommu=off quiet", ["DMAR"], "kernel command line says intel_iommu=off"),
        (INTEL, "intel_iommu=on", ["DMAR"], "the kernel shows no IOMMU group"),
        (AMD, "quiet", ["IVRS"], "the kernel shows no IOMMU group"),
        (AMD, "quiet", ["FACP"], "firmware offers none: turn on AMD-Vi (IOMMU) in its setup"),
        (AMD, "iommu=off", ["IVRS"], "kernel command line says iommu=off"),
        (GUEST, "quiet", ["FACP"], "this is a virtual machine without a virtual IOMMU"),
        (None, None, [], "the kernel shows no IOMMU group"),
        (INTEL, None, [], "the kernel shows no IOMMU group"),
        ("CPU implementer\t: 0x41\n", "quiet", ["IORT"], "the kernel shows no IOMMU group"),
    ],
)
def test_the_reason_for_no_iommu_is_what_can_be_mended(
    tree: Tree, cpuinfo: str | None, cmdline: str | None, tables: list[str], why: str
) -> None:
    if cpuinfo is not None:
        tree.file("proc/cpuinfo", cpuinfo)
    if cmdline is not None:
        tree.file("proc/cmdline", f"BOOT_IMAGE=/vmlinuz {cmdline}\n")
    for table in tables:
        tree.file(f"sys/firmware/acpi/tables/{table}", b"\0")
    assert iommu.why_off(tree.root) == why
