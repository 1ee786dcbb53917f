"""Leases into containers of a real LXD, from the command to the card."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

from tests.real import cards, lxd

INSIDE = Path(__file__).with_name("inside") / "lxd_leases.py"


def test_cards_are_lent_to_containers_of_lxd_by_lease_and_come_back(tmp_path: Path) -> None:
    """In a mount namespace of its own, which ends with all that the daemon has mounted."""
    argv = [sys.executable, "-m", "pytest", str(INSIDE), "-q", "-x", "-p", "no:cacheprovider"]
    home = tmp_path / "lxd"
    home.mkdir(0o711)
    argv = ["unshare", "--mount", *lxd.laid(home, cards.laid(argv))]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    finally:
        for made in ("/dev/dri", lxd.HOME):
            with contextlib.suppress(OSError):
                os.rmdir(made)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
