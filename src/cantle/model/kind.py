"""Kinds of offers: everything about a card that does not change while it is lent, so that a request is matched against some dozen kinds
and never against every card of a cloud.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import msgspec

from cantle.model.device import Mode
from cantle.model.naming import custom
from cantle.model.profile import STANDARD_CLASSES
from cantle.model.request import RequestGroup, words

#: A label with this name ties the cards of a host that have the same value: they are lent together or not at all.
UNIT_LABEL = "unit"

#: So many units of one card go to one guest at most. A driver says it where the maker's refuses more; configuration goes before.
PER_GUEST_LABEL = "units_per_guest"

#: With this value: units of the card go to containers alone, since no virtual machine can be given them.
GUESTS_LABEL = "guests"
CONTAINERS = "containers"

#: Namespaces of traits that are taken as they are; others are made custom ones.
_KNOWN_TRAITS = ("CUSTOM_", "HW_", "OWNER_", "COMPUTE_", "MISC_", "STORAGE_")

#: What a unit of a mode is in Nova's words; modes that are not here are no PCI passthrough.
_PCI_MODES = frozenset({Mode.PASSTHROUGH, Mode.SRIOV, Mode.VENDOR_VFIO})


def for_containers(labels: Mapping[str, str] | None) -> bool:
    """Whether units of a device with these labels go to containers alone."""
    return (labels or {}).get(GUESTS_LABEL) == CONTAINERS


class _Facts(msgspec.Struct, frozen=True):
    """What a kind is kept as; its JSON text, in this order, is what the digest is of."""

    resource_class: str
    mode: str
    vendor_id: str
    product_id: str
    model: str
    dev_type: str
    traits: list[str]
    labels: dict[str, str]


@dataclass(frozen=True, slots=True)
class Kind:
    """What cards of one kind have in common.

    :param digest: 40 hex digits; equal for equal kinds on every host.
    :param dev_type: ``type-PCI``, ``type-PF`` or ``type-VF`` for units given as PCI functions, else "".
    :param labels: of configuration (spec S2.3), with the tags of the whitelist's entry.
    """

    digest: str
    resource_class: str
    mode: str
    vendor_id: str = ""
    product_id: str = ""
    model: str = ""
    dev_type: str = ""
    traits: frozenset[str] = frozenset()
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def sliced(self) -> bool:
        """Whether units are parts of a card: taking one leaves others."""
        return self.mode != Mode.PASSTHROUGH

    @property
    def for_containers(self) -> bool:
        """Whether its units go to containers alone."""
        return for_containers(self.labels)

    @property
    def per_guest(self) -> int | None:
        """How many units of one card a guest may have; None for as many as there are."""
        text = self.labels.get(PER_GUEST_LABEL, "")
        return int(text) if text.isdecimal() and int(text) > 0 else None


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Why no card of a kind will ever do for a group: a code, what is so, and what would mend it."""

    code: str
    what: str
    mend: str


def facts(
    *,
    resource_class: str,
    mode: str,
    vendor_id: str,
    product_id: str,
    model: str,
    capabilities: Sequence[str],
    traits: Sequence[str],
    labels: Mapping[str, str],
) -> tuple[str, str]:
    """Digest and JSON text of the kind that a deployable of a device is."""
    made = _Facts(
        resource_class,
        mode,
        vendor_id,
        product_id,
        model,
        "" if for_containers(labels) else _dev_type(mode, capabilities),
        sorted(set(traits)),
        dict(sorted(labels.items())),
    )
    text = msgspec.json.encode(made)
    return hashlib.sha256(text).hexdigest()[:40], text.decode()


@lru_cache(maxsize=4096)
def load(digest: str, text: str) -> Kind:
    """A kind from what `facts` gave."""
    said = msgspec.json.decode(text, type=_Facts)
    return Kind(
        digest,
        said.resource_class,
        said.mode,
        said.vendor_id,
        said.product_id,
        said.model,
        said.dev_type,
        frozenset(said.traits),
        said.labels,
    )


def _dev_type(mode: str, capabilities: Sequence[str]) -> str:
    """As libvirt and Nova see it: a function that could have virtual ones is a PF, also with none enabled (reference section 1.6)."""
    if mode not in _PCI_MODES:
        return ""
    if mode != Mode.PASSTHROUGH:
        return "type-VF"
    return "type-PF" if Mode.SRIOV in capabilities else "type-PCI"


def mismatch(group: RequestGroup, kind: Kind) -> Mismatch | None:
    """Why a kind is wrong for a group, the first reason; None when it is right."""
    return (
        _class(group, kind) or _guests(group, kind) or _ids(group, kind) or _traits(group, kind) or _labels(group, kind)
    )


