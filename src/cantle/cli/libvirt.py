"""``cantle libvirt``: this machine's cards as libvirt takes them, without leases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from cantle.kernel.root import Root
    from cantle.model.pci import PciAddress


@click.group(no_args_is_help=True)
def libvirt() -> None:
    """Write this machine's cards for domains of libvirt."""


@libvirt.command("xml")
@click.argument("cards", nargs=-1, required=True, metavar="CARD...")
@click.option("--at", "place", metavar="BUS:SLOT", help="Put all functions of CARD on this slot of the guest: 0a:00.")
@click.option("--managed", is_flag=True, help="libvirt binds and gives back; not for cards that are lent.")
@click.option("--container", is_flag=True, help="The device nodes, for a container of libvirt's LXC driver.")
@click.option("--root", "directory", metavar="DIR", help="Look at the tree below DIR in place of this machine.")
def xml(*, cards: tuple[str, ...], place: str | None, managed: bool, container: bool, directory: str | None) -> None:
    """Print the XML that gives each CARD (0000:af:00.0) to a guest.

    For shapes that a lease does not have by itself: a card with its sound and USB
    functions on one slot, as some of its drivers want it (the guest must be off),
    or a container of libvirt's own LXC driver. Cards whose memory is larger than
    the room that a guest has above 4 GiB get the controller that makes room for
    all of them: put it in place of the guest's pcie-root. Needs no server, and
    changes nothing.

    \b
    Examples:
      cantle libvirt xml 0000:af:00.0 --at 0a:00
      cantle libvirt xml 0000:af:00.0 0000:d6:00.0 --managed
      cantle libvirt xml 0000:af:00.0 --container
    """
    from cantle.kernel.root import Root  # noqa: PLC0415 - only this command needs it
    from cantle.model.pci import PciAddress  # noqa: PLC0415

    root, found = Root(directory or "/"), [PciAddress.parse(card) for card in cards]
    if container:
        texts = _for_container(root, found)
    elif place is not None:
        texts = _on_slot(root, found, place, managed=managed)
    else:
        texts = _each(root, found, managed=managed)
    for text in texts:
        click.echo(text)


def _for_container(root: Root, cards: Sequence[PciAddress]) -> Iterator[str]:
    from cantle.attach.libvirt import node_xml  # noqa: PLC0415
    from cantle.kernel import node  # noqa: PLC0415

    for path in sorted({one.path for card in cards for one in node.of_card(root, card)}):
        yield node_xml(path)


def _on_slot(root: Root, cards: Sequence[PciAddress], place: str, *, managed: bool) -> Iterator[str]:
    from cantle.attach.libvirt import unit_xml  # noqa: PLC0415
    from cantle.kernel import unit  # noqa: PLC0415
    from cantle.model.pci import PciAddress  # noqa: PLC0415

    if len(cards) > 1:
        raise click.UsageError("--at is one slot, for one CARD.")
    slot = PciAddress.parse(f"{place}.0")
    functions = [one.address for one in unit.find(root, cards[0]).functions]
    yield unit_xml(functions, slot, prepared=not managed)
    yield from _room(root, cards)


def _each(root: Root, cards: Sequence[PciAddress], *, managed: bool) -> Iterator[str]:
    from cantle.attach.libvirt import hostdev_xml, parts  # noqa: PLC0415
    from cantle.kernel import unit  # noqa: PLC0415

    for card in cards:
        yield hostdev_xml("PCI", parts(unit.find(root, card).card.address), "", prepared=not managed)
    yield from _room(root, cards)


def _room(root: Root, cards: Sequence[PciAddress]) -> Iterator[str]:
    from cantle.attach.libvirt import hole_xml  # noqa: PLC0415
    from cantle.kernel.bar import high_windows  # noqa: PLC0415

    text = hole_xml(window for card in cards for window in high_windows(root, card))
    if text is not None:
        yield text
