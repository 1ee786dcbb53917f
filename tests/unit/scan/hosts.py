"""Hosts as trees, from what real ones show: the file contents are those of public captures and of the vendors' documents."""

from __future__ import annotations

from tests.unit.kernel.tree import Tree

INTEL_CPU = "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu vme vmx\n"

IDS = """1002  Advanced Micro Devices, Inc. [AMD/ATI]
\t74a1  Aqua Vanjaram [Instinct MI300X]
10de  NVIDIA Corporation
\t1af1  GA100 [A100 NVSwitch]
\t1eb8  TU104GL [Tesla T4]
\t25b6  GA107GL [A2 / A16]
\t26b9  AD102GL [L40S]
10ee  Xilinx Corporation
\t5000  Alveo U200 XDMA Platform
1a03  ASPEED Technology, Inc.
\t2000  ASPEED Graphics Family
8086  Intel Corporation
\t10fb  82599ES 10-Gigabit SFI/SFP+ Network Connection
\t56c0  ATS-M [Data Center GPU Flex 170]
"""


def with_ids(tree: Tree) -> Tree:
    """The names of everything below."""
    tree.file("usr/share/misc/pci.ids", IDS)
    return tree


def t4(tree: Tree) -> None:
    """The seed's worked example (S0.9): a T4 on NVIDIA's vGPU manager, beside the server's BMC screen."""
    tree.function(
        "0000:03:00.0",
        "1a03:2000",
        "030000",
        subsystem="15d9:1b95",
        revision="41",
        driver="ast",
        group=7,
        boot_vga=True,
    )
    tree.function("0000:af:00.0", "10de:1eb8", "030200", subsystem="10de:12a2", driver="nvidia", group=40, numa=1)
    tree.parent("0000:af:00.0", {"nvidia-222": ("GRID T4-1B", 16), "nvidia-223": ("GRID T4-2B", 8)})


def a2(tree: Tree) -> None:
    """An A2 with its sixteen virtual functions, mediated devices of the older framework on them, one made."""
    card = "0000:08:00.0"
    tree.function(card, "10de:25b6", "030200", driver="nvidia", group=38, sriov=(16, 16))
    addresses = [f"0000:08:{number >> 3:02x}.{number & 7}" for number in range(4, 20)]
    tree.virtual_functions(card, "10de:25b6", addresses, first_group=90, driver="nvidia")
    for number, address in enumerate(addresses):
        tree.parent(address, {"nvidia-742": ("NVIDIA A2-1B", int(number > 0)), "nvidia-754": ("NVIDIA A2-16Q", 0)})
    tree.mdev(addresses[0], "nvidia-742", "0f9e2f0a-3c6e-4b0e-9d64-5e9e5c6b7a01", group=106)


def l40s(tree: Tree) -> None:
    """An L40S on a kernel with NVIDIA's own VFIO framework: no mediated devices, an ``nvidia`` directory on each function."""
    card = "0000:26:00.0"
    tree.function(card, "10de:26b9", "030200", subsystem="10de:1851", driver="nvidia", group=50, sriov=(32, 2))
    tree.virtual_functions(card, "10de:26b9", ["0000:26:00.4", "0000:26:00.5"], first_group=120, driver="nvidia")
    for address in ("0000:26:00.4", "0000:26:00.5"):
        tree.attribute(address, "nvidia/creatable_vgpu_types", "ID    : vGPU Name\n1145  : NVIDIA L40S-1B\n")
        tree.attribute(address, "nvidia/current_vgpu_type", "0\n")


def mi300x(tree: Tree) -> None:
    """Two of an MI300X platform's eight: processing accelerators by class, GPUs by trade."""
    for number, bus in enumerate(("05", "65")):
        tree.function(
            f"0000:{bus}:00.0",
            "1002:74a1",
            "120000",
            subsystem="1002:74a1",
            revision="00",
            driver="amdgpu",
            group=20 + number,
            sriov=(8, 0),
        )


def flex(tree: Tree) -> None:
    """An Intel Flex 170 whose virtual functions wait on vfio-pci."""
    card = "0000:4d:00.0"
    tree.function(
        card, "8086:56c0", "038000", subsystem="8086:4905", revision="08", driver="i915", group=60, sriov=(31, 2)
    )
    for number in (1, 2):
        address = f"0000:4d:00.{number}"
        tree.function(
            address,
            "8086:56c0",
            "038000",
            subsystem="8086:0000",
            revision="08",
            driver="vfio-pci",
            group=60 + number,
            physfn=card,
        )


def nvswitch(tree: Tree) -> None:
    """The fabric of an HGX board."""
    tree.function("0000:c1:00.0", "10de:1af1", "068000", driver="nvidia-nvswitch", group=70)


def fpga(tree: Tree) -> None:
    """An Alveo U200: a processing accelerator that is no GPU."""
    tree.function("0000:d8:00.0", "10ee:5000", "120000", subsystem="10ee:000e", revision="00", driver=None, group=80)


def mtty(tree: Tree) -> None:
    """The kernel's sample driver: a parent that is no PCI function."""
    tree.parent("mtty", {"mtty-1": ("Single port serial", 24), "mtty-2": ("Dual port serial", 12)})


def desktop_card(tree: Tree, *, group: int | None = 2) -> None:
    """A GeForce with the audio function that goes along, nouveau and the console on it."""
    tree.function("0000:01:00.0", "10de:2204", "030000", driver="nouveau", group=group, boot_vga=True)
    tree.function("0000:01:00.1", "10de:1aef", "040300", driver="snd_hda_intel", group=group)


def everything(tree: Tree) -> Tree:
    """All of the above in one machine that never was."""
    for lay in (t4, a2, l40s, mi300x, flex, nvswitch, fpga, mtty):
        lay(tree)
    tree.function("0000:00:00.0", "8086:09a2", "060000", subsystem="8086:0000", revision="04", group=0)
    tree.function("0000:3b:00.0", "8086:10fb", "020000", subsystem="8086:0003", revision="01", driver="ixgbe", group=33)
    return with_ids(tree)
