"""Names in configuration files that are nearly an option's. oslo.config passes over what nobody asks for, so a letter too few would
otherwise be a card that is not cut, without a word."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from oslo_config import cfg

from cantle.model.enabled_types import SECTION_PREFIXES

#: How alike two names are, of 1, before one is taken for a slip of the pen. Options of other projects, which share a section
#: with ours (keystoneauth's in [placement]), are less alike to ours.
_ALIKE = 0.85


#: Sections with their options, as the sample generator is told them.
Listed = Iterable[tuple[str | None, Sequence[cfg.Opt]]]


def misspelt(listed: Listed, files: Sequence[str], directories: Sequence[str] = ()) -> Iterator[str]:
    """A sentence for each section or option that is none of those listed and nearly one of them.

    :param files: as :func:`cantle.conf.files.read` has read them without an error.
    """
    known = _known(listed)
    for file in [*files, *(str(path) for place in directories for path in sorted(Path(place).glob("*.conf")))]:
        sections: dict[str, dict[str, list[str]]] = {}
        cfg.ConfigParser(file, sections).parse()
        for section, options in sections.items():
            name = section if section == "DEFAULT" else section.lower()  # as oslo.config reads them
            if name.startswith(SECTION_PREFIXES):
                continue  # read whole, and refused, by model/enabled_types.py
            if name not in known:
                yield from _told(file, f"[{section}]", name, known, "section")
                continue
            for option in options:
                if option not in known[name]:
                    yield from _told(
                        file, f"[{section}] {option}", option, [*known[name], *_elsewhere(option, known)], "option"
                    )


def _known(listed: Listed) -> dict[str, set[str]]:
    """The names of all options by section, former ones too, which may be another section's."""
    known: dict[str, set[str]] = defaultdict(set)
    for section, options in listed:
        for option in options:
            known[section or "DEFAULT"] |= {option.name, option.dest}
            for former in option.deprecated_opts:
                known[former.group or section or "DEFAULT"].add(former.name or option.name)
    return dict(known)


def _elsewhere(option: str, known: Mapping[str, Iterable[str]]) -> list[str]:
    """The same option in the sections that have it. A name of one word, such as host, means something else to others."""
    return [f"[{section}] {option}" for section, names in known.items() if option in names and "_" in option]


def _is_one_slip_off(said: str, meant: str) -> bool:
    """One letter too few or too many, or two that changed places: in a short name these are too much for `_ALIKE`. Another letter is
    not enough, since short words of that kind are many: ``host`` and ``post``."""
    shorter, longer = sorted((said, meant), key=len)
    if len(longer) == len(shorter) + 1:
        return any(longer[:at] + longer[at + 1 :] == shorter for at in range(len(longer)))
    return len(said) == len(meant) and any(
        said[:at] + said[at + 1] + said[at] + said[at + 2 :] == meant for at in range(len(said) - 1)
    )


def _told(file: str, what: str, name: str, known: Iterable[str], kind: str) -> Iterator[str]:
    """Case and ``-`` for ``_`` are slips, too; the very name in another section is the last that is thought of."""
    said = name.lower().replace("-", "_")
    meant = difflib.get_close_matches(said, sorted(known), n=1, cutoff=_ALIKE)
    meant = meant or [one for one in sorted(known) if _is_one_slip_off(said, one)]
    meant = meant or [one for one in sorted(known) if one.endswith(f"] {name}")]
    if meant:
        yield f"{file}: {what} is no {kind} of Cantle and has no effect; did you mean {meant[0]}?"
