"""The API's description as one page for people: no script, nothing from elsewhere, so that it works without a way out."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

_STYLE = """
:root { color-scheme: light dark; --line: #d0d7de; --soft: #f6f8fa; --dim: #57606a; --link: #0550ae }
@media (prefers-color-scheme: dark) { :root { --line: #3d444d; --soft: #151b23; --dim: #9198a1; --link: #79c0ff } }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 62rem; padding: 1rem 1.5rem 4rem }
h1 { margin-bottom: 0 } h2 { margin-top: 3rem; border-bottom: 1px solid var(--line) }
a { color: var(--link) } nav { columns: 14rem; margin: 1.5rem 0 } nav a { display: block }
code, .path { font-family: ui-monospace, monospace; font-size: .9em }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0 }
summary { cursor: pointer; padding: .4rem .75rem } details[open] > summary { border-bottom: 1px solid var(--line) }
details > div { padding: .25rem 1rem 1rem }
.method { display: inline-block; min-width: 4.2rem; font-weight: 700; font-size: .85em }
.dim { color: var(--dim) } .says { float: right; color: var(--dim); max-width: 55% ; text-align: right }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; vertical-align: top; padding: .25rem .75rem .25rem 0 }
th { border-bottom: 1px solid var(--line); font-weight: 600 }
pre { background: var(--soft); padding: .75rem; overflow-x: auto; border-radius: 6px }
@media (max-width: 45rem) { .says { float: none; display: block; max-width: none; text-align: left } }
"""

_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

#: Of the answer that is this page.
HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}

_INTRODUCTION = """
<p>Two APIs at one address. <b>v2</b> is OpenStack's accelerator API as Cyborg has it, for Nova and the SDKs. <b>v1</b> is Cantle's own,
and has what v2 has no words for. For programs this page is <a href="openapi.json">openapi.json</a> (OpenAPI 3.1).</p>
<h2 id="rules">What holds everywhere in v1</h2>
<dl>
<dt><b>Who asks</b></dt><dd>A token, as <code>Authorization: Bearer …</code> or <code>X-Auth-Token</code>. With <code>[api] auth =
none</code> none is needed, and only callers on the same machine are answered.</dd>
<dt><b>Failures</b></dt><dd><code>application/problem+json</code> (RFC 9457) with a stable <code>code</code>, also in the header
<code>X-Cantle-Error-Code</code>. <code>cantle explain-error CODE</code> explains it.</dd>
<dt><b>Pages</b></dt><dd>A collection comes in pages: <code>limit</code>, and <code>marker</code>, which names the last item seen. A full
page has a link <code>next</code> in <code>…_links</code>; follow it until there is none.</dd>
<dt><b>Fields</b></dt><dd><code>fields=uuid,mode</code> cuts each item of a collection down to these.</dd>
<dt><b>Changes that must not be lost</b></dt><dd>An intent has an <code>ETag</code>. Send it back as <code>If-Match</code> to change it: 412
if somebody was quicker, 428 if you did not look first.</dd>
<dt><b>Asking twice</b></dt><dd>Creating calls take an <code>Idempotency-Key</code>. The same request under the same key is answered as it
was the first time and creates nothing; another one under that key is refused (422). Keys are forgotten after a day.
Tokens take none: their text is not kept.</dd>
</dl>
"""


def page(document: Mapping[str, Any]) -> str:
    """The page for an OpenAPI document of :mod:`cantle.api.openapi`, as HTML."""
    groups: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            shown = _operation(document, method, path, operation)
            groups.setdefault(operation["tags"][0], []).append(shown)
    names = sorted(groups, key=lambda name: (not name.startswith("v1"), not name.startswith("v2")))
    contents = "".join(f'<a href="#{_anchor(name)}">{escape(name)}</a>' for name in ["rules", *names])
    sections = "".join(f'<h2 id="{_anchor(name)}">{escape(name)}</h2>{"".join(groups[name])}' for name in names)
    info = document["info"]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(info["title"])} API</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head><body>'
        f'<h1>{escape(info["title"])} API</h1><p class="dim">Version {escape(info["version"])}. {escape(info["description"])}</p>'
        f"<nav>{contents}</nav>{_INTRODUCTION}{sections}</body></html>\n"
    )


def _anchor(name: str) -> str:
    return name.replace(" ", "-")


def _operation(document: Mapping[str, Any], method: str, path: str, operation: Mapping[str, Any]) -> str:
    status, success = next(iter(operation["responses"].items()))
    parts = [
        f'<p class="dim">{_prose(operation["description"])}</p>',
        _parameters(operation["parameters"]),
        _content(document, "Body", operation.get("requestBody", {}).get("content", {})),
        f"<p><b>{status}</b> {escape(success['description'])}</p>",
        _content(document, "Answer", success.get("content", {})),
    ]
    return (
        f'<details><summary><span class="method">{method.upper()}</span><span class="path">{escape(path)}</span>'
        f'<span class="says">{escape(operation["summary"])}</span></summary><div>{"".join(parts)}</div></details>'
    )


def _prose(text: str) -> str:
    """Text with what stands in backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))


def _parameters(parameters: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        (one["name"], f"{one['in']}{', required' if one['required'] else ''}", _type(one["schema"]))
        for one in parameters
    ]
    return _table(("Argument", "Where", "Kind"), rows)


def _content(document: Mapping[str, Any], title: str, content: Mapping[str, Any]) -> str:
    for media, described in content.items():
        fields = _fields(document, described["schema"])
        rows = [(name, _type(schema), schema.get("description", "")) for name, schema in fields]
        kind = _type(described["schema"])
        about = _prose(_resolved(document, described["schema"]).get("description", ""))
        head = f'<p><b>{title}</b> <span class="dim">{escape(media)}, {escape(kind)}. {about}</span></p>'
        return head + _table(("Field", "Kind", ""), rows)
    return ""


def _fields(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The fields of an object, and of the items in a list of a collection: ``devices[].uuid``."""
    found = _resolved(document, schema)
    for name, field in found.get("properties", {}).items():
        yield name, field
        if name.endswith("_links"):
            continue
        item = _resolved(document, field.get("items", {})) if isinstance(field.get("items"), Mapping) else {}
        for inner, one in item.get("properties", {}).items():
            yield f"{name}[].{inner}", one
    if found.get("type") == "array":
        for inner, one in _resolved(document, found.get("items", {})).get("properties", {}).items():
            yield f"[].{inner}", one


def _resolved(document: Mapping[str, Any], schema: Any) -> Mapping[str, Any]:
    if not isinstance(schema, Mapping):
        return {}
    if "$ref" in schema:
        found: Mapping[str, Any] = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return found
    return schema


def _type(schema: Mapping[str, Any]) -> str:
    """A schema in a few words: ``string or null``, ``list of v1.device.Shape``."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    kind = schema.get("type", "anything")
    if kind == "array":
        items = schema.get("items")
        return f"list of {_type(items)}" if isinstance(items, Mapping) else "list"
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"object of {_type(schema['additionalProperties'])}"
    bounds = [f"{word} {schema[key]}" for key, word in (("minimum", "from"), ("maximum", "to")) if key in schema]
    return " ".join([str(schema.get("format", kind)), *bounds])


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join(
        f"<tr><td><code>{escape(first)}</code></td>{''.join(f'<td>{escape(cell)}</td>' for cell in rest)}</tr>"
        for first, *rest in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
