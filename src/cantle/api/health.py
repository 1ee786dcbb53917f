"""Health, for service managers and load balancers: public, and without details a stranger could use."""

from __future__ import annotations

import msgspec

from cantle.api.call import Call


class Status(msgspec.Struct, frozen=True):
    """``{"status": "ok"}``."""

    status: str = "ok"


def alive(call: Call) -> Status:  # noqa: ARG001 (a handler)
    """This process answers."""
    return Status()


def ready(call: Call) -> Status:
    """The database answers and has the schema this release needs.

    :raises cantle.errors.Unavailable: ``database-away``, ``database-not-migrated``, and the store's other ``database-…`` codes.
    """
    call.db.check_schema()
    return Status()
