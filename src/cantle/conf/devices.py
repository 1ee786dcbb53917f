"""Enabled mediated types from configuration files in oslo.config's format: Cyborg's and Nova's spellings (spec S0.4, S1.1)."""

from __future__ import annotations

import dataclasses
import glob
from collections.abc import Callable, Sequence

from oslo_config import cfg

from cantle.conf import files, pci, values
from cantle.conf.misspelt import misspelt
from cantle.conf.repeated import repeated
from cantle.errors import BadConfig
from cantle.model.enabled_types import (
    SECTION_OPTIONS,
    SECTION_PREFIXES,
    EnabledTypes,
    Enabling,
    TypeSection,
    build,
)

_CANONICAL = "gpu_devices"

_VGPU_TYPES = cfg.ListOpt(
    "enabled_vgpu_types",
    default=[],
    help="Mediated types (vGPU types) that may be made on this host's cards, by the ids in mdev_supported_types, e.g. "
    "nvidia-223,nvidia-224. Each needs a section [vgpu_<type>] with the device_addresses it is for.",
)
_MDEV_TYPES = cfg.ListOpt(
    "enabled_mdev_types",
    default=[],
    help="Mediated types that may be made on this host, as in Nova. A type without a section [mdev_<type>], or with one that names no "
    "device_addresses, is the default for all cards that no other type names.",
)
_NOVA_VGPU_TYPES = cfg.ListOpt("enabled_vgpu_types", default=[], help="The old name of enabled_mdev_types.")

_WHOLE_IF_NOT_OFFERED = cfg.BoolOpt(
    "whole_if_type_not_offered",
    default=False,
    help="What becomes of a card whose enabled type its driver does not offer: false withholds it until the type appears (it may just be "
    "late, after a boot); true lends it whole, as Cyborg does.",
)

_ADOPT = cfg.BoolOpt(
    "adopt_existing_mdevs",
    default=False,
    help="Lend mediated devices of an enabled type that somebody else has made and nobody uses, in place of making new ones. They are kept "
    "when they are given back. Leave it off beside OpenStack or anything else that makes mediated devices for itself.",
)
_REQUIRE_RESET = cfg.BoolOpt(
    "require_reset",
    default=False,
    help="A card that comes back from a lease is reset before it is lent again, and kept in quarantine if that fails. What becomes of one "
    "that offers no reset at all: false lends it again, and the record of the lease says that nothing was done; true keeps it back too.",
)
_TYPE_FACTS = cfg.BoolOpt(
    "memory_and_series_traits",
    default=False,
    help="Publish memory and series of NVIDIA's vGPU types as traits too, so that a profile can ask for them whatever the card: T4-2B has "
    "CUSTOM_VGPU_MEMORY_2GB and CUSTOM_VGPU_SERIES_B. Off, a type has its one trait, as with Cyborg.",
)
_REQUIRING = "devices"
#: Where it may be written; either says yes.
_ADOPTING = (_CANONICAL, "devices")

#: Options that enable types, by section: the first section is the canonical one.
ENABLING_OPTIONS: dict[str, tuple[cfg.Opt, ...]] = {
    _CANONICAL: (_VGPU_TYPES,),
    "gpu": (_VGPU_TYPES,),
    "devices": (_MDEV_TYPES, _NOVA_VGPU_TYPES),
}

#: Options of a section [mdev_<type>] or [vgpu_<type>]. Read as text: all of it is checked at once by model/enabled_types.py.
TYPE_OPTIONS: tuple[cfg.Opt, ...] = (
    cfg.StrOpt(
        "device_addresses",
        help="Addresses of the cards this type is for, separated by commas: 0000:af:00.0,0000:86:00.0. Under [devices], a parent that is "
        "no PCI function may be named too, e.g. mtty_mtty.",
    ),
    cfg.StrOpt(
        "mdev_class",
        default="vgpu",
        help="Kind of device: vgpu is inventoried as VGPU, any other, e.g. mlx5, as CUSTOM_MLX5. That name itself means the same.",
    ),
    cfg.StrOpt(
        "max_instances", help="How many of this type may exist on the whole host, at least 1. No limit if unset."
    ),
)


