"""Read the options of one group, so that a wrong value is found at the start and said plainly."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from oslo_config import cfg

from cantle.errors import BadConfig


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
