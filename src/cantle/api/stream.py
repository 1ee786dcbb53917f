"""Answers that come piece by piece, as server-sent events."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

#: How one asks for such an answer (``Accept``), and what it is (``Content-Type``).
EVENT_STREAM = "text/event-stream"


class Stream:
    """The body of the answer. ``close`` gives the waiting place back, whether or not anything was read."""

    def __init__(self, chunks: Iterator[bytes], place: contextlib.ExitStack) -> None:
        self._chunks = chunks
        self._place = place

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return next(self._chunks)

    def close(self) -> None:
        """End it. Again is no error."""
        self._place.close()
