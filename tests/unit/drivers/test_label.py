"""Labels and the whitelist in a host's report."""

from __future__ import annotations

import json

import msgspec
import pytest

from cantle.drivers.label import WITHHELD, labelled
from cantle.errors import BadConfig
from cantle.model import device_spec
from cantle.model.attach_handle import AttachType
from cantle.model.device import DeviceType, Health, Mode
from cantle.model.json_option import Entry
from cantle.model.label import Labelling, parse
from cantle.model.pci import PciAddress, PciFunction
from cantle.wire.inventory import DeployableReport, DeviceReport, HandleReport

WHOLE = DeviceReport(
    "0000:3b:00.0",
    DeviceType.GPU,
    "10de",
    "A100",
    "10de",
    "20b0",
    Mode.PASSTHROUGH,
    Health.OK,
    deployables=(
        DeployableReport(
            "h_0000:3b:00.0", "nvidia", "PGPU", ("OWNER_CYBORG",), (HandleReport("0", AttachType.PCI, {}),)
        ),
    ),
)
FUNCTIONS = [PciFunction(PciAddress.parse("0000:3b:00.0"), "10de", "20b0", "030200")]


def labelling(*specs: dict[str, str], cards: tuple[dict[str, str], ...] = ()) -> Labelling:
    """What a configuration says."""
    whitelist = device_spec.parse([Entry(json.dumps(spec)) for spec in specs])
    return parse([Entry(json.dumps(card)) for card in cards], [], whitelist)


def test_a_card_has_its_labels_and_the_tags_of_the_entry_that_lets_it_through() -> None:
    said = labelling({"vendor_id": "10de", "live_migratable": "yes", "color": "red"}, cards=({"gpu_arch": "ampere"},))
    found = labelled(said, "h", FUNCTIONS, WHOLE)
    assert found.labels == {"gpu_arch": "ampere", "live_migratable": "true", "color": "red"}
    assert found.deployables == WHOLE.deployables


def test_without_a_whitelist_every_card_may_be_given_to_guests() -> None:
    assert labelled(labelling(), "h", FUNCTIONS, WHOLE) == WHOLE


def test_a_card_that_a_whitelist_does_not_name_offers_nothing_and_says_why() -> None:
    found = labelled(labelling({"vendor_id": "8086"}), "h", FUNCTIONS, WHOLE)
    assert (found.deployables, found.reason) == ((), WITHHELD)


def test_the_entry_says_resource_class_and_traits() -> None:
    said = labelling({"vendor_id": "10de", "resource_class": "a16-16a", "traits": "blue, CUSTOM_BIG"})
    (one,) = labelled(said, "h", FUNCTIONS, WHOLE).deployables
    assert (one.resource_class, one.traits) == ("CUSTOM_A16_16A", ("OWNER_CYBORG", "CUSTOM_BLUE", "CUSTOM_BIG"))


def test_the_whitelist_is_of_what_is_given_to_guests_as_it_is_and_not_of_slices() -> None:
    sliced = DeviceReport(
        "mtty",
        DeviceType.MDEV,
        "",
        "mtty",
        "",
        "",
        Mode.MDEV,
        Health.OK,
        deployables=(DeployableReport("h_mtty", "mdev", "CUSTOM_MTTY", (), (HandleReport("0", AttachType.MDEV, {}),)),),
    )
    assert labelled(labelling({"vendor_id": "8086"}), "h", FUNCTIONS, sliced) == sliced


def test_what_configuration_says_goes_before_what_the_driver_says() -> None:
    device = msgspec.structs.replace(WHOLE, labels={"units_per_guest": "1", "other": "x"})
    assert labelled(labelling(), "h", FUNCTIONS, device).labels == device.labels
    said = labelling(cards=({"model": "A100", "units_per_guest": "4"},))
    assert labelled(said, "h", FUNCTIONS, device).labels == {"units_per_guest": "4", "other": "x"}


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5"])
def test_a_limit_per_guest_that_is_no_number_is_refused(value: str) -> None:
    with pytest.raises(BadConfig, match="units_per_guest") as caught:
        labelling(cards=({"model": "A100", "units_per_guest": value},))
    assert caught.value.code == "bad-label"
