"""Options that one file gives twice. oslo.config takes the last of them without a word; what the others said, a card to be cut for one,
would be missed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from oslo_config import cfg

from cantle.conf.misspelt import Listed
from cantle.model.enabled_types import SECTION_PREFIXES


def repeated(listed: Listed, files: Sequence[str], directories: Sequence[str] = ()) -> Iterator[str]:
    """A sentence for each option of those listed that a file gives several times with different values, but may not.

    :param files: as :func:`cantle.conf.files.read` has read them without an error.
    """
    listed = list(listed)
    ours = {section or "DEFAULT" for section, _ in listed}
    often = {name for _, options in listed for option in options if option.multi for name in _names(option)}
    for file in [*files, *(str(path) for place in directories for path in sorted(Path(place).glob("*.conf")))]:
        sections: dict[str, dict[str, list[str]]] = {}
        cfg.ConfigParser(file, sections).parse()
        for section, options in _merged(sections).items():
            if section not in ours and not section.startswith(SECTION_PREFIXES):
                continue
            for name, values in options.items():
                if name.replace("-", "_") not in often and len(set(values)) > 1:
                    yield (
                        f"{file}: [{section}] {name} is given {len(values)} times; {values[-1]}, the last, is all that counts"
                    )


def _merged(sections: Mapping[str, Mapping[str, Sequence[str]]]) -> dict[str, dict[str, list[str]]]:
    """Sections whose names differ in case alone are one to oslo.config."""
    merged: dict[str, dict[str, list[str]]] = {}
    for section, options in sections.items():
        one = merged.setdefault(section if section == "DEFAULT" else section.lower(), {})
        for name, values in options.items():
            one.setdefault(name, []).extend(values)
    return merged


def _names(option: cfg.Opt) -> set[str]:
    return {option.dest} | {old.name.replace("-", "_") for old in option.deprecated_opts if old.name}
