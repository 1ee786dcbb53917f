"""Flavors: named sets of extra specs, accepted wherever a device profile is (spec S2.1, S2.6)."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass

from cantle.errors import BadRequest

#: As Nova's names, without blanks: ``cg1.xlarge``.
NAME = re.compile(r"[a-zA-Z0-9._-]{1,255}")

#: Extra specs of one flavor, and characters of a key or value.
MOST = 128
LONGEST = 255


@dataclass(frozen=True, slots=True)
class Flavor:
    """A flavor as the server remembers it; immutable once made. Extra specs are kept as they were written."""

    id: int
    uuid: str
    name: str
    extra_specs: dict[str, str]
    created_at: dt.datetime
    description: str | None = None


def check_name(name: object) -> str:
    """The name of a flavor, if it may be one.

    :raises BadRequest: ``bad-flavor-name``.
    """
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        raise BadRequest(
            "bad-flavor-name",
            f"A flavor's name is 1 to 255 letters, digits, '.', '-' or '_'; {str(name)[:80]!r} is not.",
        )
    return name


def check_extra_specs(given: Mapping[str, object]) -> dict[str, str]:
    """Extra specs as they are kept: keys without blanks around them, values as text.

    :raises BadRequest: ``bad-extra-spec``, naming the key.
    """
    if len(given) > MOST:
        raise BadRequest("bad-extra-spec", f"These are {len(given)} extra specs; at most {MOST} are possible.")
    checked: dict[str, str] = {}
    for key, value in given.items():
        name = str(key).strip()
        if not 1 <= len(name) <= LONGEST or "\0" in name:
            raise BadRequest("bad-extra-spec", f"{name[:40]!r} is no key: it has 1 to {LONGEST} characters.")
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise BadRequest("bad-extra-spec", f"{name} is {str(value)[:80]!r}; give a string.")
        if len(str(value)) > LONGEST or "\0" in str(value):
            raise BadRequest("bad-extra-spec", f"{name}: its value is longer than {LONGEST} characters or holds a NUL.")
        if name in checked:
            raise BadRequest("bad-extra-spec", f"{name} is given twice.")
        checked[name] = str(value)
    return checked
