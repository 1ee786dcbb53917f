"""GPUs of one maker, lent whole (PGPU) or cut by the kernel's mdev framework (VGPU): spec S0.1 to S0.8, S1.

What a card could be is seen while it is on its own driver, and remembered (:class:`cantle.drivers.driver.Known`): a card on vfio-pci
still has the types it would offer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec

from cantle.drivers import cards, slices
from cantle.drivers.driver import HostView
from cantle.errors import CantleError
from cantle.kernel import mdev
from cantle.kernel.mdev import MdevType
from cantle.model import classify, isolation
from cantle.model.attach_handle import AttachType
from cantle.model.device import Health, Mode
from cantle.model.enabled_types import EnabledType
from cantle.model.isolation import Isolation
from cantle.model.naming import driver_word
from cantle.model.pci import PciFunction
from cantle.wire.inventory import DeviceReport

WHOLE_CLASS = "PGPU"


class GpuDriver:
    """Each GPU is one device with at most one deployable. Its virtual functions are parts of it and never count as cards.

    Subclasses say whose GPUs: ``vendor`` is the PCI vendor id; ``native`` names the kernel drivers under which a card offers its mediated
    types, the usual one first; ``type_words`` are the words before the dash of those types' ids; ``slice_labels`` are
    labels of a card that is cut.
    """

    name: str
    vendor: str
    native: tuple[str, ...]
    type_words: frozenset[str] = frozenset()
    slice_labels: Mapping[str, str] = MappingProxyType({})

    def discover(self, host: HostView) -> Sequence[DeviceReport]:
        """See :class:`cantle.drivers.driver.Driver`."""
        found: list[DeviceReport] = []
        parents: list[tuple[PciFunction, slices.Parent]] = []
        for function in host.functions:
            if function.vendor_id != self.vendor or not classify.is_gpu(function):
                continue
            try:
                offered = {one.type_id: one for one in mdev.types(host.root, str(function.address))}
                parent = self._parent(host, function, offered)
                cut = self._cut_otherwise(host, function) if parent is None else None
                if cut is not None:
                    found.append(cut)
                elif parent is None:
                    found.append(self._whole(host, function, offered))
                else:
                    parents.append((function, parent))
            except CantleError as error:
                found.append(self._unreadable(host, function, error))
        units = slices.slices(host, [parent for _, parent in parents])
        return found + [self._cut(host, function, parent, units[parent.address]) for function, parent in parents]

    def _cut_otherwise(self, host: HostView, function: PciFunction) -> DeviceReport | None:  # noqa: ARG002 - for subclasses
        """A card that is cut by its maker's own means, and by no parent; None for one that is not.

        :raises CantleError: it cannot be found out.
        """
        return None

    def isolation_of(self, offer: MdevType) -> Isolation:  # noqa: ARG002 - for subclasses
        """How a slice of this type is kept apart from others of its card."""
        return Isolation.UNKNOWN

    def configured(self, host: HostView, address: str) -> EnabledType | None:
        """The type enabled for a card by name, or by default if it is one of this maker's."""
        named = host.enabled.named(address)
        default = host.enabled.default
        if named is not None or default is None:
            return named
        return default if driver_word(default.type_id) in self.type_words else None

    def _wanted(self, host: HostView, address: str) -> EnabledType | None:
        return slices.wished(host, address, self.configured(host, address))

    def _parent(self, host: HostView, function: PciFunction, offered: Mapping[str, MdevType]) -> slices.Parent | None:
        """The card as a parent to be cut; None when it is to be lent whole."""
        address = str(function.address)
        if any(handle.attach_type is not AttachType.MDEV for handle in host.lent(address)):
            return None
        known = host.known_of(address, cards.hardware(function))
        chosen, refused = slices.choose(host, address, self._wanted(host, address), known)
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
            slices.adoptable(host, address, chosen),
            [handle for handle in host.left if handle.device == address],
        )

    def _whole(self, host: HostView, function: PciFunction, offered: Mapping[str, MdevType]) -> DeviceReport:
        address = str(function.address)
        capabilities, types = self._could_be(host, function, offered)
        others = [one for one in host.mdevs if one.parent == address]
        if others:
            uuids = ", ".join(f"{one.uuid} ({one.type_id})" for one in others)
            reason = f"mediated devices that are not lent by Cantle exist on it, so it cannot be lent whole: {uuids}"
            return cards.report(
                host, function, Mode.UNASSIGNABLE, reason=reason, capabilities=capabilities, mdev_types=types
            )
        whole = cards.whole(host, function, WHOLE_CLASS, capabilities, types)
        wish = self._wanted(host, address)
        if wish is None or not whole.deployables:
            return whole
        if host.lent(address):
            out = slices.way_out(host, address, "lends it to nobody else")
            reason = (
                f"config-refused: it is still lent whole; {wish.type_id} takes effect when it is back. "
                f"Whoever waits for it may have it before: {out}"
            )
        else:
            reason = f"{wish.type_id} is enabled for it, but not offered: it is lent whole, as configured"
        return cards.degraded(whole, reason)

    def _cut(self, host: HostView, function: PciFunction, parent: slices.Parent, cut: slices.Slices) -> DeviceReport:
        reason = cut.reason
        if not parent.offered and function.driver not in self.native:
            driver = f"on the driver {function.driver}" if function.driver else "on no driver"
            reason = (
                f"{parent.chosen.type_id} is enabled for it, but it is {driver}: "
                f"its types are offered by {' or '.join(self.native)} alone{slices.or_whole(parent.address, parent.chosen.type_id)}"
            )
        capabilities, types = self._could_be(host, function, parent.offered)
        found = cards.report(
            host,
            function,
            Mode.MDEV,
            health=cut.health,
            reason=reason,
            capabilities=capabilities,
            deployables=cut.deployables,
            mdev_types=types,
        )
        apart = self.isolation_of(parent.offer) if parent.offer is not None else Isolation.UNKNOWN
        return msgspec.structs.replace(found, labels={**self.slice_labels, isolation.LABEL: apart})

    def _unreadable(self, host: HostView, function: PciFunction, error: CantleError) -> DeviceReport:
        """A card that could not be looked at: nothing of it is lent anew, and what it could be is as last known."""
        address = str(function.address)
        known = host.known_of(address, cards.hardware(function))
        return cards.report(
            host,
            function,
            Mode.MDEV if self._wanted(host, address) is not None else Mode.PASSTHROUGH,
            health=Health.DEGRADED,
            reason=f"{error.code}: {error.message}",
            capabilities=known.capabilities,
            mdev_types=known.mdev_types,
        )

    def _could_be(
        self, host: HostView, function: PciFunction, offered: Mapping[str, MdevType]
    ) -> tuple[tuple[str, ...], Mapping[str, Mapping[str, str]]]:
        """Capabilities and types. That a card offers nothing counts on its own driver only, and not while a type is awaited there: it may
        be starting. Else the last answer stands."""
        address = str(function.address)
        types: Mapping[str, Mapping[str, str]] = slices.types_of(address, offered)
        settled = function.driver in self.native and self._wanted(host, address) is None
        if not types and not settled:
            types = host.known_of(address, cards.hardware(function)).mdev_types
        found = [Mode.PASSTHROUGH]
        found += [Mode.MDEV] if types else []
        found += [Mode.SRIOV] if function.sriov_total else []
        return tuple(found), types
