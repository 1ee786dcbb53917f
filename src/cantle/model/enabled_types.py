"""Which mediated types an operator has enabled, and where (spec S0.4, S1.1, S1.2).

Pure rules over what was read; ``conf/devices.py`` reads it. Two spellings with two degrees of strictness:

* ``[gpu_devices]`` or ``[gpu]`` ``enabled_vgpu_types`` (Cyborg's): each type needs its section with PCI addresses.
* ``[devices]`` ``enabled_mdev_types`` or ``enabled_vgpu_types`` (Nova's): a type without addresses is the default for all cards not
  named elsewhere, and a parent that is no PCI function may be named, as ``mtty`` or ``mtty_mtty``.

A type's section is ``[mdev_<type>]`` or ``[vgpu_<type>]``, whichever way the type was enabled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cantle.errors import BadConfig, BadRequest
from cantle.model.label import NO_LABELS, Labelling
from cantle.model.pci import PciAddress

DEFAULT_CLASS = "VGPU"
SECTION_PREFIXES = ("mdev_", "vgpu_")
SECTION_OPTIONS = ("device_addresses", "mdev_class", "max_instances")

# A type id is the name of a directory in sysfs; this also keeps "/" and ".." out of paths.
_TYPE_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,254}")
_PARENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_COUNT = re.compile(r"[0-9]{1,9}")
_CLASS = re.compile(r"[A-Za-z0-9_]+")
_MAX_CLASS = 248


@dataclass(frozen=True, slots=True)
class EnabledType:
    """One enabled type.

    :param resource_class: ``VGPU`` or ``CUSTOM_<CLASS>``.
    :param addresses: canonical PCI addresses, or names of parents as they were written; empty for the default type.
    :param max_instances: how many may exist on the whole host; None for no limit.
    """

    type_id: str
    resource_class: str = DEFAULT_CLASS
    addresses: tuple[str, ...] = ()
    max_instances: int | None = None


@dataclass(frozen=True, slots=True)
class EnabledTypes:
    """All enabled types, in the order written.

    :param warnings: for the log of whoever loaded them.
    :param whole_if_not_offered: a card that does not offer its type is lent whole, as the seed has it (spec S0.2), in place of being
        withheld.
    :param labelling: what else the same configuration says of cards.
    :param require_reset: a card that offers no reset is not lent again when it comes back.
    :param type_facts: memory and series of NVIDIA's types are traits, too.
    :param adopt: mediated devices of an enabled type that somebody else made and nobody holds are lent too (spec S1.3).
    """

    types: tuple[EnabledType, ...] = ()
    warnings: tuple[str, ...] = ()
    whole_if_not_offered: bool = False
    adopt: bool = False
    require_reset: bool = False
    type_facts: bool = False
    labelling: Labelling = NO_LABELS
    _by_address: Mapping[str, EnabledType] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_address", {address: one for one in self.types for address in one.addresses})

    def named(self, *names: str) -> EnabledType | None:
        """The type enabled for a parent by any of its names, the default left aside."""
        return next((self._by_address[name] for name in names if name in self._by_address), None)

    def of_type(self, type_id: str) -> EnabledType:
        """How a type is to be inventoried: as configured, else as any vGPU."""
        return next((one for one in self.types if one.type_id == type_id), EnabledType(type_id))

    @property
    def default(self) -> EnabledType | None:
        """The type for all cards that no type names."""
        return next((one for one in self.types if not one.addresses), None)


class Enabling(NamedTuple):
    """One option that enables types, as it was read: ``[section] option = types``."""

    section: str
    option: str
    types: Sequence[str]
    file: str | None = None

    @property
    def strict(self) -> bool:
        """Whether each of its types needs a section with PCI addresses."""
        return self.section != "devices"


class TypeSection(NamedTuple):
    """A section ``[mdev_<type>]`` or ``[vgpu_<type>]`` as it was read: text by option."""

    name: str
    options: Mapping[str, str]
    file: str | None = None

    @property
    def type_id(self) -> str:
        """The type it is about."""
        return self.name[len(SECTION_PREFIXES[0]) :]


class ConfigError(NamedTuple):
    """One thing wrong in the configuration."""

    code: str
    message: str
    section: str
    option: str | None = None
    value: str | None = None
    file: str | None = None

    def __str__(self) -> str:
        place = f"[{self.section}]" + (f" {self.option}" if self.option else "")
        place += f" = {self.value}" if self.value is not None else ""
        return f"{place}: {self.message}" + (f" (in {self.file})" if self.file else "")


def refuse(errors: Sequence[ConfigError]) -> None:
    """Raise them all at once, so that one look at the message mends the whole file.

    :raises BadConfig: with the one error's code, or ``config-invalid`` for several; ``details["errors"]`` lists them.
    """
    if not errors:
        return
    code = errors[0].code if len(errors) == 1 else "config-invalid"
    lines = [str(error) for error in errors]
    message = lines[0] if len(lines) == 1 else f"{len(lines)} errors in the configuration:\n  " + "\n  ".join(lines)
    raise BadConfig(code, message, errors=[error._asdict() for error in errors])


class _Errors(list[ConfigError]):
    """What is wrong so far."""

    def enabling(self, code: str, at: Enabling, message: str) -> None:
        """Note an error of an option that enables types."""
        self.append(ConfigError(code, message, at.section, at.option, ",".join(at.types), at.file))

    def section(self, code: str, at: TypeSection, option: str | None, value: str | None, message: str) -> None:
        """Note an error of a type's section."""
        self.append(ConfigError(code, message, at.name, option, value, at.file))


