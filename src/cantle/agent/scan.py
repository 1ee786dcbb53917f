"""``cantle scan``: what is really there, in rows. Needs no configuration and no rights, and writes nothing anywhere."""

from __future__ import annotations

from typing import NamedTuple

from cantle.errors import BadRequest
from cantle.kernel import pci
from cantle.kernel.pci_ids import PciIds
from cantle.kernel.root import Root
from cantle.kernel.surroundings import Neighbourhood
from cantle.model import classify
from cantle.model.device import Mode
from cantle.model.pci import PciFunction
from cantle.model.problem import Problem
from cantle.model.verdict import Verdict, judge, judge_virtual_parent


class ScanRow(NamedTuple):
    """One function, or one parent of mediated devices that is no PCI function (which has no ids and no class).

    Ids are lower-case hex digits without 0x, the class its four digits. None stands for "there is none" and for "not known"; in
    rows from a dump the latter, and ``capabilities`` are then incomplete.
    """

    address: str
    vendor_id: str | None
    device_id: str | None
    name: str | None
    class_id: str | None
    driver: str | None
    iommu_group: int | None
    numa_node: int | None
    sriov_total: int | None
    sriov_enabled: int | None
    capabilities: tuple[Mode, ...]
    mode: Mode | None
    lendable: bool | None
    reason: str
    kind: str = "mdev parent"
    revision: str = ""
    subsystem: str = ""

    def document(self) -> dict[str, object]:
        """The row as ``-o json`` and ``-o yaml`` print it: stable names, plain values."""
        return {
            "address": self.address,
            "vendor_id": self.vendor_id,
            "device_id": self.device_id,
            "name": self.name,
            "class_id": self.class_id,
            "driver": self.driver,
            "iommu_group": self.iommu_group,
            "numa_node": self.numa_node,
            "sriov_total": self.sriov_total,
            "sriov_enabled": self.sriov_enabled,
            "capabilities": [str(mode) for mode in self.capabilities],
            "mode": None if self.mode is None else str(self.mode),
            "lendable": self.lendable,
            "reason": self.reason,
        }


class Scan(NamedTuple):
    """All rows, by address, virtual parents last; and what could not be read, which hides none of them."""

    rows: list[ScanRow]
    problems: list[Problem]


def scan(root: Root, names: PciIds, *, everything: bool = False) -> Scan:
    """Look at a host: its own tree or a captured one.

    :param everything: every PCI function, not only accelerators and parents of mediated devices.
    :raises BadRequest: ``bad-root`` when there is no ``sys`` below the root.
    """
    if not root.exists("sys"):
        hint = "; it looks like a sys/ itself: name the directory above" if root.exists("bus/pci") else ""
        raise BadRequest("bad-root", f"{root.path} holds no sys/ directory{hint}", root=root.path)
    functions, problems = pci.functions(root)
    around = Neighbourhood(root, functions)
    rows = [
        _row(function, names.name(function), judge(function, around.of(function)))
        for function in functions
        if everything or around.is_interesting(function)
    ]
    rows += [
        _virtual_row(name, judge_virtual_parent(around.of_virtual_parent(name))) for name in around.virtual_parents()
    ]
    return Scan(rows, problems + around.problems)


def scan_dump(text: str, *, everything: bool = False) -> Scan:
    """Look at a saved dump of ``lspci``. Whether a card can be lent is not in it: ``lendable`` stays None.

    :raises BadRequest: ``bad-lspci-dump``, naming the line.
    """
    from cantle.kernel import lspci  # noqa: PLC0415 - a look at the machine itself does not pay for it

    listed = sorted(lspci.parse(text), key=lambda one: one.function.address)
    shown = [one for one in listed if everything or classify.is_shown(one.function)]
    return Scan([_row(function, name, judge(function, None)) for function, name in shown], [])


def _row(function: PciFunction, name: str | None, verdict: Verdict) -> ScanRow:
    has_subsystem = function.subsystem_vendor not in ("", "0000")
    subsystem = f"{function.subsystem_vendor}:{function.subsystem_device}" if has_subsystem else ""
    return ScanRow(
        str(function.address),
        function.vendor_id,
        function.device_id,
        name,
        function.class_code,
        function.driver,
        function.iommu_group,
        function.numa_node,
        function.sriov_total,
        function.sriov_enabled,
        *verdict,
        kind=classify.kind_words(function),
        revision=function.revision,
        subsystem=subsystem,
    )


def _virtual_row(name: str, verdict: Verdict) -> ScanRow:
    return ScanRow(name, None, None, None, None, None, None, None, None, None, *verdict)
