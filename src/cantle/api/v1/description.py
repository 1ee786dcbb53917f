"""``/v1/openapi.json`` and ``/v1/docs``: what this API is, for programs and for people. Made from the table of routes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from cantle.api import openapi, reference
from cantle.api.call import Call
from cantle.api.route import Route
from cantle.api.rules import PUBLIC


def routes(table: Callable[[], Iterable[Route]]) -> tuple[Route, ...]:
    """The two routes.

    :param table: all routes, these included; called when first asked for.
    """

    @cache
    def document() -> dict[str, Any]:
        return openapi.document(table())

    @cache
    def page() -> bytes:
        return reference.page(document()).encode()

    def show(call: Call) -> dict[str, Any]:  # noqa: ARG001 - a handler
        return document()

    def read(call: Call) -> bytes:
        call.headers.update(reference.HEADERS)
        return page()

    return (
        Route("GET", "/v1/openapi.json", PUBLIC, show, answer=dict[str, Any], says="Describe this API in OpenAPI 3.1."),
        Route("GET", "/v1/docs", PUBLIC, read, answer=str, media="text/html", says="Describe this API to people."),
    )
