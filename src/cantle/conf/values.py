"""Read the options of one group, and files they name, so that a wrong value is found at the start and said plainly."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from oslo_config import cfg

from cantle.errors import BadConfig
from cantle.model import certificate


def read(conf: cfg.ConfigOpts, group: str, options: Sequence[cfg.Opt]) -> Any:
    """The group's values, all of them looked at once.

    :raises BadConfig: ``bad-option``, naming section, option, file and what is wrong.
    """
    conf.register_opts(options, group=group)
    for option in options:
        try:
            _ = conf[group][option.dest]
        except (cfg.Error, ValueError) as error:
            raise BadConfig("bad-option", f"[{group}] {option.name}{plainly(error)}.") from error
    return conf[group]


def plainly(error: Exception) -> str:
    """`` in /etc/cantle/cantle.conf is not acceptable: …`` from oslo.config's message, which names the place in its own notation."""
    place = re.search(r"detail='([^']+)'", str(error))
    why = str(error).rpartition(" is not valid: ")[2].rstrip(".")
    return f"{f' in {place[1]}' if place else ''} is not acceptable: {why}"


def certificates(file: str | None) -> str | None:
    """The certificates in a PEM file, without what else may be in it (a key, for one); None for no file.

    :raises BadConfig: ``ca-file-unusable``.
    """
    if file is None:
        return None
    try:
        with open(file, encoding="utf-8") as stream:
            found = certificate.each(stream.read())
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig("ca-file-unusable", f"The certificates in {file} cannot be read: {error}.") from error
    if not found:
        raise BadConfig("ca-file-unusable", f"There is no certificate in PEM form in {file}.")
    return "".join(found)
