"""Whose an instance is, remembered after its ARQs are gone (contract section 7.1 #2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, bindparam, delete, update
from sqlalchemy.dialects import mysql, postgresql, sqlite

from cantle.store.prepared import Prepared
from cantle.store.tables import instance_owners
from cantle.store.types import database_now

_VALUES = {"instance_uuid": bindparam("instance"), "project_id": bindparam("project"), "seen_at": database_now()}
#: The first owner stays; being seen again only puts off the day it is forgotten.
_AGAIN = {"seen_at": database_now()}
_REMEMBER = {
    "sqlite": Prepared(
        sqlite.insert(instance_owners)
        .values(_VALUES)
        .on_conflict_do_update(index_elements=["instance_uuid"], set_=_AGAIN)
    ),
    "postgresql": Prepared(
        postgresql.insert(instance_owners)
        .values(_VALUES)
        .on_conflict_do_update(index_elements=["instance_uuid"], set_=_AGAIN)
    ),
    "mysql": Prepared(mysql.insert(instance_owners).values(_VALUES).on_duplicate_key_update(_AGAIN)),
}
_REMEMBER["mariadb"] = _REMEMBER["mysql"]


def remember(connection: Connection, owners: Mapping[str, str]) -> None:
    """Remember owners by instance, unless there is one already."""
    rows: list[dict[str, Any]] = [
        {"instance": instance, "project": project} for instance, project in sorted(owners.items())
    ]
    if rows:
        _REMEMBER[connection.dialect.name].change(connection, *rows)


def replace(connection: Connection, owners: Mapping[str, str]) -> None:
    """Change remembered owners by instance."""
    for instance, project in sorted(owners.items()):
        connection.execute(
            update(instance_owners).where(instance_owners.c.instance_uuid == instance).values(project_id=project)
        )


def forget(connection: Connection, days: int) -> int:
    """Forget those that were not seen for so long; how many."""
    return connection.execute(
        delete(instance_owners).where(instance_owners.c.seen_at < database_now(-86400.0 * days))
    ).rowcount
