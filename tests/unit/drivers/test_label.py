"""Labels and the whitelist in a host's report."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from cantle.drivers.driver import HostView, Known
from cantle.drivers.label import WITHHELD, labelled
from cantle.errors import BadConfig
from cantle.kernel.root import Root
from cantle.model import device_spec
from cantle.model.attach_handle import AttachType
from cantle.model.device import DeviceType, Health, Mode
from cantle.model.enabled_types import EnabledTypes
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


def view(said: Labelling, **more: Any) -> HostView:
    """A host with that configuration."""
    return HostView("h", Root(), EnabledTypes(labelling=said), **{"functions": FUNCTIONS, **more})


def labelling(*specs: dict[str, str], cards: tuple[dict[str, str], ...] = ()) -> Labelling:
    """What a configuration says."""
    whitelist = device_spec.parse([Entry(json.dumps(spec)) for spec in specs])
    return parse([Entry(json.dumps(card)) for card in cards], [], whitelist)


def test_a_card_has_its_labels_and_the_tags_of_the_entry_that_lets_it_through() -> None:
    said = labelling({"vendor_id": "10de", "live_migratable": "yes", "color": "red"}, cards=({"gpu_arch": "ampere"},))
    found = labelled(view(said), WHOLE)
    assert found.labels == {"gpu_arch": "ampere", "live_migratable": "true", "color": "red"}
    assert found.deployables == WHOLE.deployables


def test_without_a_whitelist_every_card_may_be_given_to_guests() -> None:
    assert labelled(view(labelling()), WHOLE) == WHOLE


def test_a_card_that_a_whitelist_does_not_name_offers_nothing_and_says_why() -> None:
    found = labelled(view(labelling({"vendor_id": "8086"})), WHOLE)
    assert (found.deployables, found.reason) == ((), WITHHELD)


def test_the_entry_says_resource_class_and_traits() -> None:
    said = labelling({"vendor_id": "10de", "resource_class": "a16-16a", "traits": "blue, CUSTOM_BIG"})
    (one,) = labelled(view(said), WHOLE).deployables
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
    assert labelled(view(labelling({"vendor_id": "8086"})), sliced) == sliced


def test_1_2_devname_is_the_card_of_that_interface_and_of_its_virtual_functions() -> None:
    said = labelling({"devname": "ens3", "color": "red"})
    of_card = {"ens3": "0000:3b:00.0"}
    found = labelled(view(said, interfaces=of_card), WHOLE)
    assert (found.labels, found.vendor_board_info) == ({"color": "red"}, {"interfaces": "ens3"})
    assert labelled(view(said, interfaces={"ens3": "0000:5e:00.0"}), WHOLE).reason == WITHHELD
    assert labelled(view(said), WHOLE).reason == WITHHELD, "an interface that is not there matches nothing"
    vf = PciFunction(PciAddress.parse("0000:3b:01.0"), "10de", "20b0", "030200", physfn=FUNCTIONS[0].address)
    there = view(said, interfaces=of_card, functions=[*FUNCTIONS, vf])
    assert labelled(there, msgspec.structs.replace(WHOLE, address="0000:3b:01.0")).labels == {"color": "red"}


@pytest.mark.parametrize(
    ("driver", "known", "interfaces", "matches"),
    [
        ("vfio-pci", Known("10de:20b0", interfaces=("ens3",)), {}, True),
        ("vfio-pci", Known("10de:20b0"), {}, False),
        ("vfio-pci", Known("8086:1520", interfaces=("ens3",)), {}, False),
        ("vfio-pci", Known("10de:20b0", interfaces=("ens3",)), {"ens3": "0000:5e:00.0"}, False),
        ("mlx5_core", Known("10de:20b0", interfaces=("ens3",)), {}, False),
    ],
)
def test_a_card_whose_interface_went_with_its_driver_is_still_the_one_it_was(
    driver: str, known: Known, interfaces: dict[str, str], matches: bool
) -> None:
    """It is on vfio-pci because it is lent, or was: to withhold it for that would take it back. Another card, and another interface of
    that name, are not meant."""
    function = FUNCTIONS[0]._replace(driver=driver)
    there = view(
        labelling({"devname": "ens3"}),
        functions=[function],
        known={"0000:3b:00.0": known},
        interfaces=interfaces,
    )
    assert (labelled(there, WHOLE).reason != WITHHELD) is matches


def test_what_configuration_says_goes_before_what_the_driver_says() -> None:
    device = msgspec.structs.replace(WHOLE, labels={"units_per_guest": "1", "other": "x"})
    assert labelled(view(labelling()), device).labels == device.labels
    said = labelling(cards=({"model": "A100", "units_per_guest": "4"},))
    assert labelled(view(said), device).labels == {"units_per_guest": "4", "other": "x"}


def test_an_address_of_a_label_that_is_none_is_told_of_the_label() -> None:
    """The whitelist was named, and there was none."""
    with pytest.raises(BadConfig, match=r"^\[labels\] card: .*function") as caught:
        labelling(cards=({"address": "0000:05:00.[0", "rack": "r7"},))
    assert caught.value.code == "bad-device-spec"


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5"])
def test_a_limit_per_guest_that_is_no_number_is_refused(value: str) -> None:
    with pytest.raises(BadConfig, match="units_per_guest") as caught:
        labelling(cards=({"model": "A100", "units_per_guest": value},))
    assert caught.value.code == "bad-label"
