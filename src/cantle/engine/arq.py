"""Accelerator requests: make, look up, delete. Binding is in `cantle.engine.bind`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from cantle.engine import absent, audit
from cantle.engine.access import need_service, project_filter, sees
from cantle.engine.clock import now
from cantle.engine.parting import HOLDING, check_locked, refuse_lent, take_back
from cantle.errors import Locked
from cantle.model import uuids
from cantle.model.arq import RESOLVED, Arq, ArqState
from cantle.model.audit import Thing
from cantle.model.event import Channel
from cantle.model.identity import Identity
from cantle.model.page import Page
from cantle.model.profile import units
from cantle.store import arq as store
from cantle.store import host, parting, profile
from cantle.store.database import Database, outbox_topic
from cantle.store.faults import LookAgain
from cantle.store.types import Record
from cantle.store.wakeups import Patience


def create_arqs(db: Database, who: Identity, profile_name: str) -> list[Arq]:
    """One ARQ per accelerator the profile asks for, in the order of its groups, in the caller's project.

    :raises NotFound: ``profile-not-found``.
    """

    def work(connection: Connection) -> list[Arq]:
        found = profile.by_name(connection, profile_name)
        if found is None:
            raise absent.profile(profile_name)
        rows: list[dict[str, Any]] = [
            {
                "uuid": uuids.new(),
                "state": ArqState.INITIAL,
                "profile_id": found.id,
                "profile_name": found.name,
                "group_id": unit.group_id,
                "resource_class": unit.resource_class,
                "required": unit.required,
                "forbidden": unit.forbidden,
                "project_id": who.project_id,
                "created_at": made,
            }
            for unit in units(found.groups)
        ]
        things = (Thing(who.project_id, arq_uuid=row["uuid"], facts={"profile": found.name}) for row in rows)
        audit.record(connection, who, "arq.create", *things)
        return [_made(number, row) for number, row in zip(store.add(connection, rows), rows, strict=True)]

    made = now()
    arqs = db.run(work)
    audit.note(who, "arq.create", *(arq.uuid for arq in arqs))
    return arqs


def list_arqs(
    db: Database, who: Identity, *, instance: str | None = None, resolved: bool = False, page: Page | None = None
) -> list[Arq]:
    """The caller's ARQs; with a service token and an instance, that instance's, whoever they belong to.

    :param resolved: without an instance, leaves out those still on the way; with one, all of its ARQs must be resolved.
    :raises BadRequest: ``bad-uuid``, ``bad-sort-key``, ``marker-not-found``.
    :raises Locked: ``arqs-not-resolved``: an ARQ of the instance is still on the way.
    """
    wanted = None if instance is None else uuids.checked(instance, "instance")
    project = None if who.is_service and wanted is not None else project_filter(who)
    with db.read() as connection:
        if wanted is None:
            states = sorted(RESOLVED) if resolved else None
            return store.listed(connection, project=project, instance=None, states=states, page=page)
        found = [arq for arq in store.of_instance(connection, wanted) if project in (None, arq.project_id)]
        if resolved:
            _refuse_pending(found)  # of all of them, whichever page is asked for
        if page in (None, Page()):  # what the compute service asks all the time
            return found
        return store.listed(connection, project=project, instance=wanted, states=None, page=page)


def wait_bound(db: Database, who: Identity, instance: str, *, seconds: float) -> None:
    """Until none of the instance's binds is on the way any more, at the latest for so many seconds. Where the compute service is told.

    Nova's compute asks for an instance's ARQs when it begins to wait for their events. Those that are bound in the answer need no event;
    and while Nova unshelves no event arrives, since it gives the instance its host only after the wait (Nova 34, `_unshelve_instance`).

    :raises BadRequest: ``bad-uuid``.
    """
    patience = Patience(seconds)
    with db.wakeups.waiter(outbox_topic(Channel.NOVA)) as waiter:
        while is_binding(list_arqs(db, who, instance=instance)) and patience.left and not db.wakeups.stopped:
            waiter.wait(patience.left)


def is_binding(arqs: Sequence[Arq]) -> bool:
    """Whether the bind of one of them is on the way."""
    return any(arq.state is ArqState.BIND_STARTED for arq in arqs)


def find_arqs(
    db: Database,
    who: Identity,
    *,
    instance: str | None = None,
    state: ArqState | None = None,
    hostname: str | None = None,
    page: Page | None = None,
) -> list[Arq]:
    """The caller's ARQs with exactly these values, for people: none of `list_arqs`'s rules for the compute service.

    :raises BadRequest: ``bad-uuid``, ``bad-sort-key``, ``marker-not-found``.
    """
    wanted = None if instance is None else uuids.checked(instance, "instance")
    states = None if state is None else [state]
    with db.read() as connection:
        return store.listed(
            connection, project=project_filter(who), instance=wanted, states=states, page=page, hostname=hostname
        )


def _refuse_pending(arqs: Sequence[Arq]) -> None:
    pending = [arq.uuid for arq in arqs if arq.shown_state not in RESOLVED]
    if pending:
        raise Locked("arqs-not-resolved", f"Not yet resolved: {', '.join(pending)}. Ask again.", arqs=pending)


def get_arq(db: Database, who: Identity, uuid: str) -> Arq:
    """One ARQ of the caller's.

    :raises BadRequest: ``bad-uuid``.
    :raises NotFound: ``arq-not-found``.
    """
    wanted = uuids.checked(uuid, "accelerator request uuid")
    with db.look() as connection:
        found = store.by_uuid(connection, wanted)
    if found is None or not sees(who, found.project_id, found.instance_uuid):
        raise absent.arqs([uuid])
    return found


def delete_arqs(db: Database, who: Identity, wanted: Sequence[str]) -> None:
    """Delete ARQs. Those that exist are deleted even if others do not; the latter are then named in the error.

    Their units are taken back by the host and can be lent again when it has said so.

    :raises NotFound: ``arq-not-found``, after the others were deleted.
    :raises Forbidden: ``service-token-needed``: one belongs to an instance; nothing was deleted.
    :raises Conflict: ``arq-of-lease``: one belongs to a lease; nothing was deleted.
    """
    spelled = {uuids.canonical(text) or text: text for text in wanted}

    def work(connection: Connection) -> list[str]:
        locked = host.lock_of_arqs(connection, list(spelled))
        found = parting.to_part(connection, list(spelled))
        check_locked(locked, found)
        rows = [row for row in found if sees(who, row.project_id, row.instance_uuid)]
        if any(row.instance_uuid is not None for row in rows):
            need_service(who)
        _delete(connection, rows, who)
        return [text for uuid, text in spelled.items() if uuid not in {row.uuid for row in rows}]

    missing = db.run(work)
    audit.note(who, "arq.delete", *(text for text in wanted if text not in missing))
    if missing:
        raise absent.arqs(missing)


def delete_arqs_of_instance(db: Database, who: Identity, instance: str) -> None:
    """Delete all ARQs of an instance, whoever they belong to. There may be none.

    :raises BadRequest: ``bad-uuid``.
    :raises Forbidden: ``service-token-needed``.
    """
    need_service(who)
    wanted = uuids.checked(instance, "instance")

    def work(connection: Connection) -> None:
        locked = host.lock_of_instance(connection, wanted)
        found = parting.to_part_of_instance(connection, wanted)
        check_locked(locked, found)
        _delete(connection, found, who)

    db.run(work)
    audit.note(who, "arq.delete_of_instance", wanted)


def _delete(connection: Connection, rows: Sequence[Record], who: Identity) -> None:
    refuse_lent(rows)
    holding = take_back(connection, rows, now(), who)
    # Of one that holds a unit there is a record when that is back, with who gave it back.
    bare = [row for row in rows if row.state not in HOLDING]
    things = (Thing(row.project_id, arq_uuid=row.uuid, instance_uuid=row.instance_uuid) for row in bare)
    audit.record(connection, who, "arq.delete", *things)
    if rows and parting.remove(connection, [row.id for row in rows], holding) < len(rows):
        raise LookAgain


def _made(number: int, row: dict[str, Any]) -> Arq:
    return Arq(id=number, **{key: value for key, value in row.items() if key != "profile_id"})
