"""What tells a card from another of its model."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.kernel.tree import PCI, Tree

from cantle.kernel import serial
from cantle.model.pci import PciAddress

CARD = PciAddress.parse("0000:af:00.0")
WRITTEN = "00-04-4b-ff-ff-12-34-56"
NUMBER = int(WRITTEN.replace("-", ""), 16)


def space(number: int = NUMBER, *, at: int = 0x148) -> bytes:
    """A configuration space that has Advanced Error Reporting first, then the serial number."""
    found = bytearray(4096)
    struct.pack_into("<I", found, 0x100, 0x0001 | 2 << 16 | at << 20)
    struct.pack_into("<IQ", found, at, 0x0003 | 1 << 16, number)
    return bytes(found)


def test_a_serial_number_is_written_as_lspci_writes_it() -> None:
    assert serial.serial_number(space()) == WRITTEN


@pytest.mark.parametrize(
    "nothing",
    [
        b"",
        space()[:64],  # all that is shown to who is not root
        space()[:256],  # no PCI Express
        b"\xff" * 4096,
        bytes(4096),
        space(0),
        space(0xFFFF_FFFF_FFFF_FFFF),
        space()[:0x150],
        space(at=0x148).replace(struct.pack("<I", 0x0003 | 1 << 16), struct.pack("<I", 0x0001 | 0x100 << 20)),
    ],
)
def test_a_space_without_one_has_none(nothing: bytes) -> None:
    """The last names capabilities in a circle."""
    assert serial.serial_number(nothing) is None


@given(st.binary(max_size=64), st.lists(st.tuples(st.integers(0, 1023), st.integers(0, 2**32 - 1)), max_size=40))
def test_no_space_makes_it_fail_or_run_for_ever(head: bytes, words: list[tuple[int, int]]) -> None:
    made = bytearray(4096)
    made[: len(head)] = head
    for place, word in words:
        struct.pack_into("<I", made, 4 * place, word)
    found = serial.serial_number(bytes(made))
    assert found is None or len(found) == len(WRITTEN)


@pytest.fixture
def card(tree: Tree) -> Tree:
    """A host with a card that is awake, and has all three."""
    tree.function(str(CARD), "10de:1eb8", "030200")
    tree.file(f"{PCI}/{CARD}/power_state", "D0\n")
    tree.file(f"{PCI}/{CARD}/config", space())
    tree.file(f"{PCI}/{CARD}/unique_id", "4f3c2d1e0a9b8c7d\n")
    said = "Model: \t\t Tesla T4\nGPU UUID: \t GPU-5ab1e2c3-1234-5678-9abc-def012345678\nDevice Minor: \t 0\n"
    tree.file(f"proc/driver/nvidia/gpus/{CARD}/information", said)
    return tree


def test_all_that_can_be_read_is_told(card: Tree) -> None:
    assert serial.own(card.root, CARD) == {
        "gpu_uuid": "GPU-5ab1e2c3-1234-5678-9abc-def012345678",
        "uuid": "4f3c2d1e0a9b8c7d",
        "serial": WRITTEN,
    }


@pytest.mark.parametrize("state", ["D3cold", "D3hot", "D1"])
def test_the_space_of_a_sleeping_card_is_not_read(card: Tree, state: str) -> None:
    card.file(f"{PCI}/{CARD}/power_state", f"{state}\n")
    assert "serial" not in serial.own(card.root, CARD)


def test_a_card_that_never_had_a_driver_tells_its_serial_number(card: Tree) -> None:
    """The kernel calls its power state unknown; the lab's FPGA is one."""
    card.file(f"{PCI}/{CARD}/power_state", "unknown\n")
    assert serial.own(card.root, CARD)["serial"] == WRITTEN


def test_a_card_that_its_driver_has_not_started_has_no_uuid_of_question_marks(card: Tree) -> None:
    card.file(f"proc/driver/nvidia/gpus/{CARD}/information", "GPU UUID: \t GPU-????????-????-????-????-????????????\n")
    assert "gpu_uuid" not in serial.own(card.root, CARD)


@pytest.mark.parametrize("text", ["0\n", "0000000000000000\n", "\n", "n/a\n"])
def test_a_unique_id_that_is_none_is_not_told(card: Tree, text: str) -> None:
    card.file(f"{PCI}/{CARD}/unique_id", text)
    assert "uuid" not in serial.own(card.root, CARD)


def test_files_that_cannot_be_read_hide_no_card(card: Tree) -> None:
    """Directories in their place: reading them fails whoever asks, root too."""
    for name in (f"{PCI}/{CARD}/unique_id", f"{PCI}/{CARD}/config", f"proc/driver/nvidia/gpus/{CARD}/information"):
        place = card.base / name
        place.unlink()
        place.mkdir()
    assert serial.own(card.root, CARD) == {}
    assert serial.own(card.root, PciAddress.parse("0000:00:01.0")) == {}
