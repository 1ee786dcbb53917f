"""Interfaces and their PCI functions, by the links that sysfs has."""

from __future__ import annotations

from tests.unit.kernel.tree import Tree

from cantle.kernel import netdev


def test_an_interface_is_that_of_the_function_its_device_is(tree: Tree) -> None:
    tree.function("0000:81:00.0", "15b3:101d", "020000")
    place = tree.places["0000:81:00.0"]
    tree.link("sys/class/net/ens3", f"{place}/net/ens3")
    tree.link(f"{place}/net/ens3/device", place)
    tree.link("sys/class/net/lo", "sys/devices/virtual/net/lo")
    tree.file("sys/devices/virtual/net/lo/mtu", "65536")
    tree.link("sys/class/net/eth9", "sys/devices/virtual/net/eth9")
    tree.link("sys/devices/virtual/net/eth9/device", "sys/devices/virtio0")
    assert netdev.functions(tree.root, ["ens3", "lo", "eth9", "eth0"]) == {"ens3": "0000:81:00.0"}


def test_what_is_no_name_becomes_no_path(tree: Tree) -> None:
    tree.link("sys/class/net/device", "sys/devices/0000:81:00.0")
    names = ["", ".", "..", "a/b", "../net", "x" * 16, "a b", "a:b"]
    assert netdev.functions(tree.root, names) == {}
