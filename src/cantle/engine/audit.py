"""Who did what: a record in the transaction that does it, and a log line (logger ``cantle.audit``) when it is committed."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection

from cantle.model.audit import Record, Thing
from cantle.model.identity import Identity
from cantle.model.page import Page
from cantle.store import audit as store
from cantle.store.database import Database, wake
from cantle.store.wakeups import AUDIT_TOPIC

LOG = logging.getLogger("cantle.audit")


def note(who: Identity, action: str, *things: str) -> None:
    """A change that is committed: ``lease.release 5c8e… by alice in 2641… (req-…)``; with the uuid of the token, where it is ours."""
    by = who.request_id if who.token_uuid is None else f"token {who.token_uuid}, {who.request_id}"
    LOG.info("%s %s by %s in %s (%s)", action, " ".join(things), who.user_id, who.project_id, by)


def record(connection: Connection, who: Identity, action: str, *things: Thing) -> None:
    """Write what is done, with the change itself: one record for each thing, one statement for all."""
    record_all(connection, [line(who, action, thing) for thing in things])


def record_all(connection: Connection, lines: Sequence[dict[str, Any]]) -> None:
    """The same for what different people did: lines of `line`."""
    if lines:
        store.add(connection, lines)
        wake(connection, AUDIT_TOPIC)


def line(who: Identity, action: str, thing: Thing) -> dict[str, Any]:
    """One record that is yet to be written."""
    return {
        "action": action,
        "user_id": who.user_id,
        "project_id": who.project_id,
        "token_uuid": who.token_uuid,
        "request_id": who.request_id or None,
        **asdict(thing),
    }


def list_records(
    db: Database,
    *,
    page: Page | None = None,
    since: dt.datetime | None = None,
    until: dt.datetime | None = None,
    **where: str | None,
) -> list[Record]:
    """Records with exactly these values (names of `cantle.store.audit.FILTERS`), the oldest first unless the page says otherwise.

    :param since: from then on; ``until``: before then. Aware.
    :param where: values by those names; None says nothing.
    :raises BadRequest: ``bad-sort-key``, ``marker-not-found``.
    """
    with db.read() as connection:
        return store.listed(connection, where, since=since, until=until, page=page)
