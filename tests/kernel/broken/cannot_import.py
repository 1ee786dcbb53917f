"""Not collected by itself: tests/kernel/test_harness.py has a guest run it."""

from __future__ import annotations

import importlib

importlib.import_module("no_such_module")
