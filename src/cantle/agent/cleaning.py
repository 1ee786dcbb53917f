"""What is done to a unit between two holders, and what is said of it. A reset does not prove that memory was wiped: the record says what
was done, no more."""

from __future__ import annotations

from collections.abc import Iterable

from cantle.errors import CantleError, HostError
from cantle.kernel import binding, holders, pci, reset
from cantle.kernel.root import Root
from cantle.kernel.undo import Undo
from cantle.kernel.unit import Unit
from cantle.model.pci import PciFunction
from cantle.wire.work import Cleaning

#: Codes of a unit that nobody holds and that is not clean.
NOT_CLEAN = frozenset({"reset-failed", "reset-not-offered", "reset-not-possible"})

NOTHING = Cleaning("none", "nothing was there to be cleaned")
KEPT = Cleaning("none", "nothing was done: a mediated device that Cantle did not make stays as it is")
SLICE = Cleaning("none", "nothing was done: a MIG slice cannot be reset by itself, and others may use its card")
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


def in_place(root: Root, unit: Unit, *, required: bool) -> Cleaning:
    """Reset a card that stays on its driver, which lets go of it meanwhile: it would not see that its device was reset under it. Nobody
    but programs of the host may have the card; while one has it, it is left as it is.

    :param required: the card itself must be reset.
    :raises HostError: ``reset-failed``, ``reset-not-offered``, ``reset-not-possible``. It is on its driver again, if that takes it.
    """
    ways = [function for function in unit.functions if reset.methods(root, function.address)]
    why = _in_the_way(root, ways)
    if why and not required:
        return Cleaning("none", f"nothing was done: {why}")
    if why:
        raise HostError(
            "reset-not-possible",
            f"{unit.card.address} cannot be reset now, and [devices] require_reset keeps such a card from the next holder: {why}",
            address=str(unit.card.address),
        )
    try:
        for function in ways:
            if function.driver is not None:
                binding.unbind(root, function.address, function.driver, Undo())
        cleaned = clean(root, unit, required=required)
    except CantleError as error:
        failures = _give_back(root, ways)
        code = error.code if error.code in NOT_CLEAN else "reset-failed"
        raise HostError(code, "; ".join([error.message, *failures]), address=str(unit.card.address)) from error
    failures = _give_back(root, ways)
    if failures:
        raise HostError("reset-failed", f"{cleaned.done}; {'; '.join(failures)}", address=str(unit.card.address))
    return cleaned


def _in_the_way(root: Root, functions: Iterable[PciFunction]) -> str:
    """Why these cannot be taken from their drivers for a moment; "" when they can."""
    functions = list(functions)
    for function in functions:
        if root.read_or_none(f"{pci.DEVICES}/{function.address}/boot_vga") == "1":
            return f"the host's console is on {function.address}"
    held = holders.holders(root, [node for one in functions for node in holders.nodes(root, one.address)])
    if held.holders:
        return f"the host itself uses it: {'; '.join(map(str, held.holders[:4]))}"
    return f"who uses it cannot be found out: {held.blind}" if held.blind is not None else ""


def _give_back(root: Root, functions: Iterable[PciFunction]) -> list[str]:
    """To the drivers that they were on, or to whatever driver takes one that an earlier try has left on none; what failed."""
    failures = []
    for function in functions:
        if binding.driver(root, function.address) is None:
            try:
                if function.driver is not None:
                    binding.bind(root, function.address, function.driver, Undo())
                else:
                    binding.probe(root, function.address, Undo())
            except CantleError as error:
                failures.append(f"it is on no driver now: {error.message}")
    return failures
