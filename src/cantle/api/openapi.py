"""The API's description in OpenAPI 3.1, made from the table of routes and the wire types: it cannot say anything that is not so."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from cantle import __version__
from cantle.api import fault, microversion
from cantle.api.query import NoQuery
from cantle.api.route import Route
from cantle.api.rules import PUBLIC

_PARAMETER = re.compile(r"\{(\w+)\}")
_REFERENCE = "#/components/schemas/{name}"

_ROOM = "cantle.api."

#: What says that a list's items may be cut down to some of their fields.
_FIELDS = "fields"


class ProblemDetails(msgspec.Struct, frozen=True):
    """A failure of our own paths (RFC 9457); details may add further members."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    request_id: str


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """The description of ``routes``; JSON-able."""
    table = list(routes)
    types = _types(table)
    schemas, components = msgspec.json.schema_components([kind for _, kind in types], ref_template=_REFERENCE)
    schema_of = {key: schema for (key, _), schema in zip(types, schemas, strict=True)}
    for route in table:
        if _FIELDS in route.query.__struct_fields__:
            _allow_fewer_fields(schema_of[_key(route.answer)], components)
    for component in components.values():
        if "description" in component:
            component["description"] = plain(component["description"])
    schema_of, components = {key: _short(schema) for key, schema in schema_of.items()}, _short(components)
    paths: dict[str, dict[str, Any]] = {}
    for route in table:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Cantle",
            "version": __version__,
            "description": "The OpenStack accelerator API (v2) and Cantle's own (v1).",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"}},
        },
    }


def _allow_fewer_fields(listed: Mapping[str, Any], components: dict[str, Any]) -> None:
    """Items of a list have the fields that were asked for: none of them must be there."""
    for part in components[_name(listed)]["properties"].values():
        item = part["items"]
        if _name(item).endswith("Shape"):
            name = _name(item).removesuffix("Shape") + "Item"
            components[name] = {key: value for key, value in components[_name(item)].items() if key != "required"}
            item["$ref"] = _REFERENCE.format(name=name)


def _name(reference: Mapping[str, Any]) -> str:
    return str(reference["$ref"]).rpartition("/")[2]


def _short(content: Any) -> Any:
    """Schemas under the names of their modules within this room: ``v1.device.Shape``."""
    if isinstance(content, Mapping):
        return {name.removeprefix(_ROOM): _short(part) for name, part in content.items()}
    if isinstance(content, list):
        return [_short(part) for part in content]
    return content.replace(f"/{_ROOM}", "/") if isinstance(content, str) else content


def _types(routes: Iterable[Route]) -> list[tuple[str, Any]]:
    """Every type that occurs, each once, with a key to find its schema by."""
    found: dict[str, Any] = {_key(fault.ErrorMessage): fault.ErrorMessage, _key(ProblemDetails): ProblemDetails}
    for route in routes:
        for kind in (route.body, route.answer):
            if kind is not None:
                found[_key(kind)] = kind
    return list(found.items())


def _key(kind: Any) -> str:
    return f"{getattr(kind, '__module__', '')}.{kind!r}"


def _operation(route: Route, schema_of: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.says,
        "tags": [_tag(route.path)],
        "description": " ".join([f"Guarded by the policy rule {route.rule}.", *_said_of_arguments(route)]),
        "parameters": [*_path_parameters(route), *_query_parameters(route), *_header_parameters(route)],
        "responses": _responses(route, schema_of),
        "security": [] if route.rule == PUBLIC else [{"token": []}],
    }
    if route.body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema_of[_key(route.body)]}},
        }
    return operation


def _tag(path: str) -> str:
    """What belongs together: ``v1 hosts``, ``v2 devices``; health and discovery stand by themselves."""
    parts = path.strip("/").split("/")
    return " ".join(parts[:2]) if parts[0] in ("v1", "v2") and len(parts) > 1 else "discovery and health"


def _said_of_arguments(route: Route) -> list[str]:
    """What the structs of the query's arguments say of them, the shared ones' last."""
    structs = [one for one in route.query.__mro__ if issubclass(one, msgspec.Struct) and one is not msgspec.Struct]
    return [plain(one.__doc__) for one in structs if one is not NoQuery and one.__doc__]


def plain(docstring: str) -> str:
    """A docstring as a text: one line, without the marks of its markup."""
    return re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"\1", " ".join(docstring.split())).replace("``", "`")


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PARAMETER.findall(route.path)
    ]


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    found = []
    for field in msgspec.structs.fields(route.query):
        (schema,), parts = msgspec.json.schema_components([field.type], ref_template="{name}")
        choices = [choice for choice in schema.get("anyOf", [schema]) if choice != {"type": "null"}]
        chosen = parts[choices[0]["$ref"]] if "$ref" in choices[0] else choices[0]
        said = {key: value for key, value in chosen.items() if key not in ("title", "description")}
        found.append({"name": field.name, "in": "query", "required": False, "schema": said})
    return found


def _header_parameters(route: Route) -> list[dict[str, Any]]:
    names = ("If-Match", "If-None-Match") if route.conditional else ("Idempotency-Key",) if route.once else ()
    if names:
        return [{"name": name, "in": "header", "required": False, "schema": {"type": "string"}} for name in names]
    if not route.is_v2:
        return []
    versions = [f"{microversion.SERVICE} 2.{minor}" for minor in range(microversion.LOWEST, microversion.HIGHEST + 1)]
    return [
        {"name": microversion.HEADER, "in": "header", "required": False, "schema": {"type": "string", "enum": versions}}
    ]


def _responses(route: Route, schema_of: dict[str, Any]) -> dict[str, Any]:
    success: dict[str, Any] = {"description": "Done." if route.answer is None else "The answer."}
    if route.answer is not None:
        success["content"] = {route.media: {"schema": schema_of[_key(route.answer)]}}
    media, kind = (
        ("application/problem+json", ProblemDetails)
        if fault.is_ours(route.path)
        else ("application/json", fault.ErrorMessage)
    )
    failure = {
        "description": "A failure; its stable code is in the header.",
        "headers": {fault.CODE_HEADER: {"schema": {"type": "string"}}},
        "content": {media: {"schema": schema_of[_key(kind)]}},
    }
    return {str(route.status): success, "4XX": failure, "5XX": failure}
