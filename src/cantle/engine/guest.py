"""What one guest may have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sqlalchemy import Connection

from cantle.errors import Conflict
from cantle.model.attachment import Attachment
from cantle.scheduling.fit import Taken
from cantle.store import attachment as store


def check_room(connection: Connection, guest: Attachment | None, host_id: int, taken: Sequence[Taken]) -> None:
    """Refuse to give a guest more units of one card than it may have, by other leases and this one (label ``units_per_guest``). One
    statement, where there is such a limit. The host is locked.

    :param taken: all that is about to be claimed on that host.
    :raises Conflict: ``guest-has-enough``; nothing was claimed.
    """
    cards = {one.offer.deployable_id: one.offer for one in taken if one.offer.kind.per_guest is not None}
    if guest is None or not cards:
        return
    wanted = Counter[int]()
    for one in taken:
        wanted[one.offer.deployable_id] += one.amount
    there = store.units_in(connection, host_id, guest)
    for card in cards.values():
        its = [row for row in there if row.deployable_id == card.deployable_id]
        most = card.kind.per_guest
        if most is not None and its and len(its) + wanted[card.deployable_id] > most:
            leases = sorted({row.lease_uuid for row in its})
            raise Conflict(
                "guest-has-enough",
                f"{guest} has {len(its)} of {card.address} by lease {', '.join(leases)}, and a guest may have {most} of one card (label "
                "units_per_guest). Release that first, or ask for another card",
                guest=str(guest),
                device=card.address,
                leases=leases,
            )
