"""That something happened to a host or its guests: told by any thread, and owed until it was seen to."""

from __future__ import annotations

import threading


class Signals:
    """Those of one host.

    :ivar owed: a signal was heard, and the look at the guests that it asks for has not been done and told.
    """

    def __init__(self) -> None:
        self._host = threading.Event()
        self._guests = threading.Event()
        self._woken = threading.Event()
        self.owed = False

    def tell_of_host(self) -> None:
        """A device came, went or changed."""
        self._host.set()
        self._woken.set()

    def tell_of_guests(self) -> None:
        """A guest started or ended, or is done with."""
        self._guests.set()
        self._woken.set()

    def end_wait(self) -> None:
        """Nothing happened, but who waits now is to look up."""
        self._woken.set()

    def wait(self, seconds: float) -> None:
        """Sleep until the next signal, at most for so long. It may have come before."""
        self._woken.wait(seconds)
        self._woken.clear()

    def of_host(self) -> bool:
        """Whether something happened to the host since the last time; to be asked before the look that this calls for."""
        return self._heard(self._host)

    def of_guests(self) -> bool:
        """The same of guests."""
        return self._heard(self._guests)

    def _heard(self, event: threading.Event) -> bool:
        """It is taken down only when it is up: what happens from here on asks for another look."""
        if not event.is_set():
            return False
        event.clear()
        self.owed = (
            True  # also a change of the host: a lent unit may have gone, or come back with its card or its guest
        )
        return True
