"""The whitelist: which PCI devices may be given to guests, and with which tags (spec S4.2; reference section 1.2).

``[pci] device_spec`` (once ``passthrough_whitelist``, ``pci_passthrough_whitelist``) holds a JSON object, or a list of objects, an
occurrence. The first entry that matches a device wins; a device that none matches is not given to guests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from cantle.errors import BadConfig, CantleError
from cantle.model.json_option import Entry, decode, strict_bool
from cantle.model.pci import PciAddress

OPTION = "[pci] device_spec"
CODE = "bad-device-spec"

ANY = "*"
#: Fields of an address with the largest value of each, in Nova's order of checking.
_FIELDS = {"function": 0x7, "domain": 0xFFFF, "bus": 0xFF, "slot": 0x1F}
_WIDTHS = {"domain": 4, "bus": 2, "slot": 2, "function": 1}

#: Tags that mean something to Placement alone: no keys of pools.
PLACEMENT_TAGS = frozenset({"resource_class", "traits"})
_BOOLEAN_TAGS = ("managed", "live_migratable", "one_time_use")


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a whitelist looks at of a device. ``parent`` is the physical function a virtual one belongs to; ``devnames`` are the network
    interfaces of the device, and of its parent."""

    vendor_id: str
    product_id: str
    address: PciAddress
    parent: PciAddress | None = None
    devnames: tuple[str, ...] = ()


Matcher = Callable[[PciAddress], bool]


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """One entry. ``tags`` is everything that is no match key.

    :param vendor_id: four lower-case hex digits, or ``*``; ``product_id`` likewise.
    :param single: the one address it names, None for a pattern: if that is a physical function, its virtual functions match too.
    """

    vendor_id: str
    product_id: str
    address: Matcher
    single: PciAddress | None = None
    devname: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    place: str = ""

    def matches(self, device: Candidate) -> bool:
        """Whether it speaks of that device. An address wider than 16 bits in its domain never matches, as in Nova."""
        if self.vendor_id not in (ANY, device.vendor_id) or self.product_id not in (ANY, device.product_id):
            return False
        if self.devname is not None:
            return self.devname in device.devnames
        if self.single is not None and device.parent == self.single:
            return True
        return device.address.domain <= _FIELDS["domain"] and self.address(device.address)

    @property
    def pool_tags(self) -> dict[str, str]:
        """The tags that pools are made by."""
        return {key: value for key, value in self.tags.items() if key not in PLACEMENT_TAGS}


@dataclass(frozen=True, slots=True)
class Whitelist:
    """All entries, in order."""

    specs: tuple[DeviceSpec, ...] = ()

    def of(self, device: Candidate) -> DeviceSpec | None:
        """The first entry that matches; None: it is not given to guests."""
        return next((spec for spec in self.specs if spec.matches(device)), None)

    @property
    def devnames(self) -> tuple[str, ...]:
        """The network interfaces by which entries name devices."""
        return tuple(dict.fromkeys(spec.devname for spec in self.specs if spec.devname is not None))


def parse(entries: Sequence[Entry], *, prefix_match: bool = False, report_in_placement: bool = False) -> Whitelist:
    """The whitelist that these occurrences of the option make.

    :param prefix_match: regular expressions match from the start only, as in Nova, so that ``0`` also matches ``0a``.
    :param report_in_placement: devices are reported to Placement, which ``one_time_use`` needs.
    :raises BadConfig: ``bad-device-spec``, naming file, line and what is wrong.
    """
    specs = []
    for entry in entries:
        for given in _objects(entry):
            specs.append(_Reader(entry, prefix_match, report_in_placement).read(given))
    return Whitelist(tuple(specs))


def _objects(entry: Entry) -> list[dict[str, object]]:
    try:
        found = decode(entry.text)
    except ValueError as error:
        raise _bad(entry, f"Invalid entry: '{entry.text}' ({error})") from error
    if isinstance(found, dict):
        found = [found]
    if not isinstance(found, list):
        raise _bad(entry, f"Invalid entry: '{entry.text}'; Expecting list or dict")
    for one in found:
        if not isinstance(one, dict):
            raise _bad(entry, f"Invalid entry: '{one}'; Expecting dict")
    return found


