"""What became of the units of one class on one host. Each is counted once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tally:
    """How many units there are of which it is so.

    :param lendable: free, on a device that is in service.
    :param lent: claimed and wanted: being made ready, or in use.
    :param releasing: given back, and somebody may still hold it.
    :param cleaning: held by nobody, and being reset.
    :param quarantined: held by nobody, and not clean.
    :param missing: free, on a device that its host does not name any more.
    :param withheld: free, on a device that is there and out of service: in maintenance, failed, changing its mode, or its host is down,
        drained or frozen.
    """

    hostname: str
    resource_class: str
    lendable: int = 0
    lent: int = 0
    releasing: int = 0
    cleaning: int = 0
    quarantined: int = 0
    missing: int = 0
    withheld: int = 0

    @property
    def inventory(self) -> int:
        """All of them."""
        return (
            self.lendable + self.lent + self.releasing + self.cleaning + self.quarantined + self.missing + self.withheld
        )
