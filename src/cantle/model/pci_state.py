"""States of PCI functions that may be given to guests, and what a physical function and its virtual ones mean for each other (spec S4.3,
S4.7; reference section 1.5; Nova's ``nova/objects/pci_device.py``).

The rules are a function of all functions of one card at a time: `change` gives the states after an operation, or refuses it and changes
nothing; `repaired` gives the states that fit what is really lent, whatever the rows say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from cantle.errors import Conflict


class PciState(StrEnum):
    """Where a function is in the life of being lent."""

    AVAILABLE = "available"
    """Nobody has it, nor a relative; a claim leaves it."""
    CLAIMED = "claimed"
    """It is promised to one owner, who has not got it yet; allocate or free leaves it."""
    ALLOCATED = "allocated"
    """Its owner has it; free leaves it."""
    UNCLAIMABLE = "unclaimable"
    """A relative is claimed; the relative's allocate or free leaves it."""
    UNAVAILABLE = "unavailable"
    """A relative is allocated; the relative's free leaves it."""
    REMOVED = "removed"
    """The host does not have it any more; saving it leaves it."""
    DELETED = "deleted"
    """Its row is gone; nothing leaves it."""


class Operation(StrEnum):
    """What is done to a function."""

    CLAIM = "claim"
    ALLOCATE = "allocate"
    FREE = "free"
    REMOVE = "remove"
    SAVE = "save"


_S = PciState

#: From which states an operation is possible.
FROM: Mapping[Operation, frozenset[PciState]] = {
    Operation.CLAIM: frozenset({_S.AVAILABLE}),
    Operation.ALLOCATE: frozenset({_S.AVAILABLE, _S.CLAIMED}),
    Operation.FREE: frozenset({_S.CLAIMED, _S.ALLOCATED}),
    Operation.REMOVE: frozenset({_S.AVAILABLE, _S.UNCLAIMABLE, _S.UNAVAILABLE}),
    Operation.SAVE: frozenset({_S.REMOVED}),
}

#: States of a relative with which an operation is possible.
_RELATIVE_CLAIM = frozenset({_S.AVAILABLE, _S.UNCLAIMABLE, _S.UNAVAILABLE})
_GONE = frozenset({_S.REMOVED, _S.DELETED})
_HELD = frozenset({_S.CLAIMED, _S.ALLOCATED})


@dataclass(frozen=True, slots=True)
class PciFunctionState:
    """A function with who has it. ``parent``: address of the physical function that a virtual one belongs to."""

    address: str
    state: PciState = PciState.AVAILABLE
    owner: str | None = None
    parent: str | None = None


Functions = Mapping[str, PciFunctionState]


def change(
    functions: Functions, address: str, operation: Operation, owner: str | None = None
) -> dict[str, PciFunctionState]:
    """All functions after an operation on one.

    :param functions: of one card, by address.
    :param owner: who claims, is given or frees it.
    :raises Conflict: ``pci-wrong-state``, ``pci-other-owner``, ``pci-relative-in-use``; nothing is changed then.
    """
    one = functions[address]
    if one.state not in FROM[operation]:
        hoped = " or ".join(sorted(FROM[operation]))
        raise Conflict("pci-wrong-state", f"PCI function {address} is {one.state} instead of {hoped}.", state=one.state)
    if operation in (Operation.ALLOCATE, Operation.FREE) and one.owner not in (None, owner):
        raise Conflict("pci-other-owner", f"PCI function {address} is {one.owner}'s, not {owner}'s.", owner=one.owner)
    after = dict(functions)
    match operation:
        case Operation.CLAIM:
            _need_relatives(functions, one, _RELATIVE_CLAIM)
            after[address] = replace(one, state=_S.CLAIMED, owner=owner)
        case Operation.ALLOCATE:
            _need_relatives(functions, one, _RELATIVE_CLAIM)
            after[address] = replace(one, state=_S.ALLOCATED, owner=owner)
        case Operation.FREE:
            after[address] = replace(one, state=_S.AVAILABLE, owner=None)
        case Operation.REMOVE:
            after[address] = replace(one, state=_S.REMOVED, owner=None)
        case Operation.SAVE:
            del after[address]
    return _related(after)


def repaired(functions: Functions) -> dict[str, PciFunctionState]:
    """The states that fit what is really lent, after rows were found that do not: a function with an owner is claimed or allocated, one
    without is free or kept from being claimed by a relative. Who has something keeps it, also where a relative is lent too."""
    after: dict[str, PciFunctionState] = {}
    for address, one in functions.items():
        if one.owner is not None and one.state not in _HELD | _GONE:
            one = replace(one, state=_S.ALLOCATED)  # noqa: PLW2901
        elif one.owner is None and one.state not in _GONE:
            one = replace(one, state=_S.AVAILABLE)  # noqa: PLW2901
        after[address] = one
    return _related(after)


def consistent(functions: Functions) -> bool:
    """Whether the rows are as `repaired` would have them, and no function is lent together with a relative."""
    held = [one for one in functions.values() if one.state in _HELD]
    return repaired(functions) == dict(functions) and not any(
        relative.state in _HELD for one in held for relative in _relatives(functions, one)
    )


def _related(functions: Functions) -> dict[str, PciFunctionState]:
    """What the states of functions that somebody has mean for their relatives. A physical function is free only when all its virtual
    ones are."""
    after = dict(functions)
    for address, one in functions.items():
        if one.state in _HELD | _GONE:
            continue
        states = {relative.state for relative in _relatives(functions, one)}
        if _S.ALLOCATED in states:
            state = _S.UNAVAILABLE
        elif _S.CLAIMED in states:
            state = _S.UNCLAIMABLE
        else:
            state = _S.AVAILABLE
        after[address] = replace(one, state=state)
    return after


def _relatives(functions: Functions, one: PciFunctionState) -> list[PciFunctionState]:
    """The virtual functions of a physical one, or the physical one of a virtual one."""
    return [
        other
        for other in functions.values()
        if other.parent == one.address or (one.parent == other.address and one.parent)
    ]


def _need_relatives(functions: Functions, one: PciFunctionState, states: frozenset[PciState]) -> None:
    for relative in _relatives(functions, one):
        if relative.state not in states | _GONE:
            raise Conflict(
                "pci-relative-in-use",
                f"PCI function {one.address} cannot be lent: {relative.address}, of the same card, is {relative.state}.",
                relative=relative.address,
            )
