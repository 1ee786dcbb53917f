"""Not collected by itself: tests/kernel/test_harness.py has a guest run it."""

from __future__ import annotations

from pathlib import Path


def test_the_kernel_goes_down() -> None:
    Path("/proc/sysrq-trigger").write_text("c")
