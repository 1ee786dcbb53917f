"""How long, as people write it."""

from __future__ import annotations

import re

import click

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Span(click.ParamType[float]):
    """A time as ``90s``, ``15m``, ``12h`` or ``30d``; its value is in seconds."""

    name = "span"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The seconds."""
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"(\d{1,9})([smhd])", str(value))
        if found is None:
            self.fail(f"{value!r} is no time; write for example 90s, 15m, 12h or 30d.", param, ctx)
        return float(int(found[1]) * _SECONDS[found[2]])
