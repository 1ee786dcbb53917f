"""One thread at a time on a host: the agent's own, and those that answer hooks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Self = TypeVar("_Self", bound="Alone")


class Alone:
    """Whose methods marked :func:`alone` are run by one thread at a time. They may call each other."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    @contextmanager
    def alone(self, seconds: float) -> Iterator[bool]:
        """No other thread runs such a method meanwhile; False when one did for so many seconds."""
        free = self._lock.acquire(timeout=seconds)
        try:
            yield free
        finally:
            if free:
                self._lock.release()


def alone(method: Callable[Concatenate[_Self, _P], _R]) -> Callable[Concatenate[_Self, _P], _R]:
    """See :class:`Alone`."""

    @wraps(method)
    def locked(self: _Self, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with self._lock:
            return method(self, *args, **kwargs)

    return locked