def tier(group: RequestGroup, kind: Kind) -> int:
    """How much a group prefers a kind: 0 is best."""
    for number, word in enumerate(group.prefer):
        if word in kind.traits or word in (kind.product_id, f"{kind.vendor_id}:{kind.product_id}"):
            return number
        if word.lower() in kind.model.lower():
            return number
    return len(group.prefer)


def _class(group: RequestGroup, kind: Kind) -> Mismatch | None:
    names = [name for name, _ in group.amounts]
    if len(names) > 1:
        both = " and ".join(names)
        return Mismatch("several-classes", f"wanted are {both} of one card, and a card has one", "make a group of each")
    if names and kind.resource_class not in names:
        return Mismatch(
            "other-class",
            f"is {kind.mode} and offers {kind.resource_class}, not {names[0]}",
            f"ask for {kind.resource_class}, or cantle device set-mode, if its capabilities have another mode",
        )
    return None


def _guests(group: RequestGroup, kind: Kind) -> Mismatch | None:
    if group.containers or not kind.for_containers:
        return None
    mend = "attach it to a container: --attach lxc:NAME or cdi:NAME; cantle device show says why no virtual machine can have it"
    return Mismatch("containers-only", "goes to containers alone", mend)


def _ids(group: RequestGroup, kind: Kind) -> Mismatch | None:
    if not group.specs:
        return None
    if not kind.dev_type:
        return Mismatch("no-pci", f"is {kind.mode}, and an alias means PCI functions", "cantle device set-mode")
    whys = [_spec(dict(spec), kind) for spec in group.specs]
    return None if None in whys else whys[0]


def _spec(spec: Mapping[str, str], kind: Kind) -> Mismatch | None:
    ids = (spec.get("vendor_id", kind.vendor_id), spec.get("product_id", kind.product_id))
    if ids != (kind.vendor_id, kind.product_id):
        return Mismatch("other-ids", f"is {kind.vendor_id}:{kind.product_id}, not {':'.join(ids)}", "change the alias")
    wanted = spec.get("dev_type")
    if wanted != kind.dev_type and (wanted is not None or kind.dev_type == "type-PF"):
        asked = wanted or "an alias without device_type never means a physical function"
        return Mismatch("other-device-type", f"is {kind.dev_type} ({asked})", "set device_type in the alias")
    if kind.labels.get("remote_managed") == "true":
        return Mismatch("remote-managed", "is managed from afar", "take remote_managed off its device_spec")
    migratable = spec.get("live_migratable")
    if migratable is not None and kind.labels.get("live_migratable") != migratable:
        return Mismatch("not-migratable", f"is not tagged live_migratable={migratable}", "tag it in [pci] device_spec")
    return _placement_part(spec, kind)


def _placement_part(spec: Mapping[str, str], kind: Kind) -> Mismatch | None:
    wanted = class_name(spec["resource_class"]) if "resource_class" in spec else kind.resource_class
    by_ids = f"CUSTOM_PCI_{kind.vendor_id}_{kind.product_id}".upper()
    if wanted not in (kind.resource_class, by_ids):
        return Mismatch("other-class", f"offers {kind.resource_class}, not {wanted}", "change the alias or device_spec")
    missing = sorted({trait_name(word) for word in words(spec.get("traits", ""))} - kind.traits)
    return Mismatch("lacks-trait", f"lacks {', '.join(missing)}", "tag it in [pci] device_spec") if missing else None


def _traits(group: RequestGroup, kind: Kind) -> Mismatch | None:
    if missing := sorted(group.required - kind.traits):
        mend = "ask for other traits"
        if kind.mode == Mode.MDEV:
            mend += "; cantle device show says whether a card waits to be cut into another type"
        return Mismatch("lacks-trait", f"lacks {', '.join(missing)}", mend)
    for some in group.any_of:
        if not some & kind.traits:
            return Mismatch("lacks-trait", f"has none of {', '.join(sorted(some))}", "ask for other traits")
    if unwanted := sorted(group.forbidden & kind.traits):
        return Mismatch("forbidden-trait", f"has {', '.join(unwanted)}", "do not forbid it")
    return None


def _labels(group: RequestGroup, kind: Kind) -> Mismatch | None:
    for label in group.labels:
        value = kind.labels.get(label.key)
        if not label.holds(value):
            found = f"label {label.key} is {value!r}" if value is not None else f"has no label {label.key}"
            return Mismatch("other-label", f"{found}, wanted is {label.text!r}", "set [labels] on its host")
    return None


def class_name(text: str) -> str:
    """A resource class as Nova normalises it (reference section 1.7)."""
    name = text.strip().upper()
    return name if name in STANDARD_CLASSES or name.startswith("CUSTOM_") else custom(text.strip())


def trait_name(text: str) -> str:
    """A trait as Nova normalises it, but that blanks around it are stripped."""
    name = text.strip().upper()
    return name if name.startswith(_KNOWN_TRAITS) else custom(text.strip())
