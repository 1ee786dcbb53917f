"""Takes the uncompressed kernel out of a distribution's bzImage, so that QEMU starts it by its PVH note.

Decompressing costs a software-emulated CPU some 8 s at each boot; here it costs a second at set-up. Where the payload lies is told by
the header of the x86 boot protocol (Documentation/arch/x86/boot.rst: setup_sects, payload_offset, payload_length).

    python3 vmlinux.py /boot/vmlinuz-VERSION OUTPUT
"""

from __future__ import annotations

import gzip
import lzma
import struct
import subprocess
import sys
from pathlib import Path

#: The last four bytes of the payload are its unpacked size, which is no part of the compressed stream.
_SIZE_MARK = 4


def extract(image: bytes) -> bytes:
    """The ELF file inside a bzImage. Raises ValueError for an image that is none, or a compression not known here."""
    if image[0x202:0x206] != b"HdrS":
        raise ValueError("no bzImage: the boot protocol's mark HdrS is missing")
    setup_sectors = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (setup_sectors + 1) * 512 + offset
    elf = _decompress(image[start : start + length])
    if elf[:4] != b"\x7fELF":
        raise ValueError("the payload of this bzImage is no ELF file")
    return elf


def _decompress(payload: bytes) -> bytes:
    if payload.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMADecompressor().decompress(payload)
    if payload.startswith(b"\x1f\x8b"):
        return gzip.decompress(payload[:-_SIZE_MARK])
    if payload.startswith(b"\x28\xb5\x2f\xfd"):
        return _by_tool("zstd", payload[:-_SIZE_MARK])
    if payload.startswith(b"\x02\x21\x4c\x18"):
        return _by_tool("lz4", payload[:-_SIZE_MARK])
    raise ValueError(f"a compression not known here, starting with {payload[:6].hex()}")


def _by_tool(tool: str, data: bytes) -> bytes:
    return subprocess.run([tool, "-dc"], input=data, stdout=subprocess.PIPE, check=True).stdout


if __name__ == "__main__":
    Path(sys.argv[2]).write_bytes(extract(Path(sys.argv[1]).read_bytes()))
