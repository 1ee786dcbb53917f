"""What is around each card of a host: its IOMMU group, its virtual functions, the mediated devices on it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cached_property

from cantle.errors import CantleError, HostError
from cantle.kernel import iommu, mdev, modules, node, pci
from cantle.kernel.root import Root
from cantle.model import classify
from cantle.model.pci import HOST_BRIDGE, PCI_BRIDGE, VGA, PciAddress, PciFunction
from cantle.model.problem import Problem
from cantle.model.verdict import IDLE_DRIVERS, Surroundings

_BRIDGES = frozenset({HOST_BRIDGE, PCI_BRIDGE})
#: Drivers beside which a group can still be given away: they do no DMA of their own.
_HARMLESS_DRIVERS = IDLE_DRIVERS | {"pcieport"}
_NVIDIA_PROC = "proc/driver/nvidia"
_NO_IOMMU = "no IOMMU"
_NO_VFIO = "no vfio-pci"
#: What stands between a card and virtual machines alone.
_FOR_CONTAINERS = (_NO_IOMMU, _NO_VFIO)


class Neighbourhood:
    """All functions of a host, and the mediated devices on them, as they were when this was made.

    ``parents`` are the names of all parents of mediated devices; ``problems`` what could not be read so far.
    """

    def __init__(self, root: Root, functions: Sequence[PciFunction]) -> None:
        self._root = root
        self._names = {function.address: str(function.address) for function in functions}
        self._by_name = {self._names[function.address]: function for function in functions}
        self._slots: dict[tuple[int, int, int], list[PciFunction]] = defaultdict(list)
        self._groups: dict[int, list[PciFunction]] = defaultdict(list)
        self._vfs: dict[PciAddress, list[PciFunction]] = defaultdict(list)
        for function in functions:
            self._slots[function.address.slot_key].append(function)
            if function.iommu_group is not None:
                self._groups[function.iommu_group].append(function)
            if function.physfn is not None:
                self._vfs[function.physfn].append(function)
        self.problems: list[Problem] = []
        self.parents = frozenset(self._list(mdev.PARENTS))
        self._made: dict[str, Counter[str]] = defaultdict(Counter)
        self._room: dict[str, bool] = {}
        for uuid in self._list(mdev.DEVICES):
            self._count(uuid)

    def _list(self, rel: str) -> list[str]:
        try:
            return self._root.names(rel)
        except HostError as error:
            self.problems.append(Problem("mediated devices", error.code, error.message))
            return []

    def _count(self, uuid: str) -> None:
        try:
            device = mdev.device(self._root, uuid)
        except HostError as error:
            self.problems.append(Problem(uuid, error.code, error.message))
        else:
            if device is not None:
                self._made[device.parent][device.type_id] += 1

    def is_interesting(self, function: PciFunction) -> bool:
        """Whether the function is a card, looks like one, or is a parent of mediated devices."""
        return classify.is_shown(function) or self._names[function.address] in self.parents

    def of(self, function: PciFunction) -> Surroundings:
        """What is around one function. Where it cannot be read the worst is assumed, and ``problems`` has one more."""
        if not self.is_interesting(function):
            return Surroundings(card=self._card_of(function))
        name = self._names[function.address]
        try:
            return self._around(function)
        except HostError as error:
            self.problems.append(Problem(name, error.code, error.message))
            return Surroundings(parents=int(name in self.parents), unreadable=error.message)

    def of_virtual_parent(self, name: str) -> Surroundings:
        """What is on a parent that is no PCI function."""
        try:
            return Surroundings(parents=1, has_room=self._has_room(name), made=self._made.get(name, Counter()))
        except HostError as error:
            self.problems.append(Problem(name, error.code, error.message))
            return Surroundings(parents=1, unreadable=error.message)

    def virtual_parents(self) -> list[str]:
        """Names of the parents that are no PCI function, such as ``mtty``."""
        return sorted(self.parents - self._by_name.keys())

    def _around(self, function: PciFunction) -> Surroundings:
        name = self._names[function.address]
        vfs = self._vfs.get(function.address, [])
        parents = [one for one in (name, *(self._names[vf.address] for vf in vfs)) if one in self.parents]
        companions = self._companions(function)
        # A virtual function is lent as its card says.
        alone = "" if classify.is_virtual_function(function) else self._no_isolation((function, *companions))
        return Surroundings(
            companions=tuple(one.address for one in companions),
            no_isolation=alone,
            for_containers=alone.startswith(_FOR_CONTAINERS) and self._has_nodes(function),
            is_console=function.class_code == VGA and self._root.read_or_none(f"{pci.DEVICES}/{name}/boot_vga") == "1",
            parents=len(parents),
            has_room=any(self._has_room(one) for one in parents),
            made=self._made_on(parents),
            vendor_vfio=sum(one.vgpu_files for one in (function, *vfs)),
            vfs_isolated=sum(vf.iommu_group is not None for vf in vfs) == (function.sriov_enabled or 0),
            mig_instances=self._mig_instances(function),
        )

    def _card_of(self, function: PciFunction) -> PciAddress | None:
        """The card in whose slot a function sits that goes along with it."""
        if function.physfn is not None or function.class_code in _BRIDGES:
            return None
        return next((one.address for one in self._slots[function.address.slot_key] if classify.is_card(one)), None)

    def _companions(self, card: PciFunction) -> list[PciFunction]:
        if not classify.is_card(card):
            return []
        neighbours = self._slots[card.address.slot_key]
        return [
            one
            for one in neighbours
            if one is not card and not classify.is_card(one) and self._card_of(one) == card.address
        ]

    def _no_isolation(self, unit: Sequence[PciFunction]) -> str:
        """Why a guest could not be given these functions and nothing else; "" when it can."""
        for function in unit:
            group = function.iommu_group
            if group is None:
                return self._no_group
            if iommu.is_noiommu(self._root, group):
                return f"{_NO_IOMMU} (VFIO runs in its no-IOMMU mode)"
            ours = {self._names[one.address] for one in unit}
            members = {self._names[one.address] for one in self._groups[group]} | set(iommu.members(self._root, group))
            foreign = [self._foreign(name, unit[0]) for name in sorted(members - ours)]
            if any(foreign):
                return f"IOMMU group {group} is shared with {', '.join(filter(None, foreign))}"
        return self._no_vfio

    @cached_property
    def _no_group(self) -> str:
        if self._groups or iommu.enabled(self._root):
            return "it is in no IOMMU group although others are; a firmware update may mend that"
        return f"{_NO_IOMMU} ({iommu.why_off(self._root)})"

    @cached_property
    def _no_vfio(self) -> str:
        if modules.can_be_had(self._root, "vfio-pci") is not False:
            return ""
        return f"{_NO_VFIO} (kernel {modules.release(self._root)} has no such module)"

    def _foreign(self, name: str, card: PciFunction) -> str:
        """Another member of the card's IOMMU group, in words if it keeps the card from being lent alone, else ""."""
        other = self._by_name.get(name)
        if other is None:
            return f"{name} (not a readable PCI function)"
        if other.class_code in _BRIDGES or other.physfn == card.address:
            return ""
        ids = f"{other.vendor_id}:{other.device_id}"
        if classify.is_card(other):
            return f"the card {name} ({ids})"
        idle = other.driver is None or other.driver in _HARMLESS_DRIVERS
        if idle or self._root.names(f"{pci.DEVICES}/{name}/vfio-dev"):
            return ""
        return f"{name} ({classify.kind_words(other)} {ids}, driver {other.driver})"

    def _made_on(self, parents: Sequence[str]) -> Counter[str]:
        made: Counter[str] = Counter()
        for parent in parents:
            made.update(self._made.get(parent, ()))
        return made

    def _has_nodes(self, card: PciFunction) -> bool:
        try:
            return bool(node.of_card(self._root, card.address))
        except CantleError:
            return False

    def _has_room(self, parent: str) -> bool:
        if parent not in self._room:
            self._room[parent] = mdev.has_room(self._root, parent)
        return self._room[parent]

    def _mig_instances(self, function: PciFunction) -> int | None:
        """GPU instances of a card, by NVIDIA's files in /proc; None when they do not say."""
        if function.driver != "nvidia" or function.physfn is not None:
            return None
        information = self._root.read_or_none(f"{_NVIDIA_PROC}/gpus/{function.address}/information") or ""
        minors = [
            line.partition(":")[2].strip() for line in information.split("\n") if line.startswith("Device Minor:")
        ]
        return sum(map(self._instances, minors)) if minors else None

    def _instances(self, minor: str) -> int:
        return sum(name.startswith("gi") for name in self._root.names(f"{_NVIDIA_PROC}/capabilities/gpu{minor}/mig"))
