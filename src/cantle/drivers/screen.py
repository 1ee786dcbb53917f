"""Display functions that are never lent: the screens of management controllers and hypervisors, and cards that do not answer.

They are reported so that an operator who counts the cards of a host finds each one, with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence

from cantle.drivers import cards
from cantle.drivers.driver import HostView
from cantle.model import classify
from cantle.model.device import Health, Mode
from cantle.model.pci import PciFunction
from cantle.model.verdict import judge
from cantle.wire.inventory import DeviceReport


class ScreenDriver:
    """Speaks for what no other driver does: a dead card's vendor reads ffff, whoever made it."""

    name = "screen"

    def discover(self, host: HostView) -> Sequence[DeviceReport]:
        """See :class:`cantle.drivers.driver.Driver`."""
        return [_device(host, function) for function in host.functions if _is_ours(function)]


def _is_ours(function: PciFunction) -> bool:
    if classify.is_virtual_function(function):
        return False
    dead = function.vendor_id == "ffff" and classify.is_shown(function)
    return dead or classify.is_bmc_display(function) or classify.is_virtual_display(function)


def _device(host: HostView, function: PciFunction) -> DeviceReport:
    verdict = judge(function, None)
    dead = verdict.mode is Mode.UNASSIGNABLE
    return cards.report(
        host,
        function,
        verdict.mode or Mode.DISPLAY_ONLY,
        health=Health.FAILED if dead else Health.OK,
        reason=verdict.reason,
    )
