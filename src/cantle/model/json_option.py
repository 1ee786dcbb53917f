"""Options of a configuration file whose value is JSON: one value an occurrence, each remembered with the place where it stands."""

from __future__ import annotations

import json
from dataclasses import dataclass

from cantle.errors import BadConfig

#: What Nova's strict reading of a boolean takes (oslo.utils strutils.bool_from_string).
_TRUE = frozenset({"1", "t", "true", "on", "y", "yes"})
_FALSE = frozenset({"0", "f", "false", "off", "n", "no"})


@dataclass(frozen=True, slots=True)
class Entry:
    """One occurrence of an option.

    :param text: its value, as written.
    :param place: file and line for people, ``/etc/cantle/cantle.conf:12``; "" where it came from elsewhere.
    :param part_of: the option it is a part of, where that is not the one whose reader reads it.
    """

    text: str
    place: str = ""
    part_of: str | None = None

    def refused(self, code: str, option: str, why: str) -> BadConfig:
        """The error that names the place, the option and what is wrong."""
        at = f"{self.place}: " if self.place else ""
        return BadConfig(code, f"{at}{self.part_of or option}: {why}", place=self.place)


def decode(text: str) -> object:
    """The JSON value.

    :raises ValueError: for what is no JSON, or holds one key twice.
    """
    return json.loads(text, object_pairs_hook=_once)


def strict_bool(value: object) -> bool:
    """A boolean as Nova reads one strictly: true/false, yes/no, on/off, y/n, t/f, 1/0, in any case.

    :raises ValueError: for anything else.
    """
    word = str(value).strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise ValueError(f"{value!r} is neither true nor false")


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise ValueError(f"the key {twice!r} stands twice")
    return found
