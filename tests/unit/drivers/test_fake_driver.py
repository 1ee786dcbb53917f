"""The fake driver: what OpenStack's tests ask for, and nothing on a host that is real."""

from __future__ import annotations

from pathlib import Path

from cantle.drivers.driver import HostView
from cantle.drivers.fake import KERNEL_DRIVER, UNITS, FakeDriver
from cantle.kernel import pci
from cantle.kernel.root import Root
from cantle.model.attach_handle import AttachType
from cantle.model.device import DeviceType
from cantle.model.enabled_types import EnabledTypes
from cantle.model.pci import PciAddress, PciFunction
from cantle.simulate import build, load


def view(*functions: PciFunction) -> HostView:
    """A host named ``node-1`` with these functions."""
    return HostView("node-1", Root(), EnabledTypes(), functions)


def test_its_device_is_the_one_that_tempest_asks_for() -> None:
    function = PciFunction(PciAddress.parse("0000:0c:00.0"), "abcd", "abcd", "120000", driver=KERNEL_DRIVER)
    (device,) = FakeDriver().discover(view(function))
    assert (device.type, device.vendor) == (DeviceType.FPGA, "0xABCD")
    (deployable,) = device.deployables
    assert deployable.name == "node-1_0000:0c:00.0"
    assert deployable.resource_class == "FPGA"
    assert "CUSTOM_FAKE_DEVICE" in deployable.traits
    assert len(deployable.handles) == UNITS == 16
    assert {handle.attach_type for handle in deployable.handles} == {AttachType.TEST_PCI}
    assert all(handle.attach_info.keys() == {"domain", "bus", "device", "function"} for handle in deployable.handles)


def test_no_two_units_are_the_same() -> None:
    first = PciFunction(PciAddress.parse("0000:0c:00.0"), "abcd", "abcd", "120000", driver=KERNEL_DRIVER)
    second = PciFunction(PciAddress.parse("0000:0d:00.0"), "abcd", "abcd", "120000", driver=KERNEL_DRIVER)
    handles = [
        handle for device in FakeDriver().discover(view(first, second)) for handle in device.deployables[0].handles
    ]
    assert len({tuple(handle.attach_info.items()) for handle in handles}) == 2 * UNITS
    assert len({handle.key for handle in handles}) == 2 * UNITS


def test_a_card_that_is_real_is_not_its_business() -> None:
    for driver in (None, "vfio-pci", "nvidia"):
        function = PciFunction(PciAddress.parse("0000:0c:00.0"), "abcd", "abcd", "120000", driver=driver)
        assert FakeDriver().discover(view(function)) == []


def test_the_simulated_host_of_that_name_has_one(tmp_path: Path) -> None:
    root = build(load("fake"), tmp_path / "fake")
    functions, problems = pci.functions(root)
    assert problems == []
    host = HostView("fake", root, EnabledTypes(), functions)
    assert [device.address for device in FakeDriver().discover(host)] == ["0000:0c:00.0"]
