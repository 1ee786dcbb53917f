"""The commands of the deployment guide, as they stand there."""

from __future__ import annotations

import re
from pathlib import Path


def blocks(checkout: Path) -> list[str]:
    """Its blocks of commands, in order."""
    text = (checkout / "docs" / "deploy" / "README.md").read_text(encoding="utf-8")
    found = re.findall(r"^ *```sh\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    return [re.sub(r"^ +", "", block, flags=re.MULTILINE) for block in found]
