"""Rows of the simplest table, and how a database refuses."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import select

from cantle.errors import CantleError, Unavailable
from cantle.store.database import Database
from cantle.store.tables import hosts


def host_row(name: str = "h", **values: object) -> dict[str, object]:
    """A row of the simplest table."""
    now = dt.datetime.now(dt.UTC)
    return {"hostname": name, "generation": 1, "former_starts": (), "problems": (), "created_at": now, **values}


def names(db: Database) -> list[str]:
    """What is in it."""
    with db.read() as connection:
        return list(connection.execute(select(hosts.c.hostname).order_by(hosts.c.hostname)).scalars())


@contextmanager
def refused(code: str, kind: type[CantleError] = Unavailable) -> Iterator[None]:
    """The block fails with that code, and its message shows no SQL."""
    with pytest.raises(kind) as caught:
        yield
    assert caught.value.code == code
    for word in ("SELECT", "INSERT", "hosts", "sqlalche.me", "PRAGMA", "BEGIN"):
        assert word not in caught.value.message
