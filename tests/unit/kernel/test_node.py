"""The device nodes of exactly one card, by the numbers that hold now."""

from __future__ import annotations

import pytest
from tests.unit.kernel.tree import Tree

from cantle.errors import Conflict
from cantle.kernel import node, nvidia
from cantle.kernel.char_device import Node
from cantle.model.pci import PciAddress

CARD = PciAddress.parse("0000:c1:00.0")
OTHER = PciAddress.parse("0000:17:00.0")

DEVICES = "Character devices:\n  1 mem\n195 nvidia-frontend\n226 drm\n235 nvidia-caps\n510 nvidia-uvm\n\nBlock devices:\n195 loop\n"


def nvidia_card(tree: Tree, address: PciAddress, minor: int, render: int) -> None:
    """As NVIDIA's driver shows one; ``information`` has tabs and blanks after its colons."""
    tree.function(str(address), "10de:20b0", "030200", driver="nvidia", group=7)
    place = tree.places[str(address)]
    tree.file(f"{place}/drm/card{render - 128}/dev", f"226:{render - 128}\n")
    tree.file(f"{place}/drm/renderD{render}/dev", f"226:{render}\n")
    tree.file(
        f"proc/driver/nvidia/gpus/{address}/information",
        f"Model: \t\t NVIDIA A100\nIRQ:   \t\t 195\nBus Location: \t {address}\nDevice Minor: \t {minor}\nGPU Excluded:\t No\n",
    )


@pytest.fixture
def host(tree: Tree) -> Tree:
    """Two cards whose places on the bus, minors and DRM numbers are in three different orders: seen on a real host of four."""
    tree.file("proc/devices", DEVICES)
    nvidia_card(tree, OTHER, 1, 128)
    nvidia_card(tree, CARD, 0, 131)
    return tree


SHARED = (
    Node("/dev/nvidiactl", 195, 255, shared=True),
    Node("/dev/nvidia-uvm", 510, 0, shared=True),
    Node("/dev/nvidia-uvm-tools", 510, 1, shared=True),
)


def test_a_card_has_the_node_of_its_minor_and_not_of_its_place_on_the_bus_or_its_drm_number(host: Tree) -> None:
    own = (Node("/dev/nvidia0", 195, 0), Node("/dev/dri/renderD131", 226, 131))
    assert node.of_card(host.root, CARD) == own + SHARED
    other = (Node("/dev/nvidia1", 195, 1), Node("/dev/dri/renderD128", 226, 128))
    assert node.of_card(host.root, OTHER) == other + SHARED


def test_numbers_are_those_of_this_boot(host: Tree) -> None:
    before = node.of_card(host.root, CARD)
    host.file("proc/devices", DEVICES.replace("510 nvidia-uvm", "508 nvidia-uvm"))
    after = node.of_card(host.root, CARD)
    assert next((one.path, one.major) for one in before if "uvm" in one.path) == ("/dev/nvidia-uvm", 510)
    assert next((one.path, one.major) for one in after if "uvm" in one.path) == ("/dev/nvidia-uvm", 508)


def test_a_node_that_an_earlier_boot_left_in_dev_says_nothing(host: Tree) -> None:
    host.file("dev/nvidia7", "")
    assert "/dev/nvidia7" not in [one.path for one in node.of_card(host.root, CARD)]


def test_modeset_is_given_where_there_is_one(host: Tree) -> None:
    host.file("dev/nvidia-modeset", "")
    assert Node("/dev/nvidia-modeset", 195, 254, shared=True) in node.of_card(host.root, CARD)


def test_a_block_device_of_the_same_major_is_none_of_nvidias(host: Tree) -> None:
    host.file("proc/devices", "Character devices:\n  1 mem\n510 nvidia-uvm\n\nBlock devices:\n195 nvidia\n")
    assert [one.path for one in node.of_card(host.root, CARD)] == ["/dev/dri/renderD131"]


def test_without_unified_memory_nothing_computes_and_the_message_names_the_mend(host: Tree) -> None:
    host.file("proc/devices", DEVICES.replace("510 nvidia-uvm\n", ""))
    with pytest.raises(Conflict, match="nvidia-modprobe -u -c 0") as caught:
        node.of_card(host.root, CARD)
    assert caught.value.code == "nvidia-uvm-missing"


@pytest.mark.parametrize(("driver", "said"), [("vfio-pci", "it is on vfio-pci"), (None, "no driver is bound to it")])
def test_a_card_that_is_not_on_its_own_driver_has_nothing_for_a_container(
    tree: Tree, driver: str | None, said: str
) -> None:
    tree.function(str(CARD), "10de:20b0", "030200", driver=driver, group=7)
    with pytest.raises(Conflict, match=said) as caught:
        node.of_card(tree.root, CARD)
    assert caught.value.code == "no-device-nodes"


def test_an_amd_card_has_its_render_node_and_kfd(tree: Tree) -> None:
    tree.function(str(CARD), "1002:73bf", "030000", driver="amdgpu", group=7)
    tree.file(f"{tree.places[str(CARD)]}/drm/renderD129/dev", "226:129\n")
    tree.file(f"{tree.places[str(CARD)]}/drm/card1/dev", "226:1\n")
    tree.file("sys/class/kfd/kfd/dev", "238:0\n")
    expected = (Node("/dev/dri/renderD129", 226, 129), Node("/dev/kfd", 238, 0, shared=True))
    assert node.of_card(tree.root, CARD) == expected


def test_a_mediated_device_has_the_vfio_node_of_its_group(tree: Tree) -> None:
    uuid = "11111111-2222-4333-8444-555555555555"
    tree.parent("mtty", {"mtty-1": ("Single port serial", 24)})
    tree.mdev("mtty", "mtty-1", uuid, group=12)
    with pytest.raises(Conflict, match="no VFIO node"):
        node.of_mdev(tree.root, uuid)
    tree.file("sys/class/vfio/12/dev", "236:0\n")
    tree.file("sys/class/misc/vfio/dev", "10:196\n")
    expected = (Node("/dev/vfio/12", 236, 0), Node("/dev/vfio/vfio", 10, 196, shared=True))
    assert node.of_mdev(tree.root, uuid) == expected


def test_a_mig_slice_has_the_capability_nodes_of_its_two_instances(host: Tree) -> None:
    base = "proc/driver/nvidia/capabilities/gpu0/mig/gi2"
    host.file(f"{base}/access", "DeviceFileMinor: 21\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
    host.file(f"{base}/ci0/access", "DeviceFileMinor: 22\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
    expected = [Node("/dev/nvidia-caps/nvidia-cap21", 235, 21), Node("/dev/nvidia-caps/nvidia-cap22", 235, 22)]
    assert nvidia.mig_nodes(host.root, 0, 2, 0) == expected


def test_where_the_access_files_are_missing_the_list_of_minors_says_it_too(host: Tree) -> None:
    host.file("proc/driver/nvidia-caps/mig-minors", "config 1\nmonitor 2\ngpu0/gi0/access 3\ngpu0/gi0/ci0/access 4\n")
    assert [one.minor for one in nvidia.mig_nodes(host.root, 0, 0, 0)] == [3, 4]
    with pytest.raises(Conflict, match="gpu0/gi9/access") as caught:
        nvidia.mig_nodes(host.root, 0, 9, 0)
    assert caught.value.code == "mig-slice-missing"
