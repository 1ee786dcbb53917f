"""One line of the table of routes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import msgspec

from cantle.api.call import Call
from cantle.api.query import NoQuery


@dataclass(frozen=True, slots=True)
class Route:
    """A request we answer.

    :param method: ``GET``.
    :param path: falcon's template: ``/v2/devices/{uuid}``.
    :param rule: the policy rule that guards it; there is no default, so that none is forgotten.
    :param handler: called with a :class:`Call`; returns what is encoded as the body, or None for an empty one.
    :param says: one sentence for the API's description.
    :param query: struct of the arguments it knows.
    :param body: type of the body, None for a request without one.
    :param answer: type of the answer, None for an empty one; for the API's description.
    :param status: of success.
    :param conditional: it takes ``If-Match`` and ``If-None-Match``.
    :param once: it takes an ``Idempotency-Key``.
    :param media: of the answer.
    :param stream: called in place of ``handler`` by one who wants the answer as a stream of server-sent events.
    :param from_agent: the body is an agent's: larger, and read without the checks that clients' bodies need.
    """

    method: str
    path: str
    rule: str
    handler: Callable[[Call], object | None]
    _: KW_ONLY
    says: str
    query: type[msgspec.Struct] = NoQuery
    body: Any = None
    answer: Any = None
    status: int = 200
    from_agent: bool = False
    conditional: bool = False
    once: bool = False
    media: str = "application/json"
    stream: Callable[[Call], object] | None = None

    @property
    def is_v2(self) -> bool:
        """Whether it is part of the accelerator API proper, with its microversions; discovery documents are not."""
        return self.path.startswith("/v2/")

    @property
    def is_v2_document(self) -> bool:
        """Whether it is the accelerator API's own document: it tells which microversions there are, whichever is asked for."""
        return self.path == "/v2"
