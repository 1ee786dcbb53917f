"""PCI aliases: each line of the reference's section 1.1 is a case under its id."""

from __future__ import annotations

import json

import pytest

from cantle.errors import BadConfig
from cantle.model.alias import Alias, parse
from cantle.model.json_option import Entry
from cantle.model.numa import NumaPolicy

IDS = {"vendor_id": "10de", "product_id": "1eb8"}


def entry(**keys: object) -> Entry:
    """An occurrence of the option in line 7 of a file."""
    return Entry(json.dumps(keys), "nova.conf:7")


def only(*entries: Entry, in_placement: bool = False) -> Alias:
    """The one alias they define."""
    (found,) = parse(entries, in_placement=in_placement).by_name.values()
    return found


def test_1_1_what_an_alias_says_is_kept_and_device_type_is_called_dev_type() -> None:
    found = only(
        entry(
            name=" t4 ",
            capability_type="pci",
            device_type="type-PF",
            numa_policy="preferred",
            resource_class="gpu",
            traits="blue, big",
            live_migratable="Yes",
            **IDS,
        )
    )
    assert (found.name, found.numa_policy) == ("t4", NumaPolicy.PREFERRED)
    assert found.specs == (
        {**IDS, "dev_type": "type-PF", "resource_class": "gpu", "traits": "blue, big", "live_migratable": "true"},
    )


def test_1_1_without_a_numa_policy_none_is_kept_and_legacy_is_meant() -> None:
    assert only(entry(name="t4", **IDS)).numa_policy is None
    assert len(only(entry(name="t4", **IDS), entry(name="t4", numa_policy="legacy", **IDS)).specs) == 2


@pytest.mark.parametrize("said", ["true", "1", "on", "Y", "t"])
def test_1_1_live_migratable_is_a_strict_boolean(said: str) -> None:
    assert only(entry(name="t4", live_migratable=said, **IDS)).specs[0]["live_migratable"] == "true"


def test_1_1_the_same_name_again_is_another_device_that_will_do() -> None:
    found = only(entry(name="gpu", **IDS), entry(name="gpu", vendor_id="10de", product_id="20b0"))
    assert [spec["product_id"] for spec in found.specs] == ["1eb8", "20b0"]


def test_1_1_a_resource_class_will_do_in_the_place_of_ids() -> None:
    assert only(entry(name="fast", resource_class="CUSTOM_FAST")).specs == ({"resource_class": "CUSTOM_FAST"},)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        pytest.param([Entry("{", "f:3")], "is no JSON", id="1.1 no JSON"),
        pytest.param([Entry("[]", "f:3")], "is not one JSON object", id="1.1 one object an occurrence"),
        pytest.param([Entry('{"name": "a", "name": "b"}', "f:3")], "stands twice", id="a key twice"),
        pytest.param([entry(**IDS)], "name is missing", id="1.1 name is required"),
        pytest.param([entry(name="", **IDS)], "name is empty", id="1.1 name has a character"),
        pytest.param([entry(name="   ", **IDS)], "name is empty", id="1.1 blanks are stripped"),
        pytest.param([entry(name="x" * 257, **IDS)], "longer than 256", id="1.1 name at most 256"),
        pytest.param([entry(name=7, **IDS)], "name is 7; give a string", id="1.1 name is a string"),
        pytest.param([entry(name="a:b", **IDS)], "holds ':' or ','", id="1.3 name without colon"),
        pytest.param([entry(name="a", color="red", **IDS)], "unknown key color", id="1.1 extra keys are rejected"),
        pytest.param([entry(name="a", capability_type="usb", **IDS)], "capability_type 'usb'", id="1.1 only pci"),
        pytest.param([entry(name="a", vendor_id="0x10de", product_id="1")], "vendor_id '0x10de'", id="1.1 no 0x"),
        pytest.param([entry(name="a", vendor_id="*", product_id="1eb8")], "vendor_id '*'", id="1.1 no wildcard"),
        pytest.param([entry(name="a", vendor_id="10de", product_id="1eb")], "product_id '1eb'", id="1.1 four digits"),
        pytest.param([entry(name="a", device_type="vdpa", **IDS)], "device_type 'vdpa'", id="1.1 vdpa not in an alias"),
        pytest.param([entry(name="a", device_type="PF", **IDS)], "type-PCI, type-PF, type-VF", id="1.1 device types"),
        pytest.param([entry(name="a", numa_policy="near", **IDS)], "numa_policy 'near'", id="1.1 numa policies"),
        pytest.param(
            [entry(name="a", traits=["x"], **IDS)], "traits is ['x']; give a string", id="1.1 traits one string"
        ),
        pytest.param(
            [entry(name="a", live_migratable="maybe", **IDS)], "neither true nor false", id="1.1 strict boolean"
        ),
        pytest.param([entry(name="a")], "neither vendor_id and product_id nor resource_class", id="1.1 ids or class"),
        pytest.param([entry(name="a", vendor_id="10de")], "neither vendor_id and product_id", id="1.1 both ids"),
        pytest.param(
            [entry(name="a", numa_policy="required", **IDS), entry(name="a", **IDS)],
            "NUMA policy mismatch for alias 'a'",
            id="1.1 repetitions agree on NUMA",
        ),
        pytest.param(
            [entry(name="a", device_type="type-PF", **IDS), entry(name="a", device_type="type-VF", **IDS)],
            "Device type mismatch for alias 'a'",
            id="1.1 repetitions agree on the type",
        ),
        pytest.param(
            [entry(name="a", device_type="type-PF", **IDS), entry(name="a", **IDS)],
            "Device type mismatch for alias 'a'",
            id="1.1 a repetition without type is no KeyError",
        ),
    ],
)
def test_errors_name_file_line_and_what_is_wrong(entries: list[Entry], said: str) -> None:
    with pytest.raises(BadConfig) as caught:
        parse(entries)
    assert caught.value.code == "bad-pci-alias"
    assert said in caught.value.message
    assert caught.value.message.startswith(f"{entries[-1].place}: [pci] alias: ")


def test_1_1_with_pci_in_placement_a_name_stands_once() -> None:
    with pytest.raises(BadConfig, match="does not allow"):
        parse([entry(name="a", **IDS), entry(name="a", **IDS)], in_placement=True)
    assert only(entry(name="a", resource_class="CUSTOM_A"), in_placement=True).specs == (
        {"resource_class": "CUSTOM_A"},
    )
