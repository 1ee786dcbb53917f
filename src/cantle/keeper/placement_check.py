"""Whether Placement and we agree on who has what: allocations without a request of ours, and the reverse. Reads only."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cantle.errors import NotFound
from cantle.store import provider as store
from cantle.store.database import Database

if TYPE_CHECKING:
    from cantle.placement.client import PlacementClient  # needs an extra


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Somebody who has more in one place than in the other.

    :param allocated: units of the provider that Placement says this consumer has.
    :param requested: accelerator requests of ours that hold, or are being given, a unit of it for this instance.
    :param gone: Placement has no such provider.
    """

    host: str
    provider: str
    uuid: str
    consumer: str
    allocated: int
    requested: int
    gone: bool = False

    @property
    def says(self) -> str:
        """What that means, and what to do."""
        if self.allocated > self.requested:
            return (
                "allocated in Placement without a request of ours: a boot under way, or left behind. If the instance is gone (openstack "
                f"server show {self.consumer}): openstack resource provider allocation delete {self.consumer}, which takes away all that "
                "it has there, CPU and memory too; nova-manage placement audit names such leftovers"
            )
        if self.gone:
            return (
                "a request of ours, and its provider is not in Placement: "
                f"'cantle placement sync {self.host}' makes it again or says why not. Then check again"
            )
        return (
            "a request of ours without an allocation in Placement: another instance may be sent here in vain. If the instance is gone: "
            f"openstack accelerator arq delete --instance {self.consumer}; else: nova-manage placement heal_allocations"
        )


def disagreements(db: Database, client: PlacementClient, host_id: int, hostname: str) -> list[Disagreement]:
    """Compare one host: a request for each of its providers.

    :raises Unavailable: ``placement-away``.
    """
    with db.read() as connection:
        records = store.records(connection, host_id, 0.0)
        held = store.held(connection, sorted(records))
    found = []
    for uuid, (record, _missing, _vanished) in sorted(records.items(), key=lambda pair: pair[1][0].name):
        allocations, gone = {}, False
        try:
            allocations = client.allocations(uuid)
        except NotFound:
            gone = True
        allocated = Counter({consumer: sum(amounts.values()) for consumer, amounts in allocations.items()})
        requested = held.get(uuid, Counter())
        for consumer in sorted({*allocated, *requested}):
            if allocated[consumer] != requested[consumer]:
                pair = allocated[consumer], requested[consumer]
                found.append(Disagreement(hostname, record.name, uuid, consumer, *pair, gone=gone))
    return found
