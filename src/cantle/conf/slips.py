"""What in configuration files has no effect though somebody wrote it: told when a service starts and by ``cantle config check``."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from cantle.conf import sample
from cantle.conf.misspelt import misspelt
from cantle.conf.repeated import repeated

_log = logging.getLogger(__name__)


def slips(files: Sequence[str], directories: Sequence[str] = ()) -> list[str]:
    """A sentence each for names that are nearly an option's, and for options that a file gives twice.

    :param files: as :func:`cantle.conf.files.read` has read them without an error.
    """
    listed = sample.list_opts()
    return [*misspelt(listed, files, directories), *repeated(listed, files, directories)]


def warn(files: Sequence[str], directories: Sequence[str] = (), *, also: Iterable[str] = ()) -> None:
    """Log these at the start of a service, each once.

    :param also: further warnings, which may have some of these among them.
    """
    for slip in dict.fromkeys([*also, *slips(files, directories)]):
        _log.warning("%s", slip)
