"""What a handler gets: the request, already identified, authorized and checked; and what is the same for all requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from cantle.api.parking import Parking
from cantle.api.policy import Policy
from cantle.api.settings import Settings
from cantle.engine.idempotency import Once
from cantle.model.idempotency import IdempotencyKey
from cantle.model.identity import Identity
from cantle.model.precondition import Precondition
from cantle.store.database import Database

T = TypeVar("T")

#: Reads the caller off a WSGI environment. Raises :class:`cantle.errors.Unauthorized` for nobody.
Identify = Callable[[dict[str, Any]], Identity]


class Unchanged:
    """A handler's answer to one who has named what he has in ``If-None-Match``, and has it still: 304, without a body."""


@dataclass(frozen=True, slots=True)
class Site:
    """What all requests of one application share."""

    db: Database
    settings: Settings
    policy: Policy
    identify: Identify
    parking: Parking


@dataclass(slots=True)
class Call:
    """One request, past all checks that need no database.

    :param base: what links start with: no trailing slash, ``http://127.0.0.1:6666``.
    :param path: the path asked for, without the mount point: ``/v2/devices``.
    :param minor: N of the accelerator API's microversion 2.N; always 0 outside v2.
    :param params: the parts of the path, by the names in the route's template.
    :param query: an instance of the route's query struct.
    :param body: an instance of the route's body type, None where it takes none.
    :param precondition: which state of the thing the request is for; empty where the route does not ask.
    :param key: under which the request may come again; None where it has none or the route takes none.
    :param headers: extra headers for the answer; the handler adds to them.
    :param last_event_id: of one who follows a stream and comes back: what he had last.
    """

    site: Site
    who: Identity
    base: str
    path: str
    minor: int
    params: dict[str, str]
    query: Any
    body: Any
    precondition: Precondition = field(default_factory=Precondition)
    key: IdempotencyKey | None = None
    headers: dict[str, str] = field(default_factory=dict)
    last_event_id: str | None = None

    @property
    def db(self) -> Database:
        """The site's database."""
        return self.site.db

    def once(self, shape: Callable[[T], msgspec.Struct]) -> Once[T] | None:
        """For the engine: create once, and keep the answer, which is this shape of what was made. None for a request without a key."""
        return None if self.key is None else Once(self.key, lambda made: msgspec.json.encode(shape(made)).decode())
