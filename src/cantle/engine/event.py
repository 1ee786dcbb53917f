"""Events: look up what others were told. They are written in `cantle.engine.announce`."""

from __future__ import annotations

from cantle.model.event import Told
from cantle.model.page import Page
from cantle.store import event as store
from cantle.store.database import Database


def list_events(
    db: Database, *, page: Page | None = None, ended: bool | None = None, **where: str | None
) -> list[Told]:
    """Events with exactly these values of channel, type, about; those that are done with, or are not, if asked.

    :param where: values by those names; None says nothing.
    :raises BadRequest: ``bad-sort-key``, ``marker-not-found``.
    """
    with db.read() as connection:
        return store.listed(connection, where, ended=ended, page=page)
