"""Query arguments: each route has a struct of those it knows; anything else is refused with its name."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl

import msgspec

from cantle.errors import BadRequest
from cantle.model.page import Page

#: Bytes of a query string: a ``DELETE ?arqs=`` with 800 uuids still fits.
LONGEST = 32768


class NoQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A route without arguments."""


class PageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What every list takes. ``marker`` is the uuid of the last item of the page before."""

    limit: Annotated[int, msgspec.Meta(ge=1)] | None = None
    marker: str | None = None
    sort_key: str | None = None
    sort_dir: Literal["asc", "desc"] | None = None

    def page(self, largest: int) -> Page:
        """The engine's page. ``limit`` is cut down to ``largest``; without one a list is whole, as Cyborg's are."""
        return Page(
            limit=None if self.limit is None else min(self.limit, largest),
            marker=self.marker,
            sort_key=self.sort_key or "created_at",
            sort_dir=self.sort_dir or "asc",
        )


def parse(text: str, kind: type[msgspec.Struct]) -> Any:
    """The arguments of a query string as an instance of ``kind``.

    :raises BadRequest: ``query-too-long``, ``query-not-text``, ``unknown-argument``, ``repeated-argument``, ``bad-argument``.
    """
    if not text:
        return kind()
    return _converted(_arguments(text), kind)


def _arguments(text: str) -> dict[str, str]:
    if len(text) > LONGEST:
        raise BadRequest("query-too-long", f"The query string is longer than {LONGEST} bytes.")
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=256)
    except ValueError as error:
        raise BadRequest("query-not-text", f"The query string cannot be read: {error}.") from error
    if any("\0" in part for pair in pairs for part in pair):
        raise BadRequest("query-not-text", "The query string has a NUL character.")
    arguments: dict[str, str] = {}
    for name, value in _unfiltered(pairs):
        if name in arguments:
            raise BadRequest("repeated-argument", f"The argument '{name}' is given twice.", argument=name)
        arguments[name] = value
    return arguments


def _unfiltered(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Cyborg's odd form ``filters.field=limit&filters.value=1`` (contract section 1.1) as the plain ``limit=1``."""
    fields = [value for name, value in pairs if name == "filters.field"]
    values = [value for name, value in pairs if name == "filters.value"]
    if not fields and not values:
        return pairs
    if len(fields) != len(values):
        raise BadRequest("bad-argument", "Each 'filters.field' needs one 'filters.value'.", argument="filters.field")
    plain = [pair for pair in pairs if pair[0] not in ("filters.field", "filters.value")]
    return [*plain, *zip(fields, values, strict=True)]


def _choices(kind: type[msgspec.Struct], complaint: str) -> str:
    """What would have been acceptable, where that can be listed."""
    name = complaint.rpartition("`$.")[2].removesuffix("`")
    for field in msgspec.structs.fields(kind):
        if field.name == name:
            schemas = msgspec.json.schema_components([field.type])[1].values()
            choices = [str(choice) for schema in schemas for choice in schema.get("enum", [])]
            return f" It is one of: {', '.join(choices)}." if choices else ""
    return ""


def _converted(arguments: dict[str, str], kind: type[msgspec.Struct]) -> Any:
    for name in arguments:
        if name not in kind.__struct_fields__:
            known = ", ".join(kind.__struct_fields__) or "none"
            raise BadRequest(
                "unknown-argument", f'Unknown argument: "{name}". This call knows: {known}.', argument=name
            )
    try:
        converted = msgspec.convert(arguments, kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadRequest(
            "bad-argument", f"An argument is not acceptable: {error}.{_choices(kind, str(error))}"
        ) from error
    for name, value in arguments.items():
        if getattr(converted, name) is None:  # msgspec takes the word for JSON's null, and the filter would be none
            raise BadRequest(
                "bad-argument", f"The argument '{name}' is '{value}'; leave it out instead.", argument=name
            )
    return converted
