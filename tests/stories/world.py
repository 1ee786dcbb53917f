"""A small cloud to tell stories about: the real WSGI applications over the real engine on SQLite, and people to call them.

Only the front door differs from production: a request says which person makes it, in a place of the WSGI environment that no
client can reach. What tokens do instead is tested with Keystone itself.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import falcon.testing
from sqlalchemy import update

from cantle.api import admission, dispatch, routes
from cantle.api.app import agents_app
from cantle.api.call import Site
from cantle.api.frame import Frame
from cantle.api.parking import Parking
from cantle.api.policy import Policy
from cantle.api.request_id import ENVIRON
from cantle.api.settings import Settings
from cantle.keeper import expiry
from cantle.model.identity import Identity
from cantle.store.database import Database
from cantle.store.migrate import upgrade
from cantle.store.tables import leases
from cantle.store.types import database_now

PROJECT = "2641e5a096b24726a35900171e6001ca"
OTHER_PROJECT = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"


def _person(name: str, *roles: str, project: str | None = PROJECT, service: bool = False) -> Identity:
    return Identity(name, project, frozenset(roles), service)


#: Who may call, by name. Keystone's admin implies manager, member and reader; the single roles are those of the policy matrix.
PEOPLE = {
    person.user_id: person
    for person in (
        _person("admin", "admin", "manager", "member", "reader"),
        _person("admin-only", "admin"),
        _person("manager", "manager"),
        _person("member", "member", "reader"),
        _person("member-only", "member"),
        _person("reader", "reader"),
        _person("service", "service", service=True),
        _person("service-without-token", "service"),
        _person("nobody"),
        _person("other", "member", "reader", project=OTHER_PROJECT),
        _person("system-admin", "admin", project=None),
        _person("nova", "member", "reader", service=True),
        _person("nova-for-other", "member", "reader", project=OTHER_PROJECT, service=True),
        _person("nova-for-admin", "admin", "manager", "member", "reader", service=True),
    )
}

#: Where a request says who makes it.
PERSON = "cantle.test.person"


def fresh_database(directory: Path) -> Database:
    """A migrated SQLite database."""
    (directory / "cantle.db").write_bytes(_migrated())
    return Database.open(f"sqlite:///{directory}/cantle.db")


@functools.cache
def _migrated() -> bytes:
    """The file of an empty database with the newest schema. The migrations themselves have tests of their own."""
    with tempfile.TemporaryDirectory() as directory:
        upgrade(f"sqlite:///{directory}/cantle.db")
        return (Path(directory) / "cantle.db").read_bytes()


class World:
    """The clients' and the agents' application over one database."""

    def __init__(self, db: Database, settings: Settings | None = None) -> None:
        self.db = db
        self.settings = settings or Settings()
        site = Site(db, self.settings, Policy(self.settings.policy_file), _whoever, Parking(self.settings.parked_slots))
        self.public = Frame(dispatch.build(routes.PUBLIC_ROUTES, site), admission.anyone)
        self.agents = agents_app(db, self.settings)

    def call(
        self,
        method: str,
        url: str,
        *,
        person: str = "admin",
        headers: Mapping[str, str] | None = None,
        body: object = None,
        raw: bytes | None = None,
        agent: bool = False,
        extras: Mapping[str, Any] | None = None,
    ) -> falcon.testing.Result:
        """One request; ``body`` is sent as JSON, ``raw`` as it is."""
        parts = urlsplit(url)
        sent = dict(headers or {})
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        return falcon.testing.simulate_request(
            self.agents if agent else self.public,
            method,
            parts.path,
            query_string=parts.query,
            headers=sent,
            body=data,
            host="127.0.0.1",
            port=6666,
            remote_addr="127.0.0.1",
            extras={PERSON: person, **(extras or {})},
        )

    def time_is_over(self, lease: str) -> None:
        """The end of a lease has come, and a keeper makes its round."""
        with self.db.write() as connection:
            connection.execute(update(leases).where(leases.c.uuid == lease).values(expires_at=database_now(-1)))
        assert expiry.sweep(self.db) == 1


def _whoever(environ: dict[str, Any]) -> Identity:
    return dataclasses.replace(PEOPLE[environ[PERSON]], request_id=environ[ENVIRON])
