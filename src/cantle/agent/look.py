"""Looking again without looking at everything: a report stands as long as nothing that it was made of has changed."""

from __future__ import annotations

from collections.abc import Callable

from cantle.kernel import volatile
from cantle.kernel.root import Root
from cantle.model.intent import is_pci
from cantle.wire.inventory import InventoryReport

#: Seconds after which everything is looked at, whatever seems to have changed: a card may have hung, a disk been mounted.
WHOLE = 300.0


class Looks:
    """The last report of a host, and what it was made of."""

    def __init__(self, root: Root, clock: Callable[[], float]) -> None:
        self._root = root
        self._clock = clock
        self._last: InventoryReport | None = None
        self._seen: tuple[object, ...] = ()
        self._whole_at = 0.0

    def report(self, basis: object, make: Callable[[], InventoryReport]) -> InventoryReport:
        """The last report if the host and ``basis`` are as they were then, else what ``make`` gives.

        :param basis: whatever else goes into a report; compared by ``==``.
        :raises HostError: what cannot be read.
        """
        cards = [one.address for one in self._last.devices if is_pci(one.address)] if self._last is not None else []
        seen = (basis, volatile.fingerprint(self._root, cards))
        if self._last is not None and seen == self._seen and self._clock() < self._whole_at:
            return self._last
        self._last = None
        before = volatile.fingerprint(self._root)
        report = make()
        if not report.problems:
            cards = [one.address for one in report.devices if is_pci(one.address)]
            after = volatile.fingerprint(self._root, cards)
            if after[:-1] == before[:-1]:  # else something changed during the look: who knows what of it was seen
                self._last, self._seen, self._whole_at = report, (basis, after), self._clock() + WHOLE
        return report

    def forget(self) -> None:
        """Look at everything next time."""
        self._last = None
