"""Kinds of offers."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from sqlalchemy import Connection, insert, select

from cantle.model.kind import Kind, load
from cantle.store.kind_tables import kinds
from cantle.store.paging import chunks

_ALL = select(kinds.c.digest, kinds.c.facts).order_by(kinds.c.digest)


def all_kinds(connection: Connection) -> list[Kind]:
    """Every kind there ever was: some dozens, whatever the size of the cloud."""
    return [load(row.digest, row.facts) for row in connection.execute(_ALL)]


def learn(connection: Connection, facts: Mapping[str, str], now: dt.datetime) -> None:
    """Remember kinds, by digest, that are not known yet."""
    known: set[str] = set()
    for some in chunks(sorted(facts)):
        known.update(connection.execute(select(kinds.c.digest).where(kinds.c.digest.in_(list(some)))).scalars())
    new = [
        {"digest": digest, "facts": text, "created_at": now}
        for digest, text in sorted(facts.items())
        if digest not in known
    ]
    if new:
        connection.execute(insert(kinds), new)
