"""Reading a request's body: bounded, JSON, one meaning only. Whatever a client sends, the answer is a 4xx that says what to mend."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, NoReturn

import falcon
import msgspec

from cantle.errors import BadRequest, TooLarge, UnsupportedMedia

#: How deep arrays and objects may nest: far more than any body of this API, far less than what exhausts a stack.
DEPTH = 32

#: Bytes of a body that is too large which are read and thrown away, and seconds for that.
WASTED = 32 << 20
WASTED_S = 5.0

Decode = Callable[[bytes], Any]


def decoder(kind: Any) -> Decode:
    """A function that turns a client's bytes into ``kind`` (a msgspec struct, or a type of them).

    It raises :class:`BadRequest`: ``body-missing``, ``body-not-json``, ``body-duplicate-key``, ``body-nul``, ``body-too-deep``,
    or ``body-not-acceptable`` with the name of the field that is unknown, missing or of a wrong kind.
    """
    decode = msgspec.json.Decoder(kind).decode

    def checked(raw: bytes) -> Any:
        if not raw.strip():
            raise BadRequest("body-missing", "The request needs a JSON body and has none.")
        _refuse_ambiguous(raw)
        content = _decoded(decode, raw)
        _refuse_nul(raw)
        return content

    return checked


def trusted_decoder(kind: Any) -> Decode:
    """As :func:`decoder`, for agents' reports: megabytes, from our own encoder, so read only once.

    It raises :class:`BadRequest`: ``body-not-json``, ``body-nul``, ``body-too-deep``, ``body-not-acceptable``.
    """
    decode = msgspec.json.Decoder(kind).decode

    def checked(raw: bytes) -> Any:
        content = _decoded(decode, raw)
        _refuse_nul(raw)
        return content

    return checked


def read(request: falcon.Request, limit: int) -> bytes:
    """All bytes of the body, at most ``limit``.

    :raises TooLarge: ``body-too-large``.
    :raises UnsupportedMedia: ``body-not-json-type``.
    :raises BadRequest: ``bad-content-length``, ``body-length-needed``, ``body-not-readable``.
    """
    kind = request.content_type
    if kind is not None and not _is_json(kind):
        raise UnsupportedMedia(
            "body-not-json-type", f"The body is declared as '{kind}'; send 'Content-Type: application/json'."
        )
    length = _length(request)
    if length is None:
        if not request.env.get("wsgi.input_terminated"):
            if "HTTP_TRANSFER_ENCODING" in request.env:
                raise BadRequest(
                    "body-length-needed",
                    "The body came in chunks, which this server cannot read; send its Content-Length.",
                )
            return b""
        raw = _part(request.stream, limit + 1)
        if len(raw) > limit:
            raise _too_large(limit, request.stream)
    elif length > limit:
        raise _too_large(limit, request.bounded_stream)
    else:
        raw = _part(request.bounded_stream, length)
        if len(raw) < length:
            raise BadRequest("bad-content-length", f"The body ended after {len(raw)} of {length} bytes.")
    return raw


def _part(stream: Any, size: int) -> bytes:
    """At most so many bytes. A server says with an OSError or ValueError that a client's chunks are none, or that nothing comes."""
    try:
        part: bytes = stream.read(size)
    except (OSError, ValueError) as error:
        raise BadRequest("body-not-readable", f"The body cannot be read: {error}.") from error
    return part


def _length(request: falcon.Request) -> int | None:
    text = request.env.get("CONTENT_LENGTH") or None
    if text is not None and not (text.isascii() and text.isdigit() and len(text) < 19):
        raise BadRequest("bad-content-length", f"Content-Length '{text[:40]}' is no number of bytes.")
    return int(text) if text else None


def _too_large(limit: int, rest: Any) -> TooLarge:
    """The refusal, after reading what still comes, within reason: a client that is still sending would miss the answer."""
    left, end = WASTED, time.monotonic() + WASTED_S
    while left > 0 and time.monotonic() < end and (part := _part(rest, min(left, 65536))):
        left -= len(part)
    return TooLarge(
        "body-too-large", f"The body is larger than {limit} bytes, which is all this server reads.", limit=limit
    )


def _is_json(content_type: str) -> bool:
    media = content_type.partition(";")[0].strip().lower()
    return media == "application/json" or (media.startswith("application/") and media.endswith("+json"))


def _decoded(decode: Decode, raw: bytes) -> Any:
    try:
        return decode(raw)
    except msgspec.ValidationError as error:
        raise BadRequest("body-not-acceptable", f"The body is not acceptable: {error}.") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest("body-not-json", f"The body is not in valid JSON: {error}.") from error
    except RecursionError as error:
        raise BadRequest("body-too-deep", f"The body nests deeper than {DEPTH} levels.") from error


def _refuse_ambiguous(raw: bytes) -> None:
    """What one JSON reader takes this way and another that way: duplicate keys, endless nesting, numbers that are none."""
    if _depth(raw) > DEPTH:
        raise BadRequest("body-too-deep", f"The body nests deeper than {DEPTH} levels.")
    try:
        json.loads(raw, object_pairs_hook=_unique, parse_constant=_no_constant)
    except ValueError as error:
        raise BadRequest("body-not-json", f"The body is not in valid JSON: {error}.") from error


def _refuse_nul(raw: bytes) -> None:
    """In JSON a NUL is always written as ``\\u0000``; whether that stands for one shows only when it is read."""
    if b"\\u0000" in raw and _has_nul(msgspec.json.decode(raw)):
        raise BadRequest("body-nul", "The body has a NUL character (\\u0000) in a text; no text here may contain one.")


def _depth(raw: bytes) -> int:
    """An upper bound of the nesting, without parsing: brackets in texts count too, which only matters to absurd texts."""
    if raw.count(b"[") + raw.count(b"{") <= DEPTH:
        return 0
    deepest = depth = 0
    in_text = escaped = False
    for byte in raw:
        if in_text:
            in_text = escaped or byte != 0x22
            escaped = not escaped and byte == 0x5C
        elif byte == 0x22:
            in_text = True
        elif byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise BadRequest(
            "body-duplicate-key",
            f"The body has the key '{twice}' twice in one object; which one counts is anybody's guess.",
        )
    return content


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _has_nul(content: Any) -> bool:
    if isinstance(content, str):
        return "\0" in content
    if isinstance(content, dict):
        return any(_has_nul(part) for pair in content.items() for part in pair)
    return isinstance(content, list) and any(_has_nul(part) for part in content)
