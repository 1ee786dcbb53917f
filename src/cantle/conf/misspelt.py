"""Names in configuration files that are nearly an option's. oslo.config passes over what nobody asks for, so a letter too few would
otherwise be a card that is not cut, without a word."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from oslo_config import cfg

from cantle.conf import sample
from cantle.model.enabled_types import SECTION_PREFIXES

#: How alike two names are, of 1, before one is taken for a slip of the pen. Options of other projects, which share a section
#: with ours (keystoneauth's in [placement]), are less alike to ours.
_ALIKE = 0.85


def misspelt(files: Sequence[str], directories: Sequence[str] = ()) -> Iterator[str]:
    """A sentence for each section or option that is none of Cantle's and nearly one of them.

    :param files: as :func:`cantle.conf.files.read` has read them without an error.
    """
    known = {section or "DEFAULT": _names(options) for section, options in sample.list_opts()}
    for file in [*files, *(str(path) for place in directories for path in sorted(Path(place).glob("*.conf")))]:
        sections: dict[str, dict[str, list[str]]] = {}
        cfg.ConfigParser(file, sections).parse()
        for section, options in sections.items():
            if section.lower().startswith(SECTION_PREFIXES):
                continue  # read whole, and refused, by model/enabled_types.py
            if section not in known:
                yield from _told(file, f"[{section}]", section, known, "section")
                continue
            for option in options:
                if option.replace("-", "_") not in known[section]:
                    yield from _told(file, f"[{section}] {option}", option, known[section], "option")


def _names(options: Sequence[cfg.Opt]) -> set[str]:
    old = {one.name.replace("-", "_") for option in options for one in option.deprecated_opts if one.name}
    return {option.dest for option in options} | old


def _told(file: str, what: str, name: str, known: Iterable[str], kind: str) -> Iterator[str]:
    close = difflib.get_close_matches(name, sorted(known), n=1, cutoff=_ALIKE)
    if close:
        yield f"{file}: {what} is no {kind} of Cantle and has no effect; did you mean {close[0]}?"
