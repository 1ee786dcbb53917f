"""Attach handles as libvirt's XML (spec S4.8)."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cantle.attach.libvirt import Screen, hole_xml, hostdev_xml, node_xml, unit_xml
from cantle.errors import BadRequest
from cantle.model.pci import PciAddress

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


def test_a_vgpu_may_draw_for_the_guests_console_and_a_card_may_not() -> None:
    assert 'model="vfio-pci" display="on" ramfb="off">' in hostdev_xml("MDEV", {}, UUID, screen=Screen())
    assert 'display="on" ramfb="on">' in hostdev_xml("MDEV", {}, UUID, screen=Screen(ramfb=True))
    with pytest.raises(BadRequest, match="for vGPUs alone") as caught:
        hostdev_xml("PCI", T4, UUID, screen=Screen())
    assert caught.value.code == "no-screen"


def test_a_card_s_functions_share_a_slot_of_the_guest_as_they_do_on_the_host() -> None:
    functions = [PciAddress.parse(f"0001:d6:00.{number}") for number in (0, 1, 3)]
    written = ElementTree.fromstring(f"<all>{unit_xml(functions, PciAddress.parse('0a:00.0'))}</all>")  # noqa: S314 - our own
    sources = [one.attrib for one in written.iterfind("hostdev/source/address")]
    assert [(one["domain"], one["bus"], one["function"]) for one in sources] == [
        ("0x0001", "0xd6", "0x0"),
        ("0x0001", "0xd6", "0x1"),
        ("0x0001", "0xd6", "0x3"),
    ]
    places = [one.attrib for one in written.iterfind("hostdev/address")]
    assert [(one["bus"], one["slot"], one["function"]) for one in places] == [
        ("0x0a", "0x00", "0x0"),
        ("0x0a", "0x00", "0x1"),
        ("0x0a", "0x00", "0x3"),
    ]
    assert [one.get("multifunction") for one in places] == ["on", None, None]


def test_a_card_of_one_function_needs_no_more_than_its_slot() -> None:
    assert "multifunction" not in unit_xml([PciAddress.parse("0000:af:00.0")], PciAddress.parse("0a:00.0"))


def test_a_container_of_libvirts_is_given_a_node() -> None:
    assert node_xml("/dev/nvidia0") == (
        '<hostdev mode="capabilities" type="misc">\n  <source>\n    <char>/dev/nvidia0</char>\n  </source>\n</hostdev>'
    )


@pytest.mark.parametrize(
    ("gib", "hole"),
    [([], None), ([16], None), ([16, 16], 64), ([64], 128), ([128], 256), ([80, 80, 80, 80], 1024)],
)
def test_cards_that_are_larger_than_the_room_above_4_gib_get_twice_of_what_they_ask(
    gib: list[int], hole: int | None
) -> None:
    xml = hole_xml(size << 30 for size in gib)
    if hole is None:
        assert xml is None
    else:
        assert xml is not None
        assert f'<pcihole64 unit="KiB">{hole << 20}</pcihole64>' in xml
