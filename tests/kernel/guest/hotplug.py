"""Pulling the card ``hot`` out of the running machine, and putting it back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.kernel.guest import sysfs
from tests.kernel.lab import machine
from tests.kernel.lab.inside import Host

HOT = machine.address("hot")


@contextmanager
def pulled(host: Host) -> Iterator[None]:
    """The card is out inside the ``with`` block, and back after it."""
    pull(host)
    try:
        yield
    finally:
        put_back(host)


def pull(host: Host) -> None:
    """Returns when the card has gone from the bus."""
    host.ask("device_del", id="hot", until="DEVICE_DELETED")
    sysfs.until(lambda: not sysfs.function(HOT).exists(), f"{HOT} goes from the bus")


def put_back(host: Host) -> None:
    """Returns when a driver has the card again."""
    (card,) = (card for card in machine.CARDS if card.name == "hot")
    (function,) = card.functions
    host.ask("device_add", driver=function.device, id="hot", bus=machine.port_of("hot"), addr="0.0")
    sysfs.until(lambda: sysfs.driver(HOT) is not None, f"{HOT} is back on a driver")