class _Reader:
    """Reads one object; knows where it stands, for its complaints."""

    def __init__(self, entry: Entry, prefix_match: bool, report_in_placement: bool) -> None:
        self._entry = entry
        self._prefix_match = prefix_match
        self._report_in_placement = report_in_placement

    def read(self, given: Mapping[str, object]) -> DeviceSpec:
        left = dict(given)
        vendor_id, product_id = (self._id(key, left.pop(key, ANY)) for key in ("vendor_id", "product_id"))
        devname, address = left.pop("devname", None), left.pop("address", None)
        if devname is not None and not isinstance(devname, str):
            raise self._bad(f"devname is {devname!r}; give the name of a network interface")
        if address and devname:
            raise self._bad("a device_spec can specify devname or address, but not both")
        matcher, single = self._address(address or "*:*:*.*")
        return DeviceSpec(vendor_id, product_id, matcher, single, devname or None, self._tags(left), self._entry.place)

    def _id(self, key: str, value: object) -> str:
        if not isinstance(value, str):
            raise self._bad(f"{key} is {value!r}; give a string of hex digits, or '*'")
        return self._hex(key, value.strip(), 0xFFFF, 4)

    def _hex(self, name: str, text: str, largest: int, width: int) -> str:
        if text == ANY:
            return ANY
        if re.fullmatch(r"(0[xX])?[0-9a-fA-F]+", text) is None:
            raise self._bad(f"property {name} ('{text}') does not parse as a hex number")
        value = int(text, 16)
        if value > largest:
            raise self._bad(f"property {name} ({text}) is greater than the maximum allowable value ({largest:X})")
        return f"{value:0{width}x}"

    def _address(self, address: object) -> tuple[Matcher, PciAddress | None]:
        if isinstance(address, str):
            return self._glob(address)
        if isinstance(address, Mapping):
            return self._regexes(address), None
        raise self._wrong_format(address)

    def _glob(self, text: str) -> tuple[Matcher, PciAddress | None]:
        """``[[[[<domain>]:]<bus>]:][<slot>][.[<function>]]``; what is missing or empty is any."""
        places, _, function = text.partition(".")
        parts = places.split(":")
        if len(parts) > 3:
            raise self._wrong_format(text)
        values = dict(zip(("slot", "bus", "domain"), (part.strip() or ANY for part in reversed(parts)), strict=False))
        values["function"] = function.strip() or ANY
        fields = {name: self._hex(name, values.get(name, ANY), most, _WIDTHS[name]) for name, most in _FIELDS.items()}
        single = None
        if ANY not in fields.values():
            single = PciAddress(*(int(fields[name], 16) for name in _WIDTHS))
        return lambda one: all(fields[name] in (ANY, text) for name, text in _texts(one).items()), single

    def _regexes(self, given: Mapping[str, object]) -> Matcher:
        unknown = sorted(given.keys() - _FIELDS.keys())
        if unknown:
            raise self._bad(f"address has the key {', '.join(unknown)}; it has {', '.join(_WIDTHS)}")
        patterns: dict[str, re.Pattern[str]] = {}
        for name in _FIELDS:
            text = given.get(name, ".*")
            try:
                patterns[name] = re.compile(str(text)) if isinstance(text, str) else self._no_text(name, text)
            except re.error as error:
                raise self._wrong_format(dict(given), f": {name} is no regular expression ({error})") from error
        if self._prefix_match:
            return lambda one: all(patterns[name].match(text) for name, text in _texts(one).items())
        return lambda one: all(patterns[name].fullmatch(text) for name, text in _texts(one).items())

    def _no_text(self, name: str, value: object) -> re.Pattern[str]:
        raise self._wrong_format({name: value}, f": {name} is no string")

    def _tags(self, given: Mapping[str, object]) -> dict[str, str]:
        tags: dict[str, str] = {}
        for key, value in given.items():
            if value is None:
                continue  # physical_network: null is a network without a name, and no tag
            if not isinstance(value, str):
                raise self._bad(f"the tag {key} is {value!r}; give a string")
            tags[key] = value
        for key in _BOOLEAN_TAGS:
            if key in tags:
                tags[key] = self._yes_or_no(key, tags[key])
        if tags.get("one_time_use") == "true" and not self._report_in_placement:
            raise self._bad("one_time_use=true requires [pci] report_in_placement to be enabled")
        if "remote_managed" in tags:
            tags["remote_managed"] = self._yes_or_no("remote_managed", tags["remote_managed"])
        return tags

    def _yes_or_no(self, key: str, value: str) -> str:
        try:
            return "true" if strict_bool(value) else "false"
        except ValueError as error:
            raise self._bad(f"Cannot parse tag '{key}': {error}") from error

    def _wrong_format(self, address: object, why: str = "") -> CantleError:
        return self._bad(f"The PCI address {address} has an incorrect format{why}")

    def _bad(self, why: str) -> BadConfig:
        return _bad(self._entry, why)


def _texts(address: PciAddress) -> dict[str, str]:
    values = dict(zip(_WIDTHS, address, strict=True))
    return {name: f"{value:0{_WIDTHS[name]}x}" for name, value in values.items()}


def _bad(entry: Entry, why: str) -> BadConfig:
    return entry.refused(CODE, OPTION, f"{why}.")
