"""Saved output of lspci: four forms of the same machine, hostile names, and input that is none."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cantle.errors import BadRequest
from cantle.kernel import lspci
from cantle.kernel.lspci import Listed
from cantle.model.pci import PciAddress

T4_NN = "0000:af:00.0 3D controller [0302]: NVIDIA Corporation TU104GL [Tesla T4] [10de:1eb8] (rev a1)"
T4_NNK = f"""{T4_NN}
\tSubsystem: NVIDIA Corporation Device [10de:12a2]
\tKernel driver in use: nvidia
\tKernel modules: nvidiafb, nouveau
"""
T4_MM = (
    '0000:af:00.0 "3D controller [0302]" "NVIDIA Corporation [10de]" "TU104GL [Tesla T4] [1eb8]"'
    ' -ra1 -p00 "NVIDIA Corporation [10de]" "Device [12a2]"'
)
T4_VMM = """Slot:\t0000:af:00.0
Class:\t3D controller [0302]
Vendor:\tNVIDIA Corporation [10de]
Device:\tTU104GL [Tesla T4] [1eb8]
SVendor:\tNVIDIA Corporation [10de]
SDevice:\tDevice [12a2]
Rev:\ta1
ProgIf:\t00
Driver:\tnvidia
Module:\tnvidiafb
Module:\tnouveau
NUMANode:\t1
IOMMUGroup:\t38

