"""A card that is pulled out of the running machine, and put back."""

from __future__ import annotations

import pytest
from tests.kernel.guest.hotplug import HOT, pulled
from tests.kernel.lab import machine
from tests.kernel.lab.inside import Host

from cantle.errors import NotFound
from cantle.kernel import pci, unit
from cantle.kernel.root import Root
from cantle.model.pci import PciAddress

ROOT = Root("/")


def test_a_card_that_was_pulled_is_not_found_nothing_else_is_lost_and_it_comes_back(host: Host) -> None:
    before = addresses()
    with pulled(host):
        assert addresses() == before - {HOT}
        with pytest.raises(NotFound) as caught:
            unit.find(ROOT, PciAddress.parse(HOT))
        assert caught.value.code == "pci-device-not-found"
    assert addresses() == before
    identity = machine.identities()[HOT]
    card = pci.function(ROOT, PciAddress.parse(HOT))
    assert (card.vendor_id, card.device_id, card.class_id) == (identity.vendor, identity.device, identity.class_id)


def addresses() -> set[str]:
    """Every function that is found, with nothing to complain of."""
    found, problems = pci.functions(ROOT)
    assert problems == []
    return {str(function.address) for function in found}
