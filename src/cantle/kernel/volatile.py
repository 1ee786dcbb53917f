"""What of a host changes by itself, read as fast as it can be: equal before and after means that nothing a report is made of has changed.

Making a mediated device changes a number in ``available_instances`` and no directory's time, so nothing less than reading will do.
Which functions there are, virtual ones too, and which driver has each, is in the names in a few directories.
"""

from __future__ import annotations

from collections.abc import Iterable

from cantle.errors import HostError
from cantle.kernel import mdev, pci, udev
from cantle.kernel.root import Root

#: Bytes of the configuration space that tell whether a card answers.
_IDS = 4


def fingerprint(root: Root, cards: Iterable[str] = ()) -> tuple[object, ...]:
    """Functions and their drivers; the room of each type of each parent; mediated devices; whether ``cards`` (addresses) answer.

    Not in it: what a function is. Another card at the same address comes with an event.

    :raises HostError: what cannot be read.
    """
    return (
        udev.listing(root),
        tuple((name, _room(root, name)) for name in root.names(mdev.PARENTS)),
        tuple(mdev.devices(root)),
        tuple(_ids(root, card) for card in cards),
    )


def _room(root: Root, parent: str) -> list[tuple[str, str]] | None:
    types = root.directory_or_none(f"{mdev.PARENTS}/{parent}/mdev_supported_types")
    if types is None:
        return None
    with types:
        return types.read_in_each("available_instances")


def _ids(root: Root, card: str) -> bytes | None:
    """Only of one that is awake: reading the configuration space of a sleeping one would wake it."""
    files = root.directory_or_none(f"{pci.DEVICES}/{card}")
    if files is None:
        return None
    with files:
        if files.read_or_none("power_state") not in pci.AWAKE:
            return None
        try:
            return files.head_or_none("config", _IDS)
        except HostError:  # not every function lets its space be read
            return None
