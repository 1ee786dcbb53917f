"""How many more of a request fit on a host: as many as could be lent one after the other, each where it would be chosen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from cantle.model.offer import Offer, sockets_of
from cantle.model.request import Request
from cantle.scheduling.fit import Taken, fit

#: More than any host has units: the count of what asks for nothing of it would not end.
MOST = 4096


def how_many(request: Request, offers: Sequence[Offer]) -> int:
    """How often the request can be served from one host's offers before it cannot any more."""
    left = list(offers)
    for count in range(MOST):
        taken = fit(request, left)
        if taken is None:
            return count
        left = _without(left, taken)
    return MOST


def shape(offers: Sequence[Offer]) -> tuple[object, ...]:
    """Equal for hosts on which equally many fit: a cloud has few different ones."""
    sockets = sockets_of(offers)
    return tuple(sockets.items()) if sockets else (), *(
        (offer.kind.digest, offer.free, offer.used > 0, offer.numa_node, offer.out_of_service is None)
        for offer in sorted(offers, key=lambda one: (one.address, one.deployable_id))
    )


def _without(offers: Sequence[Offer], taken: Sequence[Taken]) -> list[Offer]:
    gone: Counter[int] = Counter()
    for one in taken:
        gone[one.offer.deployable_id] += one.amount
    return [
        msgspec.structs.replace(
            offer, free=offer.free - gone[offer.deployable_id], used=offer.used + gone[offer.deployable_id]
        )
        if gone[offer.deployable_id]
        else offer
        for offer in offers
    ]
