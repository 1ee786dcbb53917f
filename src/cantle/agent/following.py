"""Whether a host follows what its server wants, and what of earlier wants is left behind. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from cantle.agent.desired import Desired
from cantle.model.attach_handle import AttachType
from cantle.wire.work import WantedHandle, Work


def followed(memory: Desired) -> int:
    """The highest generation this host has followed, over all lives of its agent; 0 for none."""
    return max(memory.frozen_at, memory.work.generation if memory.work is not None else 0)


def frozen_at(memory: Desired, work: Work) -> int:
    """The generation at which this host is frozen; 0 when it follows ``work``.

    It freezes when the server is behind, since the database was restored from a backup then: what the server does not know of may be in
    a guest's hands. It stays frozen whatever generations come, until a person has confirmed (``Work.confirmed``).
    """
    at = memory.frozen_at or (followed(memory) if work.generation < followed(memory) else 0)
    return 0 if work.confirmed >= at else at


def next_memory(memory: Desired, work: Work, gone: Collection[str] = ()) -> Desired:
    """The memory of a host that follows ``work`` from now on.

    :param gone: uuids of units that were seen gone; all others that the server names no more are left behind, to be taken back.
    """
    named = {handle.uuid for handle in (*work.wanted, *work.unwanted)}
    before = memory.work or Work(0)
    left = {handle.uuid: handle for handle in (*memory.leftovers, *before.unwanted, *before.wanted)}
    leftovers = tuple(handle for uuid, handle in left.items() if uuid not in named and uuid not in gone)
    return msgspec.structs.replace(memory, work=work, leftovers=leftovers, frozen_at=0)


def lent_anew(memory: Desired, work: Work) -> set[str]:
    """Uuids of units that are wanted for another loan than before, or again, without having been taken back in between. No server does
    that, but one whose database was restored and that has lent so much since that it is not behind any more: whoever holds one is a
    stranger to it. Of a unit that was to be taken back the loan may be forgotten already."""
    before = memory.work or Work(0)
    loans = {handle.uuid: handle.loan for handle in before.wanted}
    ending = {handle.uuid for handle in (*before.unwanted, *memory.leftovers)} - loans.keys()
    return {
        one.uuid
        for one in work.wanted
        if one.uuid in ending or (one.loan is not None and loans.get(one.uuid, one.loan) not in (None, one.loan))
    }


def to_take_back(leftovers: Iterable[WantedHandle], work: Work) -> list[WantedHandle]:
    """Leftovers that are nobody's any more: not those of cards that are wanted whole under another uuid now."""
    whole = {handle.device for handle in work.wanted if handle.attach_type is AttachType.PCI}
    return [one for one in leftovers if one.attach_type is not AttachType.PCI or one.device not in whole]
