"""Which units the server was told are ready: from then on a guest may hold them, and before that nobody may.

So a unit that is wanted, is there already and is *not* in here must be in nobody's hands, or two guests would have it: after a database
was restored from a backup, say. Kept in a small file, so that an agent that starts again tells its own guests from strangers. The disk is
not waited for: what a loss of power takes from this file, it takes from all guests too.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable
from pathlib import Path

import msgspec

_FILE = "handed.json"

_log = logging.getLogger(__name__)


class Handed:
    """The file in the agent's state directory; :meth:`load` it before use."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._path = Path(directory) / _FILE
        self.uuids: frozenset[str] = frozenset()

    def load(self, wanted: Iterable[str]) -> None:
        """Read it.

        :param wanted: uuids that count as told where there is no file: an earlier version of the agent kept none.
        """
        try:
            self.uuids = msgspec.json.decode(self._path.read_bytes(), type=frozenset[str])
        except FileNotFoundError:
            self.uuids = frozenset(wanted)
            self._save()
        except (OSError, msgspec.DecodeError) as error:
            _log.warning(
                "%s cannot be used (%s): units that somebody holds are not said to be ready", self._path, error
            )

    def note(self, ready: Iterable[str], absent: Iterable[str], named: Collection[str]) -> None:
        """Before the server is told.

        :param named: uuids that it has to do with at all; others are forgotten.
        """
        self._set(((self.uuids | set(ready)) - set(absent)) & set(named))

    def forget(self, uuids: Collection[str]) -> None:
        """These were told ready for somebody else."""
        self._set(self.uuids - set(uuids))

    def _set(self, uuids: frozenset[str]) -> None:
        if uuids != self.uuids:
            self.uuids = uuids
            self._save()

    def _save(self) -> None:
        fresh = self._path.with_suffix(".next")
        try:
            fresh.write_bytes(msgspec.json.encode(sorted(self.uuids)))
            fresh.replace(self._path)
        except OSError as error:
            _log.warning("cannot write %s: %s; it is known until this agent ends", self._path, error.strerror)
