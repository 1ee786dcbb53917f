"""The import rules of pyproject.toml hold (two towers on one base, see docs/architecture.md)."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.unit.house.checkout import CHECKOUT

HEAVY = ("falcon", "sqlalchemy", "alembic", "oslo_config", "oslo_policy", "cheroot", "yaml", "rich", "msgspec")


def lint(*places: Path) -> subprocess.CompletedProcess[str]:
    """Check the rules on the package that is found in these places. In a process of its own: the linter configures logging for all."""
    code = textwrap.dedent(f"""
        import sys
        sys.path[:0] = {[str(place) for place in places]!r}
        from importlinter.cli import lint_imports
        sys.exit(lint_imports(config_filename={str(CHECKOUT / "pyproject.toml")!r}, no_cache=True))
    """)
    return subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False)


def test_every_import_rule_holds() -> None:
    done = lint()
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("cantle/agent/intruder.py", "import cantle.store"),
        ("cantle/engine/intruder.py", "import cantle.kernel"),
        ("cantle/model/intruder.py", "import os"),
        ("cantle/kernel/intruder.py", "import cantle.agent"),
        ("cantle/store/intruder.py", "import oslo_config"),
    ],
)
def test_a_broken_import_rule_is_noticed(tmp_path: Path, module: str, line: str) -> None:
    """The rules are no decoration: each kind of forbidden import makes the check fail."""
    rooms = sorted(path.name for path in (CHECKOUT / "src" / "cantle").iterdir() if (path / "__init__.py").exists())
    for room in rooms:
        (tmp_path / "cantle" / room).mkdir(parents=True)
        (tmp_path / "cantle" / room / "__init__.py").touch()
    (tmp_path / "cantle" / "__init__.py").touch()
    (tmp_path / "cantle" / "errors.py").touch()
    (tmp_path / module).write_text(line + "\n")
    done = lint(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "BROKEN" in done.stdout


@pytest.mark.parametrize(
    "noun", ["arq", "capacity", "deployable", "device", "explain_error", "host", "lease", "main", "profile"]
)
def test_a_client_command_loads_nothing_of_the_server(noun: str) -> None:
    """Start-up time: a command that asks a server has no use for SQL, HTTP frameworks or configuration."""
    code = f"import sys, cantle.cli.{noun}; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
