"""The configuration that discovery and the end-to-end tests run with: real files, read by Cantle's own reader."""

from __future__ import annotations

from pathlib import Path

from tests.kernel.lab.machine import address

T4 = address("t4")

#: One NVIDIA card cut into 2 GB slices, the kernel's samples by each of their spellings; everything else is lent whole.
TEXT = f"""
[devices]
enabled_mdev_types = nvidia-223, mtty-2, mbochs-large, mdpy-hd

[mdev_nvidia-223]
device_addresses = {T4}

[mdev_mtty-2]
device_addresses = mtty_mtty

[mdev_mbochs-large]
device_addresses = mbochs
mdev_class = screen

[mdev_mdpy-hd]
device_addresses = mdpy
mdev_class = CUSTOM_PICTURE
max_instances = 2

[labels]
card = {{"vendor_id": "10de", "units_per_guest": "8"}}
"""


def write(folder: Path) -> str:
    """Puts it into a file and returns the path."""
    path = folder / "cantle.conf"
    path.write_text(TEXT)
    return str(path)
