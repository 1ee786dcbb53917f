"""The drivers' reports from the real ``/sys``: devices, modes, units, resource classes and traits as spec S0.3 to S0.9 and S1 ask."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.kernel.guest import configuration, sysfs
from tests.kernel.guest.configuration import T4
from tests.kernel.lab.machine import BRIDGE, SHARED_DISPLAY, SHARED_NIC, address

from cantle.agent import discover
from cantle.conf import devices
from cantle.drivers import loader
from cantle.kernel.root import Root
from cantle.model.attach_handle import AttachType
from cantle.model.device import DeviceType, Health, Mode
from cantle.wire.inventory import DeployableReport, DeviceReport
from cantle.wire.work import WantedHandle

VGPU_TRAITS = ("OWNER_CYBORG", "CUSTOM_NVIDIA_1EB8_T4_2B")


@pytest.fixture
def conf(tmp_path: Path) -> str:
    return configuration.write(tmp_path)


@pytest.fixture
def foreign() -> Iterator[list[str]]:
    """Two mediated devices on the card, of the type that is enabled for it, made by somebody else."""
    made = [str(uuid.uuid4()) for _ in range(2)]
    for one in made:
        sysfs.write(sysfs.PARENTS / T4 / "mdev_supported_types/nvidia-223/create", one)
    yield made
    for one in made:
        sysfs.write(sysfs.MDEVS / one / "remove", "1")


def tree() -> dict[str, str | None]:
    """The state of the machine as far as lending could change it: drivers, and the room on parents."""
    state = {path.name: sysfs.driver(path.name) for path in (sysfs.PCI / "devices").iterdir()}
    for path in sysfs.PARENTS.glob("*/mdev_supported_types/*/available_instances"):
        state[str(path)] = sysfs.text(path)
    return state


def reports(conf: str, ours: Mapping[str, WantedHandle] | None = None) -> dict[str, DeviceReport]:
    """What a new agent would report now, by address."""
    view, problems = discover.look("labguest", Root("/"), devices.load([conf]), ours or {})
    drivers, unloadable = loader.load()
    report = discover.report(view, drivers, [*problems, *unloadable], "a-start")
    assert report.problems == ()
    return {device.address: device for device in report.devices}


def only(device: DeviceReport) -> DeployableReport:
    (deployable,) = device.deployables
    return deployable


def test_the_card_with_an_enabled_type_is_eight_units_with_the_seed_s_trait(conf: str) -> None:
    card = reports(conf)[T4]
    assert (card.mode, card.health, card.vendor_id, card.product_id) == (Mode.MDEV, Health.OK, "10de", "1eb8")
    assert set(card.capabilities) == {"passthrough", "mdev"}
    offered = only(card)
    assert (offered.name, offered.resource_class, offered.traits) == (f"labguest_{T4}", "VGPU", VGPU_TRAITS)
    assert [handle.key for handle in offered.handles] == [f"nvidia-223_{number}" for number in range(8)]
    assert {handle.attach_type for handle in offered.handles} == {AttachType.MDEV}
    assert offered.handles[7].attach_info == {
        "domain": "0000",
        "bus": "01",
        "device": "00",
        "function": "0",
        "asked_type": "nvidia-223",
        "vgpu_mark": "nvidia-223_7",
    }


@pytest.mark.parametrize(
    ("name", "trait"),
    [
        ("t4-second", "NVIDIA_1EB8"),
        ("a40", "NVIDIA_2235"),
        ("geforce", "NVIDIA_2204"),
        ("hot", "NVIDIA_2230"),
        ("instinct", "AMD_74A1"),
        ("flex", "INTEL_56C0"),
    ],
)
def test_a_card_without_an_enabled_type_is_one_unit_to_be_lent_whole(conf: str, name: str, trait: str) -> None:
    card = reports(conf)[address(name)]
    assert (card.mode, card.health, card.type) == (Mode.PASSTHROUGH, Health.OK, DeviceType.GPU)
    offered = only(card)
    assert (offered.resource_class, offered.traits) == ("PGPU", ("OWNER_CYBORG", f"CUSTOM_{trait}"))
    (handle,) = offered.handles
    bus = address(name)[5:7]
    assert handle.attach_type is AttachType.PCI
    assert handle.attach_info == {"domain": "0000", "bus": bus, "device": "00", "function": "0"}


@pytest.mark.parametrize(
    ("parent", "resource_class", "trait", "units"),
    [
        ("mtty", "VGPU", "CUSTOM_MDEV_MTTY_DUAL_PORT_SERIAL", 12),
        ("mbochs", "CUSTOM_SCREEN", "CUSTOM_MDEV_MBOCHS_MBOCHS_LARGE", 4),
        ("mdpy", "CUSTOM_PICTURE", "CUSTOM_MDEV_MDPY_MDPY_HD", 2),
    ],
)
def test_a_parent_that_is_no_pci_function_has_its_class_its_trait_and_its_limit(
    conf: str, parent: str, resource_class: str, trait: str, units: int
) -> None:
    device = reports(conf)[parent]
    assert (device.mode, device.health, device.vendor_id) == (Mode.MDEV, Health.OK, "")
    offered = only(device)
    assert (offered.resource_class, offered.traits) == (resource_class, ("OWNER_CYBORG", trait))
    assert len(offered.handles) == units
    assert offered.handles[0].attach_info["parent"] == parent


@pytest.mark.parametrize(
    ("at", "mode", "word"),
    [
        (address("bmc"), Mode.DISPLAY_ONLY, "BMC"),
        (SHARED_DISPLAY, Mode.UNASSIGNABLE, SHARED_NIC),
    ],
)
def test_a_display_that_cannot_be_lent_is_listed_with_the_reason(conf: str, at: str, mode: Mode, word: str) -> None:
    card = reports(conf)[at]
    assert (card.mode, card.deployables) == (mode, ())
    assert card.reason is not None
    assert word in card.reason


def test_nothing_that_is_no_card_is_reported(conf: str) -> None:
    found = reports(conf)
    strangers = {address("geforce", 1), address("nvswitch"), SHARED_NIC, BRIDGE}
    assert strangers & found.keys() == set()


def test_looking_changes_nothing_and_two_looks_see_the_same(conf: str) -> None:
    before = tree()
    assert reports(conf) == reports(conf)
    assert tree() == before


def test_what_somebody_else_has_made_on_the_card_is_not_counted_as_free(conf: str, foreign: list[str]) -> None:
    card = reports(conf)[T4]
    assert (card.mode, len(only(card).handles)) == (Mode.MDEV, 8 - len(foreign))


def test_what_we_have_lent_counts_as_ours(conf: str, foreign: list[str]) -> None:
    info = {"asked_type": "nvidia-223", "vgpu_mark": "nvidia-223_5"}
    ours = {foreign[0]: WantedHandle(foreign[0], T4, AttachType.MDEV, info)}
    handles = only(reports(conf, ours)[T4]).handles
    assert len(handles) == 8 - len(foreign) + 1
    assert "nvidia-223_5" in {handle.key for handle in handles}


def test_a_card_that_others_have_cut_into_another_type_is_withheld_with_the_reason(conf: str) -> None:
    one = str(uuid.uuid4())
    sysfs.write(sysfs.PARENTS / T4 / "mdev_supported_types/nvidia-222/create", one)
    try:
        card = reports(conf)[T4]
    finally:
        sysfs.write(sysfs.MDEVS / one / "remove", "1")
    assert (card.health, len(only(card).handles)) == (Health.DEGRADED, 0)
    assert card.reason is not None
    assert one in card.reason


def test_a_card_whose_driver_is_late_is_withheld_and_not_lent_whole(conf: str) -> None:
    driver = sysfs.PCI / "drivers/nvidia"
    sysfs.write(driver / "unbind", T4)
    try:
        card = reports(conf)[T4]
    finally:
        sysfs.write(driver / "bind", T4)
    assert (card.mode, card.health, card.deployables) == (Mode.MDEV, Health.DEGRADED, ())
    assert card.reason is not None
    assert "nvidia-223" in card.reason