"""


def only(text: str) -> Listed:
    """The single function of a dump."""
    (listed,) = lspci.parse(text)
    return listed


def refusal(text: str) -> BadRequest:
    """The error a dump gives."""
    with pytest.raises(BadRequest) as caught:
        lspci.parse(text)
    assert caught.value.code == "bad-lspci-dump"
    return caught.value


def test_the_seeds_look_from_inside_a_cirros_guest_is_read() -> None:
    dump = "00:05.0 Class 0100: 1af4:1001 virtio-pci\n00:06.0 Class 0300: 10de:11bf\n00:07.0 Class 00ff: 1af4:1002 virtio-pci\n"
    disk, card, balloon = (listed.function for listed in lspci.parse(dump))
    assert (str(card.address), card.vendor_id, card.device_id, card.class_id) == (
        "0000:00:06.0",
        "10de",
        "11bf",
        "030000",
    )
    assert (card.driver, disk.driver, balloon.driver) == (None, "virtio-pci", "virtio-pci")
    assert [listed.name for listed in lspci.parse(dump)] == [None] * 3


@pytest.mark.parametrize("text", [T4_NN, T4_NNK, T4_MM, T4_VMM])
def test_every_form_tells_the_same_ids_and_name(text: str) -> None:
    function, name = only(text)
    assert (str(function.address), function.class_id) == ("0000:af:00.0", "030200")
    assert (function.vendor_id, function.device_id, function.revision) == ("10de", "1eb8", "a1")
    assert name == "NVIDIA Corporation TU104GL [Tesla T4]"


@pytest.mark.parametrize(("text", "driver"), [(T4_NN, None), (T4_NNK, "nvidia"), (T4_MM, None), (T4_VMM, "nvidia")])
def test_the_driver_is_told_where_the_dump_tells_it(text: str, driver: str | None) -> None:
    assert only(text).function.driver == driver


@pytest.mark.parametrize("text", [T4_NNK, T4_MM, T4_VMM])
def test_the_subsystem_is_told_where_the_dump_tells_it(text: str) -> None:
    function = only(text).function
    assert (function.subsystem_vendor, function.subsystem_device) == ("10de", "12a2")


def test_numa_node_and_iommu_group_come_from_the_tagged_form() -> None:
    assert (only(T4_VMM).function.numa_node, only(T4_VMM).function.iommu_group) == (1, 38)


def test_numa_node_and_iommu_group_come_from_verbose_dumps() -> None:
    flags = "\tFlags: bus master, fast devsel, latency 0, IRQ 16, NUMA node 1, IOMMU group 38\n"
    lines = "\tNUMA node: 1\n\tIOMMU group: 38\n"
    for details in (flags, lines):
        function = only(f"{T4_NN} (prog-if 00 [Normal decode])\n{details}\tCapabilities: <access denied>\n").function
        assert (function.numa_node, function.iommu_group) == (1, 38)


def test_nothing_is_said_that_a_dump_does_not_tell() -> None:
    function = only(T4_NN).function
    assert (function.sriov_total, function.sriov_enabled, function.physfn) == (None, None, None)
    assert (function.iommu_group, function.numa_node) == (None, None)


@pytest.mark.parametrize(
    ("line", "ids", "name"),
    [
        (
            "0000:05:00.0 Processing accelerators [1200]: Advanced Micro Devices, Inc. [AMD/ATI] Aqua Vanjaram [Instinct MI300X]"
            " [1002:74a1]",
            ("1002", "74a1", "120000"),
            "Advanced Micro Devices, Inc. [AMD/ATI] Aqua Vanjaram [Instinct MI300X]",
        ),
        (
            "0000:17:00.0 VGA compatible controller [0300]: NVIDIA Corporation Device [10de:2bb5] (rev a1)",
            ("10de", "2bb5", "030000"),
            "NVIDIA Corporation Device 2bb5",
        ),
        ("0000:17:00.0 3D controller [0302]: Device [1d1d:0001]", ("1d1d", "0001", "030200"), None),
        ("0000:17:00.0 3D controller [0302]: [1d1d:0001]", ("1d1d", "0001", "030200"), None),
        (
            "0000:17:00.0 Ethernet controller [0200]: ACME [Copy of 8086:1521] Card [dead:beef] [1234:5678] (rev 03)",
            ("1234", "5678", "020000"),
            "ACME [Copy of 8086:1521] Card [dead:beef]",
        ),
        ("0000:17:00.0 Class [1300]: Device [1d1d:0001]", ("1d1d", "0001", "130000"), None),
        ("0000:17:00.0 0302: 10de:1eb8 (rev a1)", ("10de", "1eb8", "030200"), None),
        ("0000:17:00.0 3D controller [0302]: NVIDIA X [10DE:1EB8] (rev A1)", ("10de", "1eb8", "030200"), "NVIDIA X"),
    ],
)
def test_names_with_brackets_missing_names_and_bare_numbers_are_understood(
    line: str, ids: tuple[str, str, str], name: str | None
) -> None:
    function, found = only(line)
    assert ((function.vendor_id, function.device_id, function.class_id), found) == (ids, name)


@pytest.mark.parametrize(
    ("slot", "address"),
    [("af:00.0", "0000:af:00.0"), ("10000:e1:00.0", "10000:e1:00.0"), ("00000000:AF:00.0", "0000:af:00.0")],
)
def test_the_domain_may_be_missing_or_wide(slot: str, address: str) -> None:
    for text in (T4_NN, T4_MM, T4_VMM):
        assert str(only(text.replace("0000:af:00.0", slot)).function.address) == address


def test_a_missing_revision_is_empty_and_revision_ff_is_a_dead_device() -> None:
    assert only(T4_NN.replace(" (rev a1)", "")).function.revision == ""
    assert not only(T4_NN).function.dead
    assert only(T4_NN.replace("(rev a1)", "(rev ff) (prog-if ff)")).function.dead


def test_quotes_and_backslashes_in_machine_readable_names_are_unescaped() -> None:
    assert only(T4_MM.replace("TU104GL", r"TU104GL \"B\\C\"")).name == r'NVIDIA Corporation TU104GL "B\C" [Tesla T4]'


def test_an_empty_subsystem_is_no_subsystem() -> None:
    text = '0000:00:00.0 "Host bridge [0600]" "Intel Corporation [8086]" "Device [0d57]" -p00 "" ""'
    function, name = only(text)
    assert (function.subsystem_vendor, name) == ("", "Intel Corporation Device 0d57")


def test_unknown_vendors_of_the_machine_forms_have_no_name() -> None:
    assert only('17:00.0 "3D controller [0302]" "Vendor [1d1d]" "Device [0001]" "" ""').name is None


def test_carriage_returns_colours_and_complaints_of_lspci_do_not_disturb() -> None:
    text = T4_VMM.replace("Driver:", "lspci: Unable to load libkmod resources: error -2\nDriver:")
    text = text.replace("10de", "\x1b[01;31m\x1b[K10de\x1b[m\x1b[K").replace("\n", "\r\n")
    function = only("\x1b]0;title\x07" + text).function
    assert (function.vendor_id, function.driver, function.iommu_group) == ("10de", "nvidia", 38)


def test_hex_dumps_below_a_function_are_passed_over() -> None:
    assert only(f"{T4_NN}\n00: de 10 b8 1e 06 04 10 00 a1 00 02 03 00 00 00 00\n10: 00 00\n").name


def test_two_functions_of_the_tagged_form_may_lose_the_line_between_them() -> None:
    text = T4_VMM.rstrip("\n") + "\n" + T4_VMM.replace("af:00.0", "b0:00.0")
    assert [str(one.function.address) for one in lspci.parse(text)] == ["0000:af:00.0", "0000:b0:00.0"]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "no PCI function in this dump"),
        ("\n\n \r\n", 1, "no PCI function in this dump"),
        ("lspci: Cannot open /proc/bus/pci\n", 1, "no PCI function in this dump"),
        (f"{T4_NN}\nhello world\n", 2, "'hello world' is no line of lspci"),
        (
            f"{T4_NN}\n0000:b0:00.0 3D contr",
            2,
            "'3D contr' has no class and no vendor:device in numbers, or is cut off",
        ),
        (
            "0000:af:00.0 3D controller: NVIDIA Corporation TU104GL [Tesla T4] (rev a1)",
            1,
            "make the dump with: lspci -D -nn",
        ),
        ("0000:af:00.0", 1, "'' has no class"),
        (T4_MM[:-4], 1, "is no field of lspci -mm, or is cut off"),
        (T4_MM[:60], 1, "is no field of lspci -mm, or is cut off"),
        ('af:00.0 "3D controller [0302]"', 1, "has no Vendor: the dump is cut off"),
        (
            'af:00.0 "3D controller" "NVIDIA Corporation" "TU104GL [Tesla T4]"',
            1,
            "Class '3D controller' has no number in brackets",
        ),
        (T4_MM + ' "one more"', 1, "is no field of lspci -mm"),
        (f"\n{T4_VMM[:81]}", 2, "has no Device: the dump is cut off"),
        (T4_VMM[:112], 4, "Device 'TU104GL [Tesla T4] [1eb' has no number in brackets, or is cut off"),
        ("Class:\t3D controller [0302]\n", 1, "a function without its Slot"),
        ("\tKernel driver in use: nvidia\n", 1, "is indented but belongs to no function"),
        (f"{T4_NN}\n\n{T4_NN}\n", 3, "0000:af:00.0 was there already in line 1"),
        ("af:3f.0 3D controller [0302]: X [10de:1eb8]", 1, "'af:3f.0' is no PCI address"),
        ("x" * 5000, 1, "5000 characters"),
        ('{"children": []}', 1, "is no line of lspci"),
        ("\x00\x01\x02", 1, "is no line of lspci"),
    ],
)
def test_input_that_cannot_be_understood_names_its_line(text: str, line: int, words: str) -> None:
    error = refusal(text)
    assert error.details["line"] == line
    assert error.message.startswith(f"line {line}: ")
    assert words in error.message


def outcome_of(text: str) -> str | list[str]:
    """The addresses in a dump, or the code of its refusal; anything else is a failure of the test."""
    try:
        return [str(one.function.address) for one in lspci.parse(text)]
    except BadRequest as error:
        return error.code


@given(st.text() | st.text(alphabet='0123456789abcdef:. []"\\-\n\trpSlotCaVendi\x1b', max_size=200))
def test_any_text_is_a_dump_or_a_bad_request(text: str) -> None:
    assert outcome_of(text) != []


@given(st.sampled_from([T4_NNK, T4_MM, T4_VMM]), st.data())
def test_a_dump_cut_anywhere_is_read_or_refused(text: str, data: st.DataObject) -> None:
    assert outcome_of(text[: data.draw(st.integers(0, len(text)))]) in ("bad-lspci-dump", ["0000:af:00.0"])


hex4 = st.integers(0, 0xFFFF).map("{:04x}".format)
words = st.text(alphabet="abcXYZ019 [](),.:/&'-", min_size=1, max_size=30).map(lambda text: f"V{text}".strip())


@dataclass(frozen=True)
class Machine:
    """One function as lspci would print it."""

    address: PciAddress
    class_code: str
    vendor: str
    vendor_id: str
    device: str
    device_id: str
    revision: str


machines = st.builds(
    Machine,
    st.builds(PciAddress, st.integers(0, 0xFFFFF), st.integers(0, 0xFF), st.integers(0, 0x1F), st.integers(0, 7)),
    hex4,
    words,
    hex4,
    words,
    hex4,
    st.integers(0, 0xFF).map("{:02x}".format),
)


@given(st.lists(machines, min_size=1, max_size=5, unique_by=lambda one: one.address))
def test_whatever_the_names_are_the_ids_are_read_right_in_every_form(made: list[Machine]) -> None:
    dumps = [
        "\n".join(
            f"{one.address} Some class [{one.class_code}]: {one.vendor} {one.device} [{one.vendor_id}:{one.device_id}]"
            f" (rev {one.revision})"
            for one in made
        ),
        "\n".join(
            f'{one.address} "Some class [{one.class_code}]" "{one.vendor} [{one.vendor_id}]" "{one.device} [{one.device_id}]"'
            f' -r{one.revision} "" ""'
            for one in made
        ),
        "\n\n".join(
            f"Slot:\t{one.address}\nClass:\tSome class [{one.class_code}]\nVendor:\t{one.vendor} [{one.vendor_id}]\n"
            f"Device:\t{one.device} [{one.device_id}]\nRev:\t{one.revision}"
            for one in made
        ),
    ]
    for dump in dumps:
        found = [one.function for one in lspci.parse(dump)]
        assert [(one.address, one.class_code, one.vendor_id, one.device_id, one.revision) for one in found] == [
            (one.address, one.class_code, one.vendor_id, one.device_id, one.revision) for one in made
        ]
