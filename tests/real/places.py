"""Where the real parts live: everything below ``.stack/`` of the checkout, which git ignores."""

from __future__ import annotations

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
HERE = CHECKOUT / "tests" / "real"

#: Programs that run with the Python of VENV, not with the one of the tests.
INSIDE = HERE / "inside"

STACK = CHECKOUT / ".stack"

#: Keystone, tempest, Nova's module and the command-line clients. Cantle itself runs from the checkout's own ``.venv``.
VENV = STACK / "venv"
PYTHON = VENV / "bin" / "python"

#: Releases that stand in front of the venv's own on ``PYTHONPATH`` when a test asks for them: one folder each.
OLDER = STACK / "older"

#: Data, configuration and logs of one test run. Emptied when the next run starts, so that a failure can be looked at.
RUN = STACK / "run"
