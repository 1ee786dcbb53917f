"""Labels: what configuration says of cards where the hardware cannot say (spec S2.3), and what the whitelist says of them.

``[labels] card`` holds a JSON object an occurrence: match keys (``address``, ``vendor_id``, ``product_id`` as in ``[pci] device_spec``,
``model`` and ``hostname`` as patterns), and labels. ``[labels] host`` is the same for all cards of a host; so is the seed's flag
``instance_type_extra_specs``, ``key:value`` with commas. All that match count, later ones over earlier ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from cantle.model.device_spec import Candidate, DeviceSpec, Whitelist
from cantle.model.device_spec import parse as parse_specs
from cantle.model.json_option import Entry, decode
from cantle.model.kind import PER_GUEST_LABEL

CARD, HOST, SEED = "[labels] card", "[labels] host", "instance_type_extra_specs"
CODE = "bad-label"

_CARD_KEYS = frozenset({"address", "vendor_id", "product_id", "model"})

#: Labels that would say what a card itself says.
_TAKEN = frozenset({"gpus", "resource_class", "traits", "devname"})


@dataclass(frozen=True, slots=True)
class Rule:
    """One occurrence: which cards it is about, and what it says of them."""

    spec: DeviceSpec
    model: str
    hostname: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Labelling:
    """All that configuration says of cards."""

    rules: tuple[Rule, ...] = ()
    whitelist: Whitelist = field(default_factory=Whitelist)

    def of(self, hostname: str, model: str, device: Candidate) -> dict[str, str]:
        """The labels of a card."""
        found: dict[str, str] = {}
        for rule in self.rules:
            if (
                rule.spec.matches(device)
                and fnmatchcase(model.lower(), rule.model)
                and fnmatchcase(hostname, rule.hostname)
            ):
                found.update(rule.labels)
        return found


NO_LABELS = Labelling()


def parse(
    cards: Sequence[Entry], hosts: Sequence[Entry], whitelist: Whitelist, seeds: Sequence[Entry] = ()
) -> Labelling:
    """The labelling that these occurrences make.

    :param seeds: of the seed's flag; what is said in the other ways goes before it.

    :raises BadConfig: ``bad-label``, naming file, line and what is wrong; ``bad-device-spec`` for ids or an address.
    """
    rules = [_seed(entry) for entry in seeds]
    rules += [_rule(entry, HOST, frozenset()) for entry in hosts] + [_rule(entry, CARD, _CARD_KEYS) for entry in cards]
    return Labelling(tuple(rules), whitelist)


def _seed(entry: Entry) -> Rule:
    """``gpu_arch:fermi,hypervisor_type:LXC``. ``gpus`` is passed over: how many cards are free is counted."""
    labels: dict[str, str] = {}
    for part in filter(None, map(str.strip, entry.text.split(","))):
        key, colon, value = (word.strip() for word in part.partition(":"))
        if not (key and colon and value):
            raise entry.refused(CODE, SEED, f"{part!r} is not key:value, such as gpu_arch:fermi.")
        if key in (_TAKEN | _CARD_KEYS) - {"gpus"}:
            raise entry.refused(CODE, SEED, f"{key} cannot be a label here.")
        labels[key] = _value(entry, SEED, key, value)
    labels.pop("gpus", None)
    (spec,) = parse_specs([Entry("{}", entry.place)]).specs
    return Rule(spec, "*", "*", labels)


def _rule(entry: Entry, option: str, match_keys: frozenset[str]) -> Rule:
    try:
        given = decode(entry.text)
    except ValueError as error:
        raise entry.refused(CODE, option, f"{entry.text!r} is no JSON ({error}).") from error
    if not isinstance(given, dict):
        raise entry.refused(CODE, option, f"{entry.text!r} is not one JSON object.")
    match = {key: value for key, value in given.items() if key in match_keys and key != "model"}
    labels = {key: value for key, value in given.items() if key not in match_keys | {"hostname", "model"}}
    if wrong := sorted(labels.keys() & (_TAKEN | _CARD_KEYS)):
        raise entry.refused(CODE, option, f"{', '.join(wrong)} cannot be a label here.")
    if not labels:
        raise entry.refused(CODE, option, f"{entry.text!r} says nothing of what it matches; add a label.")
    (spec,) = parse_specs([Entry(json.dumps(match), entry.place, option)]).specs
    model, hostname = (_pattern(entry, option, key, given.get(key, "*")) for key in ("model", "hostname"))
    return Rule(spec, model.lower(), hostname, {key: _value(entry, option, key, labels[key]) for key in labels})


def _pattern(entry: Entry, option: str, key: str, value: object) -> str:
    if not isinstance(value, str):
        raise entry.refused(CODE, option, f"{key} is {value!r}; give a pattern such as '*M20*'.")
    return value


def _value(entry: Entry, option: str, key: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)) or not 1 <= len(str(value)) <= 255:
        raise entry.refused(CODE, option, f"the label {key} is {value!r}; give a text or a number.")
    if key == PER_GUEST_LABEL and not (str(value).isdecimal() and int(value) > 0):
        raise entry.refused(CODE, option, f"the label {key} is {value!r}; give a whole number of at least 1.")
    return str(value)
