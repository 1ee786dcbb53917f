"""Taking the power from a card's slot, and giving it back: a card that falls off the bus and answers nothing any more.

It is the slot's own switch (PCI Express base specification, Slot Control, *Power Controller Control*), set behind the kernel's back: no
event tells the kernel, as none does when a GPU falls off the bus.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.kernel.guest import sysfs

_SLOT_CONTROL = "CAP_EXP+18.w"
_OFF, _ON, _SWITCH = "400", "0", "400"


@contextmanager
def no_power(at: str) -> Iterator[None]:
    """The card at this address has none inside the ``with`` block, and again after it. What was written to it is lost by then."""
    port = sysfs.function(at).resolve().parent.name
    _set(port, _OFF)
    try:
        yield
    finally:
        _set(port, _ON)


def _set(port: str, value: str) -> None:
    subprocess.run(["setpci", "-s", port, f"{_SLOT_CONTROL}={value}:{_SWITCH}"], check=True)
