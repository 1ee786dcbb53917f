"""Hosts: look up, and what operators do with one as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from cantle.engine import absent, audit
from cantle.errors import Conflict
from cantle.model.audit import Thing
from cantle.model.host import DOWN_AFTER_S, Host, check_name
from cantle.model.identity import Identity
from cantle.model.page import Page
from cantle.model.token import Role
from cantle.store import decommission
from cantle.store import host as store
from cantle.store import token as tokens
from cantle.store.database import Database, host_topic, report_topic, wake
from cantle.store.types import Record, database_now

#: Holders named in a message; more are counted.
MOST_NAMED = 20


def list_hosts(
    db: Database, *, hostname: str | None = None, up: bool | None = None, page: Page | None = None
) -> list[Host]:
    """Hosts an agent has reported for, by name unless the page says otherwise.

    :raises BadRequest: ``bad-sort-key``, ``marker-not-found``.
    """
    with db.read() as connection:
        return store.listed(connection, {"hostname": hostname}, up=up, page=page)


def get_host(db: Database, hostname: str) -> Host:
    """One host.

    :raises NotFound: ``host-not-found``.
    """
    with db.read() as connection:
        found = store.listed(connection, {"hostname": hostname})
    if not found:
        raise absent.host(hostname)
    return found[0]


def drain(db: Database, who: Identity, hostname: str) -> Host:
    """Lend nothing new on a host. What is lent stays.

    :raises NotFound: ``host-not-found``.
    """

    def work(connection: Connection) -> None:
        row = _locked(connection, hostname)
        if row.drained_at is None:
            store.change(connection, row.id, drained_at=database_now(), drained_by=who.user_id)
            audit.record(connection, who, "host.drain", Thing(hostname=hostname))
            wake(connection, report_topic(hostname))

    db.run(work)
    audit.note(who, "host.drain", hostname)
    return get_host(db, hostname)


def undrain(db: Database, who: Identity, hostname: str) -> Host:
    """Lend on a host again.

    :raises NotFound: ``host-not-found``.
    """

    def work(connection: Connection) -> None:
        row = _locked(connection, hostname)
        store.change(connection, row.id, drained_at=None, drained_by=None)
        audit.record(connection, who, "host.undrain", Thing(hostname=hostname))
        wake(connection, report_topic(hostname))

    db.run(work)
    audit.note(who, "host.undrain", hostname)
    return get_host(db, hostname)


def confirm(db: Database, who: Identity, hostname: str) -> Host:
    """A person has looked: the host goes on. A frozen one is lent again and follows what we know of it; the machine, and the
    agent, that speaks next is the host's, whichever was before.

    :raises NotFound: ``host-not-found``.
    """

    def work(connection: Connection) -> None:
        row = _locked(connection, hostname)
        ahead = max(row.followed, row.generation)
        store.change(
            connection,
            row.id,
            frozen_at=None,
            frozen_code=None,
            frozen_reason=None,
            confirmed=max(row.confirmed, row.followed),
            generation=ahead + 1,
            machine=None,
            boot=None,
            former_boots=(),
            agent_start=None,
            former_starts=(),
            warnings=(),
            digest=None,  # its next report is looked at in full
        )
        audit.record(connection, who, "host.confirm", Thing(hostname=hostname))
        wake(connection, host_topic(hostname))
        wake(connection, report_topic(hostname))

    db.run(work)
    audit.note(who, "host.confirm", hostname)
    return get_host(db, hostname)


def forget(db: Database, who: Identity, hostname: str) -> None:
    """Take a host out: its devices, what was wanted of them, its agent's token. Its past stays, and is its own again if it comes back.

    :raises NotFound: ``host-not-found``.
    :raises Conflict: ``host-still-up``; ``host-in-use``, naming who has something of it.
    """

    def work(connection: Connection) -> None:
        row = _locked(connection, hostname)
        holders = decommission.held(connection, row.id)
        if holders:
            raise _in_use(hostname, holders)
        if row.up:
            raise Conflict(
                "host-still-up",
                f"The agent of {hostname} was heard of within the last {DOWN_AFTER_S} s, and would bring everything back. Stop it first.",
                hostname=hostname,
            )
        decommission.remove(connection, row.id)
        tokens.revoke_of_host(connection, hostname, Role.AGENT, Role.JOIN)
        store.change(
            connection,
            row.id,
            forgotten_at=database_now(),
            digest=None,
            agent_start=None,
            last_seen=None,
            machine=None,
            boot=None,
            former_boots=(),
            problems=(),
            conditions=(),
            warnings=(),
            sockets=None,
            drained_at=None,
            drained_by=None,
            frozen_at=None,
        )
        audit.record(connection, who, "host.forget", Thing(hostname=hostname))
        wake(connection, report_topic(hostname))

    db.run(work)
    audit.note(who, "host.forget", hostname)


def rename(db: Database, who: Identity, hostname: str, to: str) -> Host:
    """Let a host go by another name, with all it has and all that is lent. Its agent joins anew under that name.

    :raises NotFound: ``host-not-found``.
    :raises BadRequest: ``bad-hostname``.
    :raises Conflict: ``host-name-taken``, also by one that was forgotten; ``host-still-up``.
    """
    check_name(to)

    def work(connection: Connection) -> None:
        row = _locked(connection, hostname)
        if store.find(connection, to) is not None:
            raise Conflict(
                "host-name-taken",
                f"There is, or was, a host {to}; its past is its own. Choose another name.",
                hostname=to,
            )
        if row.up:
            raise Conflict(
                "host-still-up",
                f"The agent of {hostname} was heard of within the last {DOWN_AFTER_S} s, and would go on under the old name. Stop it "
                "first.",
                hostname=hostname,
            )
        store.change(connection, row.id, hostname=to, digest=None)
        audit.record(connection, who, "host.rename", Thing(hostname=hostname, facts={"to": to}))
        decommission.rename(connection, row.id, hostname, to)
        tokens.revoke_of_host(connection, hostname, Role.AGENT, Role.JOIN)

    db.run(work)
    audit.note(who, "host.rename", hostname, to)
    return get_host(db, to)


def _locked(connection: Connection, hostname: str) -> Record:
    row = store.find(connection, hostname, lock=True)
    if row is None or row.forgotten_at is not None:
        raise absent.host(hostname)
    return row


def _in_use(hostname: str, holders: Sequence[Record]) -> Conflict:
    """Who has something of a host, each named once and with the command that ends it."""
    named = [
        f"lease {row.lease_uuid}" + (f" ({row.workload})" if row.workload else "")
        if row.lease_uuid is not None
        else f"request {row.arq_uuid}" + (f" of instance {row.instance_uuid}" if row.instance_uuid else "")
        if row.arq_uuid is not None
        else "a unit that is still being taken back"
        for row in holders
    ]
    told = list(dict.fromkeys(named))
    shown = ", ".join(told[:MOST_NAMED]) + (f" and {len(told) - MOST_NAMED} more" if len(told) > MOST_NAMED else "")
    return Conflict(
        "host-in-use",
        f"{len(holders)} units of {hostname} are lent or being taken back: {shown}. Give them back first; while the host is drained, "
        "nothing is added.",
        hostname=hostname,
        holders=told,
    )
