"""NVIDIA GPUs, lent whole (PGPU) or cut into vGPUs by the mdev framework (VGPU): spec S0.1 to S0.8."""

from __future__ import annotations

from collections.abc import Sequence

from cantle.drivers import cards, slices
from cantle.drivers.driver import HostView
from cantle.errors import CantleError
from cantle.kernel import mdev
from cantle.model import classify
from cantle.model.attach_handle import AttachType
from cantle.model.device import Health, Mode
from cantle.model.enabled_types import EnabledType
from cantle.model.naming import driver_word
from cantle.model.pci import PciFunction
from cantle.wire.inventory import DeviceReport

#: The word before the dash of NVIDIA's type ids.
_TYPE_WORD = "nvidia"
#: Drivers under which a card offers its types.
_NATIVE = ("nvidia",)
WHOLE_CLASS = "PGPU"


class NvidiaDriver:
    """Each GPU is one device with at most one deployable. Its virtual functions are parts of it and never count as cards.

    Remembers from look to look what each card could be, so that a card whose driver was taken away still lists it.
    """

    name = "nvidia"

    def __init__(self) -> None:
        self._capabilities: dict[str, tuple[Mode, ...]] = {}

    def discover(self, host: HostView) -> Sequence[DeviceReport]:
        """See :class:`cantle.drivers.driver.Driver`."""
        found: list[DeviceReport] = []
        parents: list[tuple[PciFunction, slices.Parent]] = []
        for function in host.functions:
            if function.vendor_id != classify.NVIDIA or not classify.is_gpu(function):
                continue
            try:
                parent = self._parent(host, function)
                if parent is None:
                    found.append(self._whole(host, function))
                else:
                    parents.append((function, parent))
            except CantleError as error:
                found.append(self._unreadable(host, function, error))
        cut = slices.slices(host, [parent for _, parent in parents])
        return found + [self._cut(host, function, parent, cut[parent.address]) for function, parent in parents]

    def _parent(self, host: HostView, function: PciFunction) -> slices.Parent | None:
        """The card as a parent to be cut; None when it is to be lent whole."""
        address = str(function.address)
        offered = {one.type_id: one for one in mdev.types(host.root, address)}
        self._remember(function, can_be_cut=bool(offered))
        if any(handle.attach_type is AttachType.PCI for handle in host.lent(address)):
            return None
        chosen, refused = slices.choose(host, address, configured(host, address))
        if chosen is None:
            return None
        if host.enabled.whole_if_not_offered and chosen.type_id not in offered and not host.lent(address):
            return None
        return slices.Parent(
            address,
            function.vendor_id,
            function.device_id,
            classify.vendor_word(function.vendor_id),
            cards.place(function),
            chosen,
            offered,
            [one for one in host.mdevs if one.parent == address],
            host.lent(address),
            refused,
        )

    def _whole(self, host: HostView, function: PciFunction) -> DeviceReport:
        address = str(function.address)
        others = [one for one in host.mdevs if one.parent == address]
        capabilities = self._capabilities[address]
        if others:
            uuids = ", ".join(f"{one.uuid} ({one.type_id})" for one in others)
            reason = f"mediated devices that are not lent by Cantle exist on it, so it cannot be lent whole: {uuids}"
            return cards.report(host, function, Mode.UNASSIGNABLE, reason=reason, capabilities=capabilities)
        whole = cards.whole(host, function, WHOLE_CLASS, capabilities)
        wish = configured(host, address)
        if wish is None or not whole.deployables:
            return whole
        if host.lent(address):
            reason = f"config-refused: it is still lent whole; {wish.type_id} takes effect when it is back"
        else:
            reason = f"{wish.type_id} is enabled for it, but not offered: it is lent whole, as configured"
        return cards.report(
            host,
            function,
            whole.mode,
            health=Health.DEGRADED,
            reason=reason,
            capabilities=capabilities,
            deployables=whole.deployables,
        )

    def _cut(self, host: HostView, function: PciFunction, parent: slices.Parent, cut: slices.Slices) -> DeviceReport:
        reason = cut.reason
        if not parent.offered and function.driver not in _NATIVE:
            driver = f"on the driver {function.driver}" if function.driver else "on no driver"
            reason = (
                f"{parent.chosen.type_id} is enabled for it, but it is {driver}: its types are offered by nvidia alone"
            )
        return cards.report(
            host,
            function,
            Mode.MDEV,
            health=cut.health,
            reason=reason,
            capabilities=self._capabilities[parent.address],
            deployables=cut.deployables,
        )

    def _unreadable(self, host: HostView, function: PciFunction, error: CantleError) -> DeviceReport:
        """A card that could not be looked at: nothing of it is lent anew, and what it could be is as last known."""
        address = str(function.address)
        return cards.report(
            host,
            function,
            Mode.MDEV if configured(host, address) is not None else Mode.PASSTHROUGH,
            health=Health.DEGRADED,
            reason=f"{error.code}: {error.message}",
            capabilities=self._capabilities.get(address, ()),
        )

    def _remember(self, function: PciFunction, *, can_be_cut: bool) -> None:
        """Capabilities. Whether it can be cut is seen on its own driver only; elsewhere the last answer stands."""
        address = str(function.address)
        known = Mode.MDEV in self._capabilities.get(address, ())
        cut = can_be_cut if function.driver in _NATIVE else can_be_cut or known
        found = [Mode.PASSTHROUGH]
        found += [Mode.MDEV] if cut else []
        found += [Mode.SRIOV] if function.sriov_total else []
        self._capabilities[address] = tuple(found)


def configured(host: HostView, address: str) -> EnabledType | None:
    """The type enabled for a card by name, or by default if it is one of NVIDIA's."""
    named = host.enabled.named(address)
    default = host.enabled.default
    if named is not None or default is None:
        return named
    return default if driver_word(default.type_id) == _TYPE_WORD else None
