"""A device that is not there, for tests of what stands around Cantle: Cyborg's fake driver, unit by unit (contract section 4.3).

OpenStack's tests of the accelerator API ask for exactly this: an FPGA with sixteen units and the trait ``CUSTOM_FAKE_DEVICE``. Nova
ignores units of type ``TEST_PCI``, so a guest gets nothing of it.

Nothing has to keep it off: it speaks only for PCI functions bound to a kernel driver that no kernel has, so there are devices of it on
simulated hosts alone (``cantle serve --simulate fake``).
"""

from __future__ import annotations

from collections.abc import Sequence

from cantle.drivers.driver import HostView
from cantle.drivers.slices import deployable_report
from cantle.model.attach_handle import AttachType
from cantle.model.device import DeviceType, Health, Mode
from cantle.model.naming import OWNER_TRAIT, custom
from cantle.model.pci import PciFunction
from cantle.wire.inventory import DeviceReport, HandleReport

#: The kernel driver of functions that this one speaks for.
KERNEL_DRIVER = "cantle-fake"

UNITS = 16

_TRAITS = (OWNER_TRAIT, custom("FAKE", "DEVICE"))
_FUNCTIONS_OF_A_SLOT = 8


class FakeDriver:
    """Each function bound to ``cantle-fake`` is one FPGA of sixteen units, all of them always in order."""

    name = "fake"

    def discover(self, host: HostView) -> Sequence[DeviceReport]:
        """See :class:`cantle.drivers.driver.Driver`."""
        return [_device(host, function) for function in host.functions if function.driver == KERNEL_DRIVER]


def _device(host: HostView, function: PciFunction) -> DeviceReport:
    address = str(function.address)
    deployable = deployable_report(
        host, address, driver_name=FakeDriver.name, resource_class="FPGA", traits=_TRAITS, handles=_units(function)
    )
    return DeviceReport(
        address=address,
        type=DeviceType.FPGA,
        vendor=f"0x{function.vendor_id.upper()}",
        model="Fake device",
        vendor_id=function.vendor_id,
        product_id=function.device_id,
        mode=Mode.PASSTHROUGH,
        health=Health.OK,
        numa_node=function.numa_node,
        capabilities=(Mode.PASSTHROUGH,),
        std_board_info={"device_id": f"0x{function.device_id}", "class": "Fake class"},
        vendor_board_info={"info": "fake_vendor_info"},
        deployables=(deployable,),
    )


def _units(function: PciFunction) -> tuple[HandleReport, ...]:
    """Functions that would follow each other on the device's bus, were they there."""
    domain, bus = f"{function.address.domain:04x}", f"{function.address.bus:02x}"
    units = []
    for number in range(UNITS):
        slot, of_slot = divmod(number, _FUNCTIONS_OF_A_SLOT)
        place = {"domain": domain, "bus": bus, "device": f"{slot:02x}", "function": f"{of_slot:x}"}
        units.append(HandleReport(f"{domain}:{bus}:{slot:02x}.{of_slot:x}", AttachType.TEST_PCI, place))
    return tuple(units)
