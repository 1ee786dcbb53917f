"""Mediated devices that mdevctl makes again at boot: one file each, ``/etc/mdevctl.d/PARENT/UUID`` (mdevctl(8); libvirt's
``nodedev-define`` writes them through mdevctl too)."""

from __future__ import annotations

from cantle.kernel.root import Root

DEFINITIONS = "etc/mdevctl.d"


def definitions(root: Root, uuid: str) -> list[str]:
    """The files in which a mediated device is defined, under whatever parent; mostly none."""
    found = (f"{DEFINITIONS}/{parent}/{uuid}" for parent in root.names(DEFINITIONS))
    return [rel for rel in found if root.exists(rel)]


def defined(root: Root) -> frozenset[str]:
    """Uuids of all mediated devices that are defined."""
    return frozenset(uuid for parent in root.names(DEFINITIONS) for uuid in root.names(f"{DEFINITIONS}/{parent}"))


def undefine(root: Root, uuid: str) -> list[str]:
    """Let nobody make this mediated device again at boot, as ``mdevctl undefine -u UUID`` does; the files that were removed, as the host
    names them. Without it, a device that is given back would be there again after the next boot, and keep its card to its type.

    :raises HostError: ``host-write-failed``.
    """
    found = definitions(root, uuid)
    for rel in found:
        root.remove(rel)
    return [root.host_path(rel) for rel in found]