def load(
    paths: Sequence[str],
    directories: Sequence[str] = (),
    *,
    parent_exists: Callable[[str], bool] | None = None,
) -> EnabledTypes:
    """Read files, then the ``*.conf`` of directories, later ones overriding earlier ones, and check what they say.

    :param parent_exists: see :func:`cantle.model.enabled_types.build`.
    :raises BadConfig: ``config-file-missing``, ``config-file-unreadable``, ``config-file-malformed``, or whatever ``build`` and
        `cantle.conf.pci.labelling` refuse.
    """
    conf = files.read(paths, directories)
    conf.register_opt(_WHOLE_IF_NOT_OFFERED, group=_CANONICAL)
    for section in _ADOPTING:
        conf.register_opt(_ADOPT, group=section)
    conf.register_opts((_REQUIRE_RESET, _TYPE_FACTS), group=_REQUIRING)
    for section, options in ENABLING_OPTIONS.items():
        conf.register_opts(options, group=section)
    try:
        enablings = [
            Enabling(section, option.name, conf[section][option.name], _origin(conf, option.name, section))
            for section, options in ENABLING_OPTIONS.items()
            for option in options
        ]
        whole = conf[_CANONICAL][_WHOLE_IF_NOT_OFFERED.name]
        require_reset = conf[_REQUIRING][_REQUIRE_RESET.name]
        type_facts = conf[_REQUIRING][_TYPE_FACTS.name]
        adopt = any(conf[section][_ADOPT.name] for section in _ADOPTING)
        inside = [path for place in directories for path in sorted(glob.glob(f"{glob.escape(place)}/*.conf"))]
        sections = [_section(conf, name, [*paths, *inside]) for name in _type_sections(conf)]
    except cfg.ConfigFileValueError as error:  # a word that is no yes or no
        option = str(error).removeprefix("Value for option ").partition(" ")[0]
        raise BadConfig("config-file-malformed", f"{option}{values.plainly(error)}") from error
    except (cfg.Error, ValueError) as error:  # a $name that stands for nothing
        raise BadConfig(
            "config-file-malformed", f"a value in {', '.join([*paths, *directories])} cannot be read: {error}"
        ) from error
    slips = (*misspelt(list_opts(), paths, directories), *repeated(list_opts(), paths, directories))
    try:
        types = build(enablings, sections, whole_if_not_offered=whole, adopt=adopt, parent_exists=parent_exists)
    except BadConfig as error:  # a slip may be what makes the rest wrong
        raise BadConfig(error.code, "\n  ".join([error.message, *slips]), **error.details) from error
    return dataclasses.replace(
        types,
        warnings=(*types.warnings, *slips),
        labelling=pci.labelling(paths, directories),
        require_reset=require_reset,
        type_facts=type_facts,
    )


def _type_sections(conf: cfg.ConfigOpts) -> list[str]:
    return [name for name in conf.list_all_sections() if name.lower().startswith(SECTION_PREFIXES)]


def _section(conf: cfg.ConfigOpts, name: str, paths: Sequence[str]) -> TypeSection:
    """What a type's section says. Options nobody registered are listed too, for a misspelt one must not go unseen."""
    conf.register_opts(TYPE_OPTIONS, group=name)
    options = {option: conf[name][option] for option in SECTION_OPTIONS if _origin(conf, option, name) is not None}
    file = next((_origin(conf, option, name) for option in options), None)
    for path in paths:
        raw: dict[str, dict[str, list[str]]] = {}
        cfg.ConfigParser(path, raw).parse()
        if name in raw:
            file = file or path
            unknown = {key: values[-1] for key, values in raw[name].items() if key not in SECTION_OPTIONS}
            options.update(unknown)
    return TypeSection(name, options, file)


def _origin(conf: cfg.ConfigOpts, option: str, section: str) -> str | None:
    """The file (or environment variable) an option was set in; None when it has its default."""
    place = conf.get_location(option, section)
    if place is None or not place.location.is_user_controlled:
        return None
    return str(place.detail)


def list_opts() -> list[tuple[str | None, list[cfg.Opt]]]:
    """For oslo.config's sample generator: each section with its options, the per-type one by an example name."""
    listed: list[tuple[str | None, list[cfg.Opt]]] = [
        (section, list(options)) for section, options in ENABLING_OPTIONS.items()
    ]
    listed.append((_CANONICAL, [_WHOLE_IF_NOT_OFFERED]))
    listed += [(section, [_ADOPT]) for section in _ADOPTING]
    listed.append((_REQUIRING, [_REQUIRE_RESET, _TYPE_FACTS]))
    listed.append(("vgpu_nvidia-223", list(TYPE_OPTIONS)))
    return listed + pci.list_opts()
