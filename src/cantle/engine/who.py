"""Who has what, in both directions: two statements, whatever is asked."""

from __future__ import annotations

from cantle.engine.access import project_filter
from cantle.errors import BadRequest
from cantle.model import uuids
from cantle.model.identity import Identity
from cantle.model.intent import canonical
from cantle.model.lease import Stage
from cantle.model.who import Answer, Holding
from cantle.store import who as store
from cantle.store.database import Database
from cantle.store.types import Record

#: Characters of a question.
LONGEST = 255


def find(db: Database, who: Identity, text: str) -> Answer:
    """Who has a card or unit, or what an instance, lease or workload has. Nothing is no error: nobody has it.

    :param text: PCI address in any usual spelling, or name of a parent, uuid of a device, unit (mediated device), request, instance or
        lease, a workload as it was given with the lease, or a guest that Cantle put it into (``lxc:c1``, ``c1``).
    :raises BadRequest: ``bad-argument``.
    """
    if not 1 <= len(text) <= LONGEST or "\0" in text:
        raise BadRequest("bad-argument", f"Ask for an address, a uuid or a workload of 1 to {LONGEST} characters.")
    asked, project = store.Asked(text, uuids.canonical(text) or "", canonical(text)), project_filter(who)
    with db.read() as connection:
        now = store.holdings(connection, asked, project)
        past = store.past(connection, asked, project)
    return Answer(tuple(_holding(row) for row in now), tuple(past))


def _holding(row: Record) -> Holding:
    return Holding(
        hostname=row.hostname,
        device=row.device,
        model=row.model,
        unit_uuid=row.unit_uuid,
        attach_type=row.attach_type,
        resource_class=row.resource_class,
        state="lent" if row.wanted else row.stage or Stage.RELEASING,
        reason=row.reason,
        project_id=row.project_id,
        by=row.lent_by,
        since=row.lent_at,
        arq_uuid=row.arq_uuid,
        instance_uuid=row.instance_uuid,
        lease_uuid=row.lease_uuid,
        workload=row.workload or None,
        guest=None if row.guest_kind is None else f"{row.guest_kind}:{row.guest_name}",
        expires_at=row.expires_at,
    )
