"""Device profiles: "a flavor for devices". A list of request groups with ``resources:``, ``trait:`` and ``accel:`` keys (spec S3.3)."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cantle.errors import BadRequest

#: Most units one profile may ask for; a host with more than that many accelerators for one guest does not exist.
MAX_UNITS = 256

NAME = re.compile(r"[a-zA-Z0-9_-]{1,255}")

#: Classes of the contract (section 1.5); others begin with ``CUSTOM_``. ``VCPU``, ``MEMORY_MB`` and the like are not devices.
STANDARD_CLASSES = frozenset({"FPGA", "GPU", "PGPU", "VGPU"})
_CLASS = re.compile(r"CUSTOM_[A-Z0-9_]{1,248}")

#: Namespaces of standard traits (os-traits) besides ``CUSTOM_``. Cyborg refuses them, so nobody can ask for a ``HW_GPU_…`` feature there.
_TRAIT = re.compile(r"(?:CUSTOM|HW|OWNER|COMPUTE|MISC|STORAGE)_[A-Z0-9_]+")
_TRAIT_VALUES = ("required", "forbidden")


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """A profile as the server remembers it; immutable once made. Group values are strings (contract section 1.5)."""

    id: int
    uuid: str
    name: str
    groups: tuple[dict[str, str], ...]
    created_at: dt.datetime
    updated_at: dt.datetime | None = None
    description: str | None = None


@dataclass(frozen=True, slots=True)
class Unit:
    """One accelerator asked for by a group: N groups of M make N·M units, each becoming one ARQ (spec S3.4)."""

    group_id: int
    resource_class: str
    required: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()


def check_name(name: object) -> str:
    """The name of a profile, if it may be one.

    :raises BadRequest: ``bad-profile-name``.
    """
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        raise BadRequest(
            "bad-profile-name",
            f"A device profile's name is 1 to 255 letters, digits, '-' or '_'; {_shown(name)} is not.",
        )
    return name


def check_groups(groups: object) -> tuple[dict[str, str], ...]:
    """Groups as they are kept: keys without stray spaces, values as strings, amounts as plain decimals.

    :raises BadRequest: ``bad-profile-groups``; the message names the group by its zero-based number, the key and the mend.
    """
    if isinstance(groups, (str, bytes, Mapping)) or not isinstance(groups, Sequence) or not groups:
        raise _bad("A device profile needs groups: a list of at least one object such as {'resources:VGPU': '1'}.")
    checked = tuple(_check_group(number, group) for number, group in enumerate(groups))
    total = sum(_amount(value) for group in checked for key, value in group.items() if key.startswith("resources:"))
    if total > MAX_UNITS:
        raise _bad(f"The groups ask for {total} accelerators together; at most {MAX_UNITS} are possible.")
    return checked


def units(groups: Sequence[Mapping[str, str]]) -> list[Unit]:
    """What checked groups ask for, unit by unit, in the order of groups and of the keys within each."""
    found = []
    for number, group in enumerate(groups):
        required = tuple(sorted(traits(group, "required")))
        forbidden = tuple(sorted(traits(group, "forbidden")))
        for key, value in group.items():
            kind, _, resource_class = key.partition(":")
            if kind == "resources":
                found += [Unit(number, resource_class, required, forbidden)] * _amount(value)
    return found


def traits(group: Mapping[str, str], value: str) -> list[str]:
    """The traits of a checked group with that value, ``required`` or ``forbidden``."""
    return [key.partition(":")[2] for key, said in group.items() if key.startswith("trait:") and said == value]


def _check_group(number: int, group: object) -> dict[str, str]:
    if not isinstance(group, Mapping):
        raise _bad(f"Group {number} is {_shown(group)}; write an object such as {{'resources:VGPU': '1'}}.")
    checked: dict[str, str] = {}
    for key, value in group.items():
        name, text = _check_entry(number, key, value)
        if name in checked:
            raise _bad(f"Group {number} gives {name} twice; give it once.")
        checked[name] = text
    if not any(key.startswith("resources:") for key in checked):
        raise _bad(f"Group {number} asks for no resources; add a key such as 'resources:VGPU' with an amount.")
    return checked


def _check_entry(number: int, key: object, value: object) -> tuple[str, str]:
    kind, _, rest = str(key).partition(":")
    name = rest.strip()
    if kind == "resources":
        return f"resources:{_check_class(number, name)}", str(_check_amount(number, name, value))
    if kind == "trait":
        return f"trait:{_check_trait(number, name)}", _check_trait_value(number, name, value)
    if kind == "accel" and name:
        if not isinstance(value, (str, int, float)):
            raise _bad(f"Group {number}: {key} is {_shown(value)}; give a string.")
        return f"accel:{name}", str(value)
    raise _bad(
        f"Group {number} has the key {_shown(key)}; keys begin with 'resources:', 'trait:' or 'accel:' and go on with a name."
    )


def is_resource_class(name: str) -> bool:
    """Whether accelerators can be of this class, be there any yet or not."""
    return name in STANDARD_CLASSES or _CLASS.fullmatch(name) is not None


def _check_class(number: int, name: str) -> str:
    if not is_resource_class(name):
        known = ", ".join(sorted(STANDARD_CLASSES))
        raise _bad(
            f"Group {number} asks for the resource class {_shown(name)}; use {known} or one that begins with CUSTOM_."
        )
    return name


def _check_amount(number: int, name: str, value: object) -> int:
    text = str(value).strip() if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
    if re.fullmatch(r"[0-9]{1,9}", text) is None or int(text) == 0:
        raise _bad(f"Group {number} asks for {_shown(value)} of {name}; give a whole number from 1 on.")
    return int(text)


def _check_trait(number: int, name: str) -> str:
    if _TRAIT.fullmatch(name) is None or len(name) > 255:
        raise _bad(
            f"Group {number} names the trait {_shown(name)}; use a standard trait such as HW_GPU_API_VULKAN or one that begins with "
            "CUSTOM_, in capitals, digits and '_', at most 255 long."
        )
    return name


def _check_trait_value(number: int, name: str, value: object) -> str:
    if value not in _TRAIT_VALUES:
        raise _bad(f"Group {number} says {_shown(value)} of the trait {name}; say 'required' or 'forbidden'.")
    return str(value)


def _amount(text: str) -> int:
    return int(text)


def _shown(value: object) -> str:
    """A value for a message: short, whatever was sent."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _bad(message: str) -> BadRequest:
    return BadRequest("bad-profile-groups", message)
