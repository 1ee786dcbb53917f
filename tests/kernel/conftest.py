"""The host's side: tests below tests/kernel/guest are collected here like any others, and run in the guest.

Each boot starts once for all its selected tests; their reports are pytest's own, sent over from the guest, so what fails there reads
here as it would have there. How to write one: docs/kernel-lab.md.
"""

from __future__ import annotations

import pytest
from tests.kernel.lab.harness import Harness

_IN_GUEST = "tests.kernel.lab.inside"


def pytest_configure(config: pytest.Config) -> None:
    """The marker is known on both sides; the harness is for the host's only."""
    config.addinivalue_line(
        "markers", "boot(name): which start of the guest a test runs in (tests/kernel/lab/boots.py)"
    )
    config.addinivalue_line("markers", "leaves_mdevs: mediated devices that a test leaves behind are for the next one")
    if not config.pluginmanager.hasplugin(_IN_GUEST):
        config.pluginmanager.register(Harness(), "lab-harness")
