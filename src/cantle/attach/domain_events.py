"""What happens to libvirt's domains, as it happens: told by ``virsh event``, which is started again when its daemon was.

They are hints: what a domain has is read from libvirt's files (:mod:`cantle.attach.domains`) after one, and now and then without any.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Generator
from contextlib import closing

from cantle.attach.domain import URI
from cantle.errors import CantleError
from cantle.kernel.root import Root
from cantle.kernel.tools import Talk

#: libvirt's events after which a domain may run, be defined or have devices otherwise than before; others come by the second.
_OURS = re.compile(r"event '(?:lifecycle|device-added|device-removed|device-removal-failed)' for domain ")
#: Below the root: there as long as one of libvirt's daemons runs, or has run since boot.
_RUNS = "run/libvirt"
#: Seconds between two looks whether it is worth it to listen; the longest after failures.
_AGAIN, _LONGEST = 5.0, 60.0

_log = logging.getLogger(__name__)


class DomainEvents:
    """See the module.

    :param wanted: whether there is anybody to listen for.
    :param ended: set when nobody listens any more; :meth:`end` too, which wakes whoever waits.
    """

    def __init__(self, root: Root, wanted: Callable[[], bool], ended: threading.Event) -> None:
        self._root = root
        self._wanted = wanted
        self._ended = ended
        self._talk: Talk | None = None

    def __iter__(self) -> Generator[str, None, None]:
        """Each event in libvirt's words; "" when listening begins, since nobody knows what has happened till then."""
        seconds = _AGAIN
        while not self._ended.is_set():
            heard = False
            if self._wanted() and self._root.exists(_RUNS):
                with closing(self._listen()) as said:
                    for line in said:
                        heard = heard or bool(line)
                        yield line
            seconds = _AGAIN if heard or self._talk is None else min(seconds * 2, _LONGEST)
            self._ended.wait(seconds)

    def end(self) -> None:
        """Stop listening. Safe from any thread."""
        self._ended.set()
        if self._talk is not None:
            self._talk.end()

    def _listen(self) -> Generator[str, None, None]:
        try:
            self._talk = self._root.talk(["virsh", "-q", "-c", URI, "event", "--all", "--loop"])
        except CantleError as error:
            _log.warning("nobody tells what happens to domains; they are looked at once a minute: %s", error)
            return
        if self._ended.is_set():
            self._talk.end()  # it ended while this began
        with closing(self._talk.lines()) as said:
            yield ""
            for line in said:
                if _OURS.match(line):
                    yield line
