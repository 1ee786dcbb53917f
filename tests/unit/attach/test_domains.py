"""Guests out of libvirt's own files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cantle.attach.domains import Domain, domains, parse
from cantle.attach.libvirt import hostdev_xml
from cantle.kernel.root import Root

VM = "6f2c9d52-5d0c-4b7c-9d0e-5f6f4b8a3c11"
SLICE = "11111111-2222-4333-8444-555555555555"
CARD = {"domain": "0001", "bus": "d6", "device": "00", "function": "0"}
HOSTDEVS = hostdev_xml("MDEV", {}, SLICE) + hostdev_xml("PCI", CARD, SLICE)


def xml(name: str = "vm1", uuid: str = VM, devices: str = HOSTDEVS) -> str:
    return f"<domain type='kvm'><name>{name}</name><uuid>{uuid}</uuid><devices>{devices}</devices></domain>"


def status(inner: str) -> str:
    """As libvirt wraps a running domain (src/qemu/qemu_domain.c, src/conf/virdomainobjlist.c)."""
    return f"<domstatus state='running' reason='booted' pid='4242'><monitor path='/x' type='unix'/>{inner}</domstatus>"


def put(root: Path, rel: str, text: str) -> None:
    (root / rel).parent.mkdir(parents=True, exist_ok=True)
    (root / rel).write_text(text)


def test_running_and_defined_guests_are_found_with_their_devices(tmp_path: Path) -> None:
    put(tmp_path, "run/libvirt/qemu/vm1.xml", status(xml()))
    put(tmp_path, "run/libvirt/qemu/vm1.pid", "4242")
    put(tmp_path, "etc/libvirt/qemu/vm1.xml", "<!-- WARNING: THIS IS AN AUTO-GENERATED FILE. -->\n" + xml(devices=""))
    put(tmp_path, "etc/libvirt/qemu/networks/default.xml", "<network/>")
    put(tmp_path, "etc/libvirt/qemu/half.xml", "<domain><na")
    assert domains(Root(tmp_path)) == [
        Domain("vm1", VM, frozenset({SLICE, "0001:d6:00.0"}), running=True),
        Domain("vm1", VM, frozenset(), running=False),
    ]


def test_a_host_without_libvirt_has_no_guests(tmp_path: Path) -> None:
    assert domains(Root(tmp_path)) == []


@pytest.mark.parametrize(
    "source",
    [
        '<hostdev><source><address bus="1" device="4"/></source></hostdev>',
        '<hostdev><source><vendor id="0x1"/></source></hostdev>',
        '<hostdev><source><address uuid="none"/></source></hostdev>',
        '<hostdev><source><address domain="0x0" bus="0xfff" slot="0x0" function="0x0"/></source></hostdev>',
        '<hostdev><source><address bus="x" slot="y"/></source></hostdev>',
        '<hostdev><address type="pci" bus="0x1" slot="0x2"/></hostdev>',
    ],
)
def test_what_is_no_mediated_device_and_no_function_is_none_of_them(source: str) -> None:
    found = parse(xml(devices=source), running=True)
    assert found is not None
    assert found.devices == frozenset()


@given(st.text())
def test_any_text_is_a_domain_or_none(text: str) -> None:
    for document in (text, xml(devices=text), status(text)):
        found = parse(document, running=True)
        assert found is None or found.running
