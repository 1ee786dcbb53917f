"""The ``cantle`` command as a person in the guest types it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

#: Beside the interpreter that runs the tests.
CANTLE = str(Path(sys.executable).parent / "cantle")


def run(*arguments: str) -> str:
    """Runs it and returns what it prints. Fails with what it wrote on standard error if it exits non-zero."""
    done = subprocess.run([CANTLE, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"cantle {' '.join(arguments)} exited with {done.returncode}:\n{done.stderr}"
    return done.stdout


def cantle(*arguments: str) -> Any:
    """Runs it with ``-o json`` and returns what that says. Fails as :func:`run` does."""
    return json.loads(run(*arguments, "-o", "json"))


def refused(*arguments: str) -> str:
    """Runs it and returns what it says on standard error, once it has failed in an orderly way. Fails if it does not."""
    done = subprocess.run([CANTLE, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode != 0, f"cantle {' '.join(arguments)} was carried out: {done.stdout}"
    assert done.stderr.startswith("cantle: error: "), done.stderr
    assert "[internal-error]" not in done.stderr
    return done.stderr
