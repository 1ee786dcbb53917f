"""PCI addresses: one parser for every usual spelling, one printer for that of sysfs."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cantle.errors import BadRequest
from cantle.model.pci import PciAddress

addresses = st.builds(
    PciAddress, st.integers(0, 0xFFFFFFFF), st.integers(0, 0xFF), st.integers(0, 0x1F), st.integers(0, 7)
)


@given(addresses)
def test_what_is_printed_is_parsed_back(address: PciAddress) -> None:
    assert PciAddress.parse(str(address)) == address
    assert PciAddress.parse(str(address).upper()) == address
    assert re.fullmatch(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]", str(address))


@given(addresses, addresses)
def test_addresses_sort_as_the_bus_counts(one: PciAddress, other: PciAddress) -> None:
    def number(address: PciAddress) -> int:
        return address.domain << 16 | address.bus << 8 | address.slot << 3 | address.function

    assert (one < other) == (number(one) < number(other))


@given(st.text())
def test_any_text_is_an_address_or_a_bad_request(text: str) -> None:
    try:
        address = PciAddress.parse(text)
    except BadRequest as error:
        refused = (error.code, repr(text) in error.message)
        assert refused == ("bad-pci-address", True)
    else:
        assert PciAddress.parse(str(address)) == address


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("0000:af:00.0", "0000:af:00.0"),
        ("af:00.0", "0000:af:00.0"),
        ("0000:AF:00.0", "0000:af:00.0"),
        ("00000000:AF:00.0", "0000:af:00.0"),
        ("10000:e1:00.0", "10000:e1:00.0"),
        ("0000:00:1f.7", "0000:00:1f.7"),
    ],
)
def test_every_usual_spelling_is_understood(text: str, printed: str) -> None:
    assert str(PciAddress.parse(text)) == printed


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0000:af:00",
        "0000:af:00.8",
        "0000:af:20.0",
        "0000:100:00.0",
        "000000000:af:00.0",
        "0000:af:00.0\n",
        " af:00.0",
        "0000:af:00.0,0000:86:00.0",
        "0000.af.00.0",
        "pci_0000_af_00_0",
        "0000:\uff41f:00.0",
    ],
)
def test_what_is_no_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadRequest, match=r"e\.g\. 0000:af:00\.0"):
        PciAddress.parse(text)


def test_functions_of_one_slot_have_one_slot_key() -> None:
    gpu, audio, other = (PciAddress.parse(text) for text in ("0000:01:00.0", "0000:01:00.1", "0000:01:01.0"))
    assert gpu.slot_key == audio.slot_key != other.slot_key
