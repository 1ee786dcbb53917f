"""The whitelist: each line of the reference's section 1.2 is a case under its id."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cantle.errors import BadConfig
from cantle.model.device_spec import Candidate, DeviceSpec, parse
from cantle.model.json_option import Entry
from cantle.model.pci import PciAddress


def device(
    address: str = "0000:0a:00.1", *, parent: str | None = None, vendor: str = "8086", product: str = "1520"
) -> Candidate:
    """A device of a host."""
    return Candidate(
        vendor, product, PciAddress.parse(address), None if parent is None else PciAddress.parse(parent), ("eth3",)
    )


def spec(**keys: Any) -> DeviceSpec:
    """One entry."""
    (found,) = parse([Entry(json.dumps(keys), "nova.conf:9")]).specs
    return found


@pytest.mark.parametrize(
    ("keys", "there", "matches"),
    [
        pytest.param({}, device(), True, id="1.2 ids and address default to any"),
        pytest.param({"vendor_id": "8086"}, device(), True, id="1.2 vendor"),
        pytest.param({"vendor_id": " 8086 "}, device(), True, id="1.2 blanks are stripped"),
        pytest.param({"vendor_id": "10de"}, device(), False, id="1.2 other vendor"),
        pytest.param({"vendor_id": "10DE"}, device(vendor="10de"), True, id="1.2 lower case"),
        pytest.param({"product_id": "71"}, device(product="0071"), True, id="1.2 four digits"),
        pytest.param({"product_id": "*"}, device(), True, id="1.2 star"),
        pytest.param({"address": "0000:0a:00.1"}, device(), True, id="1.2 full address"),
        pytest.param({"address": "0:a:0.1"}, device(), True, id="1.2 digits are padded"),
        pytest.param({"address": "*:0a:00.*"}, device(), True, id="1.2 stars"),
        pytest.param({"address": "0a:00.1"}, device(), True, id="1.2 domain left off"),
        pytest.param({"address": ":00."}, device(), True, id="1.2 empty fields are any"),
        pytest.param({"address": "00"}, device(), True, id="1.2 slot alone"),
        pytest.param({"address": ".1"}, device(), True, id="1.2 function alone"),
        pytest.param({"address": ".2"}, device(), False, id="1.2 other function"),
        pytest.param({"address": "0b:00.1"}, device(), False, id="1.2 other bus"),
        pytest.param({"address": {"bus": "0a"}}, device(), True, id="1.2 regex: missing fields are any"),
        pytest.param({"address": {"function": "[0-2]"}}, device(), True, id="1.2 regex"),
        pytest.param({"address": {"bus": "0"}}, device(), False, id="1.2 regex: full match, unlike Nova"),
        pytest.param(
            {"address": {"domain": ".*", "bus": "0[ab]", "slot": "00", "function": "1"}},
            device(),
            True,
            id="1.2 all regexes",
        ),
        pytest.param({"devname": "eth3"}, device(), True, id="1.2 interface"),
        pytest.param({"devname": "eth4"}, device(), False, id="1.2 unknown interface matches nothing"),
        pytest.param(
            {"address": "0000:0a:00.0"},
            device("0000:0a:10.2", parent="0000:0a:00.0"),
            True,
            id="1.2 address of a PF covers its VFs",
        ),
        pytest.param(
            {"address": "0a:00.0"},
            device("0000:0a:10.2", parent="0000:0a:00.0"),
            False,
            id="1.2 a pattern does not cover VFs",
        ),
        pytest.param({}, device("10000:e1:00.0"), False, id="1.2 a domain of more than 16 bits is passed over"),
    ],
)
def test_what_matches(keys: dict[str, Any], there: Candidate, matches: bool) -> None:
    assert spec(**keys).matches(there) is matches


def test_1_2_prefix_match_is_novas_and_a_switch() -> None:
    entry = Entry('{"address": {"bus": "0"}}')
    assert parse([entry], prefix_match=True).of(device()) is not None
    assert parse([entry]).of(device()) is None


def test_1_2_an_occurrence_may_be_a_list_and_the_first_match_wins() -> None:
    found = parse(
        [
            Entry('[{"vendor_id": "10de"}, {"address": "0a:00.1", "tag": "first"}]'),
            Entry('{"vendor_id": "8086", "tag": "second"}'),
        ]
    )
    first, second = found.of(device()), found.of(device("0000:0a:00.2"))
    assert first is not None
    assert second is not None
    assert (first.tags["tag"], second.tags["tag"]) == ("first", "second")
    assert found.of(device(vendor="1af4")) is None or found.of(device(vendor="1af4")) is first


def test_1_2_a_device_that_nothing_matches_is_not_given_to_guests() -> None:
    assert parse([Entry('{"vendor_id": "10de"}')]).of(device()) is None
    assert parse([]).of(device()) is None


def test_1_2_tags_are_everything_else_and_placements_are_no_pool_keys() -> None:
    found = spec(vendor_id="8086", physical_network="net1", trusted="true", resource_class="CUSTOM_A", traits="x")
    assert found.tags == {"physical_network": "net1", "trusted": "true", "resource_class": "CUSTOM_A", "traits": "x"}
    assert found.pool_tags == {"physical_network": "net1", "trusted": "true"}


@pytest.mark.parametrize(("said", "kept"), [("yes", "true"), ("no", "false"), ("True", "true"), ("0", "false")])
@pytest.mark.parametrize("tag", ["managed", "live_migratable", "remote_managed"])
def test_1_2_boolean_tags_are_normalised(tag: str, said: str, kept: str) -> None:
    assert spec(**{tag: said}).tags == {tag: kept}


def test_1_2_one_time_use_needs_placement() -> None:
    entry = Entry('{"one_time_use": "yes"}')
    assert parse([entry], report_in_placement=True).specs[0].tags == {"one_time_use": "true"}
    with pytest.raises(BadConfig, match=r"requires .pci. report_in_placement"):
        parse([entry])


def test_1_2_a_network_that_is_null_is_no_tag() -> None:
    assert spec(physical_network=None).tags == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("{", "Invalid entry: '{'", id="1.2 no JSON"),
        pytest.param("7", "Invalid entry: '7'; Expecting list or dict", id="1.2 list or dict"),
        pytest.param("[7]", "Invalid entry: '7'; Expecting dict", id="1.2 list of dicts"),
        pytest.param('{"vendor_id": "xyz"}', "property vendor_id ('xyz') does not parse as a hex number", id="1.2 hex"),
        pytest.param(
            '{"vendor_id": "10000"}',
            "property vendor_id (10000) is greater than the maximum allowable value (FFFF)",
            id="1.2 vendor at most FFFF",
        ),
        pytest.param('{"product_id": 1520}', "product_id is 1520", id="1.2 ids are strings"),
        pytest.param('{"address": "10000:00:00.0"}', "property domain (10000)", id="1.2 domain at most FFFF"),
        pytest.param('{"address": "100:00.0"}', "property bus (100)", id="1.2 bus at most FF"),
        pytest.param('{"address": "0a:20.0"}', "property slot (20) is greater", id="1.2 slot at most 1F"),
        pytest.param('{"address": "0a:00.8"}', "property function (8) is greater", id="1.2 function at most 7"),
        pytest.param('{"address": "0a:g.0"}', "property slot ('g') does not parse", id="1.2 slot is hex"),
        pytest.param('{"address": "-1:00.0"}', "property bus ('-1') does not parse", id="no sign"),
        pytest.param(
            '{"address": "0:0:0:0.0"}', "The PCI address 0:0:0:0.0 has an incorrect format", id="1.2 three colons"
        ),
        pytest.param('{"address": {"bus": "("}}', "has an incorrect format", id="1.2 regex that does not compile"),
        pytest.param('{"address": {"bus": 7}}', "is no string", id="regex is a string"),
        pytest.param('{"address": {"device": "0"}}', "address has the key device", id="unknown field"),
        pytest.param(
            '{"address": 7}', "The PCI address 7 has an incorrect format", id="1.2 address is string or object"
        ),
        pytest.param(
            '{"address": "00", "devname": "eth0"}', "devname or address, but not both", id="1.2 devname or address"
        ),
        pytest.param('{"managed": "maybe"}', "Cannot parse tag 'managed'", id="1.2 boolean tag"),
        pytest.param('{"color": 7}', "the tag color is 7; give a string", id="tags are strings"),
    ],
)
def test_errors_name_file_line_and_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(BadConfig) as caught:
        parse([Entry(text, "nova.conf:9")])
    assert caught.value.code == "bad-device-spec"
    assert said in caught.value.message
    assert caught.value.message.startswith("nova.conf:9: [pci] device_spec: ")


addresses = st.builds(PciAddress, st.integers(0, 0xFFFF), st.integers(0, 0xFF), st.integers(0, 0x1F), st.integers(0, 7))


@given(addresses, addresses)
def test_an_address_matches_itself_and_no_other(one: PciAddress, other: PciAddress) -> None:
    found = spec(address=str(one))
    assert found.matches(Candidate("8086", "1520", one))
    assert found.matches(Candidate("8086", "1520", other)) is (one == other)


@given(st.text(max_size=30))
def test_any_text_is_an_address_or_refused_by_code(text: str) -> None:
    with contextlib.suppress(BadConfig):
        assert spec(address=text).vendor_id == "*"
