"""Attach handles as libvirt's XML (spec S4.8)."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cantle.attach.libvirt import hostdev_xml
from cantle.errors import BadRequest

UUID = "11111111-2222-4333-8444-555555555555"
T4 = {"domain": "0000", "bus": "af", "device": "00", "function": "0"}


@pytest.mark.parametrize(("prepared", "managed"), [(True, "no"), (False, "yes")])
def test_a_pci_function_is_left_alone_by_libvirt_when_the_agent_has_its_driver_and_managed_when_nobody_has(
    prepared: bool, managed: str
) -> None:
    assert hostdev_xml("PCI", T4, UUID, prepared=prepared) == (
        f'<hostdev mode="subsystem" type="pci" managed="{managed}">\n'
        "  <source>\n"
        '    <address domain="0x0000" bus="0xaf" slot="0x00" function="0x0" />\n'
        "  </source>\n"
        "</hostdev>"
    )


def test_what_the_agent_has_prepared_is_nobody_elses_to_rebind() -> None:
    assert 'managed="no"' in hostdev_xml("PCI", T4, UUID)


def test_a_mediated_device_is_named_by_the_handles_uuid() -> None:
    info = {**T4, "asked_type": "nvidia-223", "vgpu_mark": "nvidia-223_0"}
    expected = (
        '<hostdev mode="subsystem" type="mdev" managed="no" model="vfio-pci">\n'
        "  <source>\n"
        f'    <address uuid="{UUID}" />\n'
        "  </source>\n"
        "</hostdev>"
    )
    assert hostdev_xml("MDEV", info, UUID) == expected
    assert hostdev_xml("MDEV", {"parent": "mtty", "asked_type": "mtty-1"}, UUID.upper()) == expected


def test_a_wide_domain_is_written_in_full() -> None:
    xml = hostdev_xml("PCI", {"domain": "0001", "bus": "d6", "device": "1f", "function": "7"}, UUID)
    assert 'domain="0x0001" bus="0xd6" slot="0x1f" function="0x7"' in xml


@pytest.mark.parametrize("kind", ["TEST_PCI", "FPGA", "", "pci", "<x/>"])
def test_what_no_guest_can_take_is_refused_by_name(kind: str) -> None:
    with pytest.raises(BadRequest, match="PCI and MDEV") as caught:
        hostdev_xml(kind, T4, UUID)
    assert caught.value.code == "attach-type-unknown"


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("domain", "10000"),
        ("bus", "100"),
        ("device", "20"),
        ("function", "8"),
        ("bus", "0xaf"),
        ("bus", ""),
        ("bus", "a\N{FULLWIDTH DIGIT ONE}"),
        ("bus", '"/>'),
    ],
)
def test_a_part_that_is_no_part_of_an_address_is_named(part: str, value: str) -> None:
    with pytest.raises(BadRequest, match=part) as caught:
        hostdev_xml("PCI", {**T4, part: value}, UUID)
    assert caught.value.code == "attach-info-malformed"


def test_a_missing_part_and_a_uuid_that_is_none_are_refused() -> None:
    with pytest.raises(BadRequest, match="function"):
        hostdev_xml("PCI", {key: T4[key] for key in ("domain", "bus", "device")}, UUID)
    with pytest.raises(BadRequest, match="uuid"):
        hostdev_xml("MDEV", T4, "no uuid")


@given(st.sampled_from(["PCI", "MDEV", "<", "&"]), st.dictionaries(st.sampled_from([*T4, "x"]), st.text()), st.text())
def test_whatever_comes_in_either_well_formed_xml_comes_out_or_a_refusal(
    kind: str, info: dict[str, str], uuid: str
) -> None:
    try:
        xml = hostdev_xml(kind, {**T4, **info}, uuid)
    except BadRequest:
        return
    hostdev = ElementTree.fromstring(xml)  # noqa: S314 - our own
    assert (hostdev.tag, hostdev.get("mode")) == ("hostdev", "subsystem")
    assert len(hostdev.findall("source/address")) == 1
