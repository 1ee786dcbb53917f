"""A card that is pulled out of the running machine, and put back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.kernel.guest import sysfs
from tests.kernel.lab import machine
from tests.kernel.lab.inside import Host

from cantle.errors import NotFound
from cantle.kernel import pci, unit
from cantle.kernel.root import Root
from cantle.model.pci import PciAddress

ROOT = Root("/")
HOT = machine.address("hot")


@pytest.fixture
def pulled(host: Host) -> Iterator[None]:
    """The card is out during the test."""
    pull(host)
    yield
    put_back(host)


def pull(host: Host) -> None:
    host.ask("device_del", id="hot", until="DEVICE_DELETED")
    sysfs.until(lambda: not sysfs.function(HOT).exists(), f"{HOT} goes from the bus")


def put_back(host: Host) -> None:
    bus = next(bus for bus, card in enumerate(machine.CARDS, start=1) if card.name == "hot")
    host.ask("device_add", driver="pci-testdev", id="hot", bus=f"port{bus}", addr="0.0")
    sysfs.until(lambda: sysfs.driver(HOT) == machine.NVIDIA_DRIVER, f"{HOT} is back on its driver")


def test_a_card_that_was_pulled_is_not_found_and_nothing_else_is_lost(pulled: None) -> None:
    found, problems = pci.functions(ROOT)
    assert problems == []
    addresses = {str(function.address) for function in found}
    assert HOT not in addresses
    assert {machine.address(card.name) for card in machine.CARDS if card.name != "hot"} <= addresses
    with pytest.raises(NotFound) as caught:
        unit.find(ROOT, PciAddress.parse(HOT))
    assert caught.value.code == "pci-device-not-found"
