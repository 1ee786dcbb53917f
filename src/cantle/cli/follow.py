"""Following a server's events: each once, whatever becomes of the connection meanwhile."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from cantle import errors
from cantle.cli.client import Client

#: Seconds without a sign of life after which the connection is given up: the server gives one every 15.
SILENCE_S = 60.0
#: Seconds before coming back.
PAUSE_S = 1.0
#: Events that are remembered, since the server may send some again after a connection was lost.
REMEMBERED = 2000


def follow(client: Client, path: str, query: dict[str, object], *, patience: float = 60.0) -> Iterator[dict[str, Any]]:
    """The ``data`` of each event from now on, for ever.

    :param patience: seconds for which a server that is away is waited for.
    :raises Unavailable: it was away for longer. All else that a request raises.
    """
    last: str | None = None
    seen: dict[str, None] = {}
    away_since: float | None = None
    while True:
        try:
            for name, data in _events(client.lines(path, query, last_event_id=last, silence=SILENCE_S)):
                away_since = None
                last = name or last
                if data is None or name in seen:
                    continue
                if name:
                    seen[name] = None
                    if len(seen) > REMEMBERED:
                        del seen[next(iter(seen))]
                yield data
        except errors.Unavailable:
            now = time.monotonic()
            away_since = now if away_since is None else away_since
            if now - away_since >= patience:
                raise
        time.sleep(PAUSE_S)


def _events(lines: Iterator[str]) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Id and data of each event; without data it says only where the stream is. Comments are signs of life."""
    name, data = "", ""
    for line in lines:
        if not line:
            if name or data:
                yield name, json.loads(data) if data else None
            name, data = "", ""
        field, _, value = line.partition(": ")
        if field == "id":
            name = value
        elif field == "data":
            data += value
