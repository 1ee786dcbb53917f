"""What is done to a unit between two holders, and what is said of it. A reset does not prove that memory was wiped: the record says what
was done, no more."""

from __future__ import annotations

from collections.abc import Iterable

from cantle.errors import HostError
from cantle.kernel import reset
from cantle.kernel.root import Root
from cantle.kernel.unit import Unit
from cantle.wire.work import Cleaning

#: Codes of a unit that nobody holds and that is not clean.
NOT_CLEAN = frozenset({"reset-failed", "reset-not-offered"})

NOTHING = Cleaning("none", "nothing was there to be cleaned")
KEPT = Cleaning("none", "nothing was done: a mediated device that Cantle did not make stays as it is")
REMOVED = Cleaning("removed", "the mediated device was removed; the next one is made anew")


def after(cleaned: Cleaning | None, notes: Iterable[str]) -> Cleaning | None:
    """The record with what was done to the guest before."""
    return None if cleaned is None else Cleaning(cleaned.method, "; ".join([*notes, cleaned.done]))


def clean(root: Root, unit: Unit, *, required: bool) -> Cleaning:
    """Reset every function of a card that offers it. Nobody has the card.

    :param required: the card itself must offer a reset.
    :raises HostError: ``reset-failed``, ``reset-not-offered``.
    """
    ways = [function.address for function in unit.functions if reset.methods(root, function.address)]
    card = unit.card.address
    tried = {address: reset.reset(root, address) for address in ways}
    done = {address: method for address, method in tried.items() if method is not None}
    if required and card not in done:
        raise HostError(
            "reset-not-offered",
            f"{card} offers no way to reset it, and [devices] require_reset keeps such a card from the next holder; power-cycle the host, "
            "or release it by force with a reason",
            address=str(card),
        )
    words = [f"{address} was reset ({method}) and read back" for address, method in done.items()]
    undone = [function.address for function in unit.functions if function.address not in done]
    words += [f"{address} offers no reset, so nothing was done to it" for address in undone]
    return Cleaning(done.get(card, "none"), "; ".join(words))
