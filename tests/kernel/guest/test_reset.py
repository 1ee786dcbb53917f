"""Resets by a real kernel: what it says of one that worked is not always true, and a card is not always as it says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.kernel.guest import sysfs
from tests.kernel.guest.power import no_power
from tests.kernel.lab.machine import address

from cantle.agent import cleaning
from cantle.errors import HostError
from cantle.kernel import reset
from cantle.kernel import unit as units
from cantle.kernel.root import Root
from cantle.model.pci import PciAddress

MACHINE = Root("/")
#: A card with power management, which vfio-pci sends to sleep while nobody has it open.
CARD = address("fpga")
AT = PciAddress.parse(CARD)
PLACE = sysfs.function(CARD)


@pytest.fixture
def card() -> Iterator[None]:
    """On vfio-pci, asleep; afterwards found anew, without a driver, as it was."""
    sysfs.write(PLACE / "driver_override", "vfio-pci")
    sysfs.write(sysfs.PCI / "drivers_probe", CARD)
    sysfs.until(lambda: sysfs.text(PLACE / "power_state") == "D3hot", "the card is asleep")
    yield
    sysfs.write(PLACE / "remove", "1")
    sysfs.write(sysfs.PCI / "rescan", "1")
    assert sysfs.driver(CARD) is None


@pytest.mark.usefixtures("card")
def test_a_card_that_died_asleep_is_not_taken_for_one_that_was_reset() -> None:
    assert reset.reset(MACHINE, AT) is not None
    with (
        no_power(CARD),
        pytest.raises(HostError, match=f"{CARD} .*answers nothing but ones, not as 10ee:5000") as refused,
    ):
        reset.reset(MACHINE, AT)
    assert refused.value.code == "reset-failed"


@pytest.mark.usefixtures("card")
def test_where_a_reset_is_required_a_card_is_clean_only_once_the_kernel_has_a_way_to_reset_it() -> None:
    its = units.find(MACHINE, AT)
    ways = reset.methods(MACHINE, AT)
    assert ways
    sysfs.write(PLACE / "reset_method", "\n")  # the kernel's own switch for a method that does harm
    assert reset.methods(MACHINE, AT) == ()
    assert cleaning.clean(MACHINE, its, required=False).method == "none"
    with pytest.raises(HostError, match="require_reset") as refused:
        cleaning.clean(MACHINE, its, required=True)
    assert refused.value.code == "reset-not-offered"
    sysfs.write(PLACE / "reset_method", "default")
    assert cleaning.clean(MACHINE, its, required=True).method == ways[0]
