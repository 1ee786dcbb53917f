"""What a function is, by class codes and vendor tables."""

from __future__ import annotations

import pytest

from cantle.model import classify
from cantle.model.device import DeviceType
from cantle.model.pci import PciAddress, PciFunction

HERE = PciAddress(0, 1, 0, 0)


def function(ids: str, class_id: str, *, physfn: PciAddress | None = None) -> PciFunction:
    vendor, device = ids.split(":")
    return PciFunction(HERE, vendor, device, class_id, physfn=physfn)


@pytest.mark.parametrize(
    ("ids", "class_id", "what"),
    [
        ("10de:1eb8", "030200", "a T4"),
        ("10de:2204", "030000", "a GeForce"),
        ("10de:26b9", "030200", "an L40S"),
        ("1002:74a1", "120000", "an Instinct MI300X, whose class says processing accelerator"),
        ("1002:740f", "038000", "an Instinct MI210, whose class says other display controller"),
        ("8086:56c0", "038000", "a Flex 170"),
        ("8086:3e92", "030000", "a processor's own graphics"),
        ("1ed5:0222", "030000", "a vendor without a table entry"),
    ],
)
def test_is_a_gpu(ids: str, class_id: str, what: str) -> None:
    assert classify.is_gpu(function(ids, class_id)), what
    assert classify.is_card(function(ids, class_id)), what
    assert classify.device_type(function(ids, class_id)) is DeviceType.GPU, what


@pytest.mark.parametrize(
    ("ids", "class_id", "what"),
    [
        ("1a03:2000", "030000", "an ASPEED BMC"),
        ("102b:0538", "030000", "a Matrox BMC"),
        ("19e5:1711", "030000", "a Huawei iBMC"),
        ("1002:515e", "030000", "an ES1000, AMD's screen for servers"),
        ("1234:1111", "030000", "QEMU's standard screen"),
        ("1234:1111", "038000", "QEMU's second screen"),
        ("1af4:1050", "038000", "virtio-gpu"),
        ("1b36:0100", "030000", "QXL"),
        ("1013:00b8", "030000", "Cirrus"),
        ("15ad:0405", "030000", "VMware"),
        ("80ee:beef", "030000", "VirtualBox"),
        ("1414:5353", "030000", "Hyper-V"),
        ("10de:1af1", "068000", "an NVSwitch"),
        ("10ee:5000", "120000", "a Xilinx FPGA"),
        ("8086:09c4", "120000", "an Intel FPGA"),
        ("1da3:1020", "120000", "a Habana Gaudi2"),
        ("10de:1aef", "040300", "a GPU's audio"),
        ("8086:1521", "020000", "a network card"),
    ],
)
def test_is_no_gpu(ids: str, class_id: str, what: str) -> None:
    assert not classify.is_gpu(function(ids, class_id)), what


def test_a_virtual_function_never_counts_as_a_card() -> None:
    for ids, class_id in (("10de:25b6", "030200"), ("1002:74b5", "120000"), ("10ee:5000", "120000")):
        part = function(ids, class_id, physfn=PciAddress(0, 8, 0, 0))
        assert not classify.is_gpu(part)
        assert not classify.is_card(part)
        assert classify.is_shown(part)


@pytest.mark.parametrize(
    ("ids", "class_id", "kind"),
    [
        ("10ee:5000", "120000", DeviceType.FPGA),
        ("8086:09c4", "120000", DeviceType.FPGA),
        ("8086:7d1d", "120000", DeviceType.AICHIP),
        ("1da3:1020", "120000", DeviceType.AICHIP),
        ("19e5:d100", "120000", DeviceType.AICHIP),
        ("8086:37c8", "0b4000", DeviceType.QAT),
        ("8086:4949", "0b4000", DeviceType.QAT),
        ("8086:1572", "020000", DeviceType.NIC),
        ("144d:a80a", "010802", DeviceType.NVME),
        ("1000:0097", "010700", DeviceType.SSD),
        ("10de:1af1", "068000", DeviceType.PCI),
    ],
)
def test_every_function_has_a_type_of_the_api(ids: str, class_id: str, kind: DeviceType) -> None:
    assert classify.device_type(function(ids, class_id)) is kind


def test_an_fpga_is_a_card_although_no_gpu() -> None:
    assert classify.is_card(function("10ee:5000", "120000"))


def test_only_nvidias_other_bridges_are_fabric() -> None:
    assert classify.is_fabric(function("10de:1af1", "068000"))
    assert not classify.is_fabric(function("8086:1af1", "068000"))
    assert not classify.is_fabric(function("10de:1af1", "060400"))


def test_a_domain_is_too_wide_beyond_sixteen_bits() -> None:
    assert not classify.is_too_wide(PciFunction(PciAddress(0xFFFF, 0, 0, 0), "10de", "1eb8", "030200"))
    assert classify.is_too_wide(PciFunction(PciAddress(0x10000, 0, 0, 0), "10de", "1eb8", "030200"))


@pytest.mark.parametrize(
    ("vendor", "word"),
    [("10de", "NVIDIA"), ("1002", "AMD"), ("8086", "INTEL"), ("10ee", "XILINX"), ("1d1d", "1D1D")],
)
def test_a_vendor_has_one_word_for_traits(vendor: str, word: str) -> None:
    assert classify.vendor_word(vendor) == word


def test_kinds_are_words_for_people() -> None:
    kinds = [
        classify.kind_words(function("10de:1eb8", class_id)) for class_id in ("030000", "030200", "020000", "ee0000")
    ]
    assert kinds == ["VGA", "3D", "network", "device"]
