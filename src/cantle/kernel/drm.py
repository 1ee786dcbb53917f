"""The Direct Rendering Manager's nodes of a card (the kernel's Documentation/gpu/drm-uapi.rst, "Render nodes")."""

from __future__ import annotations

import re

from cantle.kernel.char_device import Node, number
from cantle.kernel.root import Root
from cantle.model.pci import PciAddress

_RENDER = re.compile(r"renderD[0-9]{1,5}")


def render_nodes(root: Root, address: PciAddress) -> list[Node]:
    """The render node of a card: it computes and renders, and cannot touch a screen. None or one; their numbers are in order of probing."""
    place = f"sys/bus/pci/devices/{address}/drm"
    found = []
    for name in root.names(place):
        at = number(root, f"{place}/{name}/dev") if _RENDER.fullmatch(name) else None
        if at is not None:
            found.append(Node(root.host_path(f"dev/dri/{name}"), *at))
    return found
