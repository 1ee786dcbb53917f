"""PCI aliases: names for kinds of PCI devices (spec S4.2; reference section 1.1; Nova's ``nova/pci/request.py``).

``[pci] alias`` (once ``pci_alias``) holds one JSON object an occurrence. The same name again is another kind of device that will do:
the alias' specs are ORed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cantle.errors import BadRequest
from cantle.model.json_option import Entry, decode, strict_bool
from cantle.model.numa import NumaPolicy

OPTION = "[pci] alias"

#: What an alias may ask for; a vdpa device is a type too, but none of an alias.
DEVICE_TYPES = ("type-PCI", "type-PF", "type-VF")

_ID = re.compile(r"[0-9a-fA-F]{4}")
_KEYS = (
    "name",
    "capability_type",
    "vendor_id",
    "product_id",
    "device_type",
    "numa_policy",
    "resource_class",
    "traits",
    "live_migratable",
)


@dataclass(frozen=True, slots=True)
class Alias:
    """A name and the specs of which a device must match one.

    :param specs: each a dict of wanted values: ``vendor_id``, ``product_id``, ``dev_type``, ``live_migratable`` ("true" or "false"),
        ``resource_class``, ``traits``, as far as they were given.
    :param numa_policy: None where none was given; Nova then takes ``legacy``.
    """

    name: str
    specs: tuple[dict[str, str], ...]
    numa_policy: NumaPolicy | None = None


@dataclass(frozen=True, slots=True)
class Aliases:
    """All aliases of a configuration, by name."""

    by_name: Mapping[str, Alias]

    def get(self, name: str) -> Alias:
        """The alias of that name.

        :raises BadRequest: ``alias-not-defined``.
        """
        found = self.by_name.get(name)
        if found is None:
            known = ", ".join(sorted(self.by_name)) or "none"
            raise BadRequest(
                "alias-not-defined",
                f"PCI alias {name} is not defined; {OPTION} has {known}. Define it there.",
                name=name,
            )
        return found


NO_ALIASES = Aliases({})


def parse(entries: Sequence[Entry], *, in_placement: bool = False) -> Aliases:
    """The aliases that these occurrences of the option define.

    :param in_placement: hold them to what Nova demands with ``[filter_scheduler] pci_in_placement``.
    :raises BadConfig: ``bad-pci-alias``, naming file, line and what is wrong.
    """
    found: dict[str, Alias] = {}
    places: dict[str, Entry] = {}
    for entry in entries:
        one = _one(entry)
        before = found.get(one.name)
        if before is not None:
            _agree(entry, before, one)
            one = Alias(one.name, before.specs + one.specs, before.numa_policy)
        found[one.name] = one
        places[one.name] = entry
    for name, alias in found.items():
        _identifying(places[name], alias, in_placement=in_placement)
    return Aliases(found)


def _one(entry: Entry) -> Alias:
    given = _object(entry)
    name = _text(entry, "name", given["name"]).strip()
    if not 1 <= len(name) <= 256:
        raise _bad(entry, "name is empty or longer than 256 characters; give it 1 to 256")
    if ":" in name or "," in name:
        raise _bad(entry, f"name {name!r} holds ':' or ',', so no flavor could ask for it")
    spec: dict[str, str] = {}
    for key in ("vendor_id", "product_id"):
        if key in given:
            spec[key] = _id(entry, key, given[key])
    if "device_type" in given:
        spec["dev_type"] = _choice(entry, "device_type", given["device_type"], DEVICE_TYPES)
    if "capability_type" in given:
        _choice(entry, "capability_type", given["capability_type"], ("pci",))
    for key in ("resource_class", "traits"):
        if key in given:
            spec[key] = _text(entry, key, given[key])
    if "live_migratable" in given:
        try:
            yes = strict_bool(_text(entry, "live_migratable", given["live_migratable"]))
        except ValueError as error:
            raise _bad(entry, f"live_migratable: {error}") from error
        spec["live_migratable"] = "true" if yes else "false"
    policy = None
    if given.get("numa_policy") is not None:
        policy = NumaPolicy(_choice(entry, "numa_policy", given["numa_policy"], tuple(NumaPolicy)))
    return Alias(name, (spec,), policy)


def _object(entry: Entry) -> dict[str, object]:
    try:
        given = decode(entry.text)
    except ValueError as error:
        raise _bad(entry, f"{entry.text!r} is no JSON ({error})") from error
    if not isinstance(given, dict):
        raise _bad(entry, f"{entry.text!r} is not one JSON object; give each alias an occurrence of its own")
    unknown = sorted(given.keys() - set(_KEYS))
    if unknown:
        raise _bad(entry, f"unknown key {', '.join(unknown)}; an alias has {', '.join(_KEYS)}")
    if "name" not in given:
        raise _bad(entry, "name is missing")
    return given


def _agree(entry: Entry, before: Alias, one: Alias) -> None:
    """Repetitions of a name must agree on the NUMA policy and the device type; Nova trips over one that lacks the latter."""
    legacy = NumaPolicy.LEGACY
    if (before.numa_policy or legacy) != (one.numa_policy or legacy):
        raise _bad(entry, f"NUMA policy mismatch for alias '{one.name}': give all its occurrences the same numa_policy")
    if before.specs[0].get("dev_type") != one.specs[0].get("dev_type"):
        raise _bad(entry, f"Device type mismatch for alias '{one.name}': give all its occurrences the same device_type")


def _identifying(entry: Entry, alias: Alias, *, in_placement: bool) -> None:
    """An alias says which devices it means: by both ids, or by resource class."""
    if in_placement and len(alias.specs) > 1:
        raise _bad(entry, f"alias '{alias.name}' stands more than once, which pci_in_placement does not allow")
    for spec in alias.specs:
        if not ({"vendor_id", "product_id"} <= spec.keys() or "resource_class" in spec):
            raise _bad(
                entry,
                f"alias '{alias.name}' has neither vendor_id and product_id nor resource_class; give one or the other",
            )


def _id(entry: Entry, key: str, value: object) -> str:
    text = _text(entry, key, value)
    if _ID.fullmatch(text) is None:
        raise _bad(entry, f"{key} {text!r} is not exactly four hex digits such as 10de")
    return text.lower()


def _choice(entry: Entry, key: str, value: object, among: Sequence[str]) -> str:
    text = _text(entry, key, value)
    if text not in among:
        raise _bad(entry, f"{key} {text!r} is not one of {', '.join(among)}")
    return text


def _text(entry: Entry, key: str, value: object) -> str:
    if not isinstance(value, str):
        raise _bad(entry, f"{key} is {value!r}; give a string")
    return value


def _bad(entry: Entry, why: str) -> Exception:
    return entry.refused("bad-pci-alias", OPTION, f"{why}.")
