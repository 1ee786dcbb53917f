"""What a scan of a tree says of a card, for tests of verdicts; and the two devices that most of them are about."""

from __future__ import annotations

from tests.unit.kernel.tree import Tree

from cantle.agent.scan import ScanRow, scan
from cantle.kernel.pci_ids import PciIds

CARD = "0000:01:00.0"
NIC = "0000:02:00.0"


def rows(tree: Tree, *, everything: bool = False) -> dict[str, ScanRow]:
    """All rows by address, when everything could be read."""
    found = scan(tree.root, PciIds(), everything=everything)
    assert found.problems == []
    return {row.address: row for row in found.rows}


def verdict(tree: Tree, address: str = CARD) -> tuple[str | None, bool | None, str]:
    """Mode, lendable and reason of one row."""
    row = rows(tree)[address]
    return row.mode, row.lendable, row.reason


def capabilities(tree: Tree, address: str = CARD) -> list[str]:
    """What the card could be."""
    return [str(mode) for mode in rows(tree)[address].capabilities]


def geforce(tree: Tree, *, group: int | None = 2, driver: str | None = None) -> None:
    """The card."""
    tree.function(CARD, "10de:2204", "030000", group=group, driver=driver)


def nic(tree: Tree, *, group: int | None = 2, driver: str | None = "ixgbe") -> None:
    """The stranger."""
    tree.function(NIC, "8086:10fb", "020000", group=group, driver=driver)