def build(
    enablings: Iterable[Enabling],
    sections: Iterable[TypeSection],
    *,
    whole_if_not_offered: bool = False,
    adopt: bool = False,
    parent_exists: Callable[[str], bool] | None = None,
) -> EnabledTypes:
    """Check everything and put it together.

    :param whole_if_not_offered: see :class:`EnabledTypes`; ``adopt`` too.
    :param parent_exists: whether the host has a mediated-device parent of this name; None where no host is at hand (then any
        well-formed name is taken).
    :raises BadConfig: listing every error found, see :func:`refuse`.
    """
    errors = _Errors()
    enabled = _enabled(enablings, errors)
    merged = _merge(sections, enabled, errors)
    types: list[EnabledType] = []
    warnings: list[str] = []
    default: EnabledType | None = None
    for type_id, enabling in enabled.items():
        section = merged.get(type_id, TypeSection(f"mdev_{type_id}", {}))
        _require_addresses(enabling, merged.get(type_id), type_id, errors)
        one = EnabledType(
            type_id,
            _resource_class(section, errors),
            _addresses(enabling, section, parent_exists, errors),
            _max_instances(section, errors),
        )
        if not one.addresses and default is not None:
            warnings.append(
                f"[{enabling.section}] {enabling.option}: {type_id} has no device_addresses, but {default.type_id} is the "
                f"default for all cards already; {type_id} is not used. Give it addresses in [mdev_{type_id}]."
            )
            continue
        if not one.addresses:
            default = one
        types.append(one)
    _refuse_shared_addresses(types, merged, errors)
    refuse(errors)
    return EnabledTypes(tuple(types), tuple(warnings), whole_if_not_offered, adopt)


def _enabled(enablings: Iterable[Enabling], errors: _Errors) -> dict[str, Enabling]:
    """The option that enables each type; a strict one where there are several."""
    enabled: dict[str, Enabling] = {}
    for enabling in enablings:
        for type_id in _bare(enabling.types):
            if not _TYPE_ID.fullmatch(type_id):
                errors.enabling(
                    "config-type-malformed",
                    enabling,
                    f"{type_id!r} is no type id; write the ids as `ls mdev_supported_types` shows them, separated by commas, "
                    "e.g. nvidia-223,nvidia-224",
                )
            elif type_id not in enabled or (enabling.strict and not enabled[type_id].strict):
                enabled[type_id] = enabling
    return enabled


def _bare(words: Sequence[str]) -> list[str]:
    """A list's words without the brackets that S0 writes around it: ``[nvidia-223, nvidia-224]``."""
    text = ",".join(words).strip()
    inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    return [word for part in inner.split(",") if (word := part.strip())]


def _merge(sections: Iterable[TypeSection], enabled: Mapping[str, Enabling], errors: _Errors) -> dict[str, TypeSection]:
    """One section per enabled type: ``[mdev_X]`` and ``[vgpu_X]`` together, if they do not contradict each other."""
    merged: dict[str, TypeSection] = {}
    for section in sections:
        for option in sorted(section.options.keys() - set(SECTION_OPTIONS)):
            known = f"there is no such option here; known are {', '.join(SECTION_OPTIONS)}"
            errors.section("config-option-unknown", section, option, section.options[option], known)
        if section.type_id not in enabled:
            errors.section("config-section-without-type", section, None, None, _not_enabled(section.type_id, enabled))
            continue
        before = merged.setdefault(section.type_id, section)
        for option in sorted(section.options.keys() & before.options.keys()):
            if _meaning(option, section.options[option]) != _meaning(option, before.options[option]):
                twice = (
                    f"[{before.name}] says {before.options[option]}; the two sections are one, keep the option in one"
                )
                errors.section("config-option-twice", section, option, section.options[option], twice)
        merged[section.type_id] = before._replace(options={**section.options, **before.options})
    return merged


