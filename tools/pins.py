"""``make pins``: writes constraints.txt anew: the newest versions that pyproject.toml allows, with everything they bring along."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
HEADER = "# Every version that `make` installs, runtime and development. Written by `make pins`; pyproject.toml has the lower bounds.\n"


def main() -> int:
    """Resolve in a fresh environment and write what came out."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = ",".join(sorted(project["project"]["optional-dependencies"]))
    with tempfile.TemporaryDirectory(prefix="cantle-pins-") as scratch:
        subprocess.run([sys.executable, "-m", "venv", scratch], check=True)
        python = str(Path(scratch, "bin", "python"))
        quiet = [python, "-m", "pip", "install", "-qqq", "--disable-pip-version-check", "--upgrade"]
        subprocess.run([*quiet, "pip", "hatchling", "editables"], check=True)
        subprocess.run([*quiet, "--no-build-isolation", f"{CHECKOUT}[{extras}]"], check=True)
        frozen = subprocess.run(
            [python, "-m", "pip", "freeze", "--all", "--exclude", "cantle", "--exclude", "setuptools"],
            check=True,
            capture_output=True,
            text=True,
        )
    pins = sorted((line for line in frozen.stdout.splitlines() if "==" in line), key=str.lower)
    (CHECKOUT / "constraints.txt").write_text(HEADER + "\n".join(pins) + "\n", encoding="utf-8")
    print(f"{len(pins)} versions pinned")
    return 0


if __name__ == "__main__":
    sys.exit(main())
