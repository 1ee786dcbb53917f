"""Options ``[pci]`` and ``[labels]``: aliases, the whitelist, what cards are labelled with. Nova's own configuration file is read as it is.

Each occurrence is kept with its file and line, which oslo.config does not tell; so their files are read here once more.
"""

from __future__ import annotations

import glob
from collections.abc import Sequence

from oslo_config import cfg

from cantle.conf import files, values
from cantle.model import alias, device_spec, label
from cantle.model.alias import Aliases
from cantle.model.json_option import Entry
from cantle.model.label import Labelling

PCI_OPTIONS: tuple[cfg.Opt, ...] = (
    cfg.MultiStrOpt(
        "alias",
        deprecated_opts=[cfg.DeprecatedOpt("pci_alias", group="DEFAULT")],
        default=[],
        help='A name for a kind of PCI device, as a JSON object: {"name": "t4", "vendor_id": "10de", "product_id": "1eb8"}. '
        "Repeat it for more; the same name again is another device that will do.",
    ),
    cfg.MultiStrOpt(
        "device_spec",
        deprecated_opts=[
            cfg.DeprecatedOpt("passthrough_whitelist", group="pci"),
            cfg.DeprecatedOpt("pci_passthrough_whitelist", group="DEFAULT"),
        ],
        default=[],
        help="Which PCI devices may be given to guests whole, as a JSON object or a list of them: "
        '{"vendor_id": "10de", "address": "*:af:00.*"}. Without any, all may.',
    ),
    cfg.BoolOpt(
        "regex_prefix_match",
        default=False,
        help="Regular expressions in addresses match from the start of a field only, as Nova's do: 0 then also matches 0a.",
    ),
    cfg.BoolOpt("report_in_placement", default=False, help="Nova's option; one_time_use in a device_spec needs it."),
)

LABEL_OPTIONS: tuple[cfg.Opt, ...] = (
    cfg.MultiStrOpt(
        "card",
        default=[],
        help="Labels of cards, where the hardware cannot say: "
        '{"vendor_id": "10de", "product_id": "06d2", "gpu_arch": "fermi"}. '
        "Match keys are address, vendor_id, product_id, model and hostname; all others are labels.",
    ),
    cfg.MultiStrOpt(
        "host",
        default=[],
        help='Labels of all cards of this host, or of those named by hostname: {"hypervisor": "LXC"}.',
    ),
)

SEED_OPTIONS: tuple[cfg.Opt, ...] = (
    cfg.MultiStrOpt(
        "instance_type_extra_specs",
        default=[],
        help="Labels of all cards of this host in the form of older clouds: cpu_arch:x86_64,gpu_arch:fermi,hypervisor_type:LXC. "
        "gpus is passed over, since cards are counted. [labels] host and card go before it.",
    ),
)

#: Where each option may be written: section and name.
_ALIAS = (("pci", "alias"), ("DEFAULT", "pci_alias"))
_DEVICE_SPEC = (("pci", "device_spec"), ("pci", "passthrough_whitelist"), ("DEFAULT", "pci_passthrough_whitelist"))


class _Placed(cfg.ConfigParser):
    """Remembers the line on which each assignment begins."""

    def __init__(self, path: str) -> None:
        super().__init__(path, {})
        self.found: list[tuple[str, str, Entry]] = []
        self._began = 0

    def _split_key_value(self, line: str) -> tuple[str, list[str]]:
        self._began = self.lineno
        found: tuple[str, list[str]] = super()._split_key_value(line)
        return found

    def assignment(self, key: str, value: list[str]) -> None:
        """An assignment was read to its end."""
        self.found.append((str(self.section), key, Entry("\n".join(value), f"{self.filename}:{self._began}")))


def aliases(conf: cfg.ConfigOpts) -> Aliases:
    """The PCI aliases of a configuration.

    :raises BadConfig: ``bad-pci-alias``.
    """
    return alias.parse(_entries(*_places(conf), _ALIAS))


def labelling(paths: Sequence[str], directories: Sequence[str] = ()) -> Labelling:
    """What files, then the ``*.conf`` of directories, say of cards: labels, and the whitelist.

    :raises BadConfig: ``bad-label``, ``bad-device-spec``, ``bad-option``, and what `cantle.conf.files.read` raises.
    """
    conf = files.read(paths, directories)
    switches = values.read(conf, "pci", PCI_OPTIONS)
    whitelist = device_spec.parse(
        _entries(paths, directories, _DEVICE_SPEC),
        prefix_match=switches.regex_prefix_match,
        report_in_placement=switches.report_in_placement,
    )
    cards, hosts, seeds = (
        _entries(paths, directories, (place,))
        for place in (("labels", "card"), ("labels", "host"), ("DEFAULT", "instance_type_extra_specs"))
    )
    return label.parse(cards, hosts, whitelist, seeds)


def _places(conf: cfg.ConfigOpts) -> tuple[list[str], list[str]]:
    return list(conf.config_file or []), list(conf.config_dir or [])


def _entries(paths: Sequence[str], directories: Sequence[str], names: Sequence[tuple[str, str]]) -> list[Entry]:
    """Every occurrence of an option under any of its names, in the order of files and lines."""
    inside = [path for place in directories for path in sorted(glob.glob(f"{glob.escape(place)}/*.conf"))]
    found: list[Entry] = []
    for path in [*paths, *inside]:
        parser = _Placed(path)
        parser.parse()
        found += [entry for section, key, entry in parser.found if (section, key.replace("-", "_")) in names]
    return found


def list_opts() -> list[tuple[str | None, list[cfg.Opt]]]:
    """For oslo.config's sample generator."""
    return [(None, list(SEED_OPTIONS)), ("pci", list(PCI_OPTIONS)), ("labels", list(LABEL_OPTIONS))]