def _meaning(option: str, text: str) -> object:
    """What a section's option says, however it is written; what is malformed says only what is there."""
    match option:
        case "mdev_class":
            return _class_named(text) or text
        case "device_addresses":
            return frozenset(map(_canonical, _bare([text])))
        case "max_instances" if _COUNT.fullmatch(text):
            return int(text)
    return text


def _canonical(word: str) -> str:
    try:
        return str(PciAddress.parse(word))
    except BadRequest:
        return word


def _not_enabled(type_id: str, enabled: Mapping[str, Enabling]) -> str:
    near = next((one for one in enabled if one.lower() == type_id.lower()), None)
    if near is not None:
        return f"type {type_id} is not enabled, {near} is: spell them the same"
    return (
        f"type {type_id} is not enabled: add it to [gpu_devices] enabled_vgpu_types or [devices] enabled_mdev_types, "
        "or remove the section"
    )


def _require_addresses(enabling: Enabling, section: TypeSection | None, type_id: str, errors: _Errors) -> None:
    if not enabling.strict:
        return
    mend = f"add [vgpu_{type_id}] device_addresses = with the addresses of the cards that {type_id} is for, e.g. 0000:af:00.0"
    if section is None:
        message = f"{type_id} is enabled, but there is no section for it: {mend}"
        errors.enabling("config-type-without-section", enabling, message)
    elif not _words(section):
        value = section.options.get("device_addresses")
        message = f"{type_id} is enabled by [{enabling.section}] {enabling.option} and has no addresses: {mend}"
        errors.section("config-type-without-addresses", section, "device_addresses", value, message)


def _words(section: TypeSection) -> list[str]:
    return _bare([section.options.get("device_addresses", "")])


def _addresses(
    enabling: Enabling, section: TypeSection, parent_exists: Callable[[str], bool] | None, errors: _Errors
) -> tuple[str, ...]:
    """Canonical addresses, each once; whether two spellings are the same card is decided by value."""
    addresses: dict[str, None] = {}
    for word in _words(section):
        try:
            addresses[str(PciAddress.parse(word))] = None
        except BadRequest:
            named = _PARENT.fullmatch(word) is not None
            if named and not enabling.strict and (parent_exists is None or parent_exists(word)):
                addresses[word] = None
            elif named and not enabling.strict:
                message = "neither a PCI address nor a mediated-device parent of this host; `cantle scan` lists those"
                errors.section("config-parent-unknown", section, "device_addresses", word, message)
            else:
                message = "no PCI address; write it as domain:bus:slot.function in hex, e.g. 0000:af:00.0"
                if named:
                    message += (
                        "; a parent that is no PCI function can be named when its type is enabled under [devices]"
                    )
                errors.section("config-address-malformed", section, "device_addresses", word, message)
    return tuple(addresses)


def _resource_class(section: TypeSection, errors: _Errors) -> str:
    """``vgpu`` and ``VGPU`` mean VGPU; ``mlx5`` and ``CUSTOM_MLX5`` mean CUSTOM_MLX5 (spec S1.2)."""
    text = section.options.get("mdev_class", DEFAULT_CLASS)
    if (named := _class_named(text)) is not None:
        return named
    message = (
        f"a class has 1 to {_MAX_CLASS} letters, digits and underscores, e.g. vgpu or mlx5 (the same as CUSTOM_MLX5)"
    )
    errors.section("config-class-malformed", section, "mdev_class", text, message)
    return DEFAULT_CLASS


def _class_named(text: str) -> str | None:
    name = text.upper().removeprefix("CUSTOM_")
    if not _CLASS.fullmatch(text) or not name or len(name) > _MAX_CLASS:
        return None
    return DEFAULT_CLASS if text.upper() == DEFAULT_CLASS else f"CUSTOM_{name}"


def _max_instances(section: TypeSection, errors: _Errors) -> int | None:
    text = section.options.get("max_instances")
    if text is None or (_COUNT.fullmatch(text) and int(text) >= 1):
        return None if text is None else int(text)
    message = "not a whole number of at least 1; remove the option for no limit"
    errors.section("config-max-instances-malformed", section, "max_instances", text, message)
    return None


def _refuse_shared_addresses(
    types: Iterable[EnabledType], sections: Mapping[str, TypeSection], errors: _Errors
) -> None:
    owner: dict[str, str] = {}
    for one in types:
        for address in one.addresses:
            first = owner.setdefault(address, one.type_id)
            if first != one.type_id:
                message = (
                    f"[{sections[first].name}] names this card too, and a card has one type; remove it from one of them"
                )
                errors.section("config-address-two-types", sections[one.type_id], "device_addresses", address, message)
