"""Which state of a thing a change is meant for: ``If-Match`` and ``If-None-Match`` (RFC 9110, section 13.1), so that nobody undoes what
somebody else has changed meanwhile."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from cantle.errors import BadRequest

_ANY = "*"
_TAGS = re.compile(r'[ \t]*(?:W/)?"[^"]*"[ \t]*(?:,[ \t]*(?:W/)?"[^"]*"[ \t]*)*')
_TAG = re.compile(r'(W/)?"([^"]*)"')


@dataclass(frozen=True, slots=True)
class Precondition:
    """What must be true of the thing. Tags are without their quotes; ``*`` stands for any; None: nothing is said.

    :param match: it is there and has one of these tags.
    :param none_match: it has none of these tags.
    """

    match: frozenset[str] | None = None
    none_match: frozenset[str] | None = None

    @classmethod
    def parse(cls, if_match: str | None, if_none_match: str | None) -> Self:
        """From the headers' values. A weak tag (``W/"3"``) matches nothing in ``If-Match``, as that RFC has it.

        :raises BadRequest: ``bad-precondition``.
        """
        return cls(_tags("If-Match", if_match, weak=False), _tags("If-None-Match", if_none_match, weak=True))

    def holds(self, etag: str | None) -> bool:
        """Whether a thing with that tag is as it must be; None: there is no such thing."""
        here = {etag, _ANY} if etag is not None else set()
        if self.match is not None and not here & self.match:
            return False
        return self.none_match is None or not here & self.none_match

    def looked(self, etag: str | None) -> bool:
        """Whether the caller says which state he has seen of a thing that is there."""
        return etag is None or self.match is not None


def _tags(header: str, value: str | None, *, weak: bool) -> frozenset[str] | None:
    if value is None:
        return None
    if value.strip() == _ANY:
        return frozenset({_ANY})
    if _TAGS.fullmatch(value) is None:
        raise BadRequest(
            "bad-precondition", f"{header} is {value!r}; write the ETag as it came, in its quotes, or an asterisk."
        )
    return frozenset(tag for weakness, tag in _TAG.findall(value) if weak or not weakness)
