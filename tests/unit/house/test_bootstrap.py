"""How ``make`` finds a Python and what it lets that Python's environment say. (Whole installations are tried by ``.ci/run`` itself.)"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.unit.house.checkout import CHECKOUT

CHOOSER = CHECKOUT / "tools" / "python"


@pytest.fixture(scope="module")
def bootstrap() -> ModuleType:
    """tools/bootstrap.py as a module."""
    spec = importlib.util.spec_from_file_location("bootstrap", CHECKOUT / "tools" / "bootstrap.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def choose(path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the chooser with nothing but ``path`` to look in."""
    return subprocess.run(
        ["/bin/sh", str(CHOOSER), "-c", "import sys; print(sys.executable)"],
        env={"PATH": str(path), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def pretender(path: Path, name: str, version: str) -> None:
    """A Python that says it is of another version."""
    script = path / name
    script.write_text(f'#!/bin/sh\ncase "$2" in *version_info*) exit {int(version < "3.11")};; esac\necho {name}\n')
    script.chmod(0o755)


def test_an_old_python3_is_passed_over_for_a_newer_one_by_its_own_name(tmp_path: Path) -> None:
    pretender(tmp_path, "python3", "3.09")
    pretender(tmp_path, "python3.12", "3.12")
    pretender(tmp_path, "python3.11", "3.11")
    assert choose(tmp_path).stdout == "python3.12\n"


def test_a_machine_without_a_new_enough_python_is_told_what_to_do(tmp_path: Path) -> None:
    pretender(tmp_path, "python3", "3.09")
    done = choose(tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        "cantle: Python 3.11 or newer is needed and none was found. Install one, or name it: make PYTHON=/path/to/python3.11\n"
    )


def test_the_python_that_was_named_is_taken_or_refused_but_never_replaced(tmp_path: Path) -> None:
    pretender(tmp_path, "python3", "3.13")
    pretender(tmp_path, "mine", "3.11")
    pretender(tmp_path, "old", "3.10")
    assert choose(tmp_path, PYTHON=str(tmp_path / "mine")).stdout == "mine\n"
    for wrong in (str(tmp_path / "old"), str(tmp_path / "nowhere")):
        done = choose(tmp_path, PYTHON=wrong)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"PYTHON={wrong} is no Python 3.11 or newer" in done.stderr


def test_what_leads_pip_astray_is_taken_out_and_where_packages_come_from_stays(bootstrap: ModuleType) -> None:
    given = {
        "PATH": "/bin",
        "PIP_INDEX_URL": "https://mirror.example/simple",
        "PIP_CERT": "ca.pem",
        "https_proxy": "http://proxy.example",
        "PYTHONPATH": "/elsewhere",
        "PYTHONHOME": "/elsewhere",
        "VIRTUAL_ENV": "/another",
        "PIP_TARGET": "/elsewhere",
        "PIP_USER": "1",
        "PIP_CONSTRAINT": "another.txt",
    }
    seen = bootstrap._environment(given)
    assert {name: seen[name] for name in given if name in seen} == {
        "PATH": "/bin",
        "PIP_INDEX_URL": "https://mirror.example/simple",
        "PIP_CERT": "ca.pem",
        "https_proxy": "http://proxy.example",
        "PIP_USER": "0",
    }


def test_the_distributions_own_pip_is_found_and_the_newest_taken(bootstrap: ModuleType, tmp_path: Path) -> None:
    assert bootstrap._system_wheel(tmp_path) is None
    wheels = tmp_path / "usr" / "share" / "python-wheels"
    wheels.mkdir(parents=True)
    for name in ("pip-23.0.1-py3-none-any.whl", "pip-24.0-py3-none-any.whl", "setuptools-66.whl"):
        (wheels / name).touch()
    assert bootstrap._system_wheel(tmp_path).name == "pip-24.0-py3-none-any.whl"


def test_an_installation_is_done_again_when_pins_or_place_change(
    bootstrap: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy(CHECKOUT / name, tmp_path / name)
    monkeypatch.setattr(bootstrap, "CHECKOUT", tmp_path)
    first = bootstrap._fingerprint()
    assert bootstrap._fingerprint() == first
    (tmp_path / "constraints.txt").write_text("click==8.5.1\n")
    second = bootstrap._fingerprint()
    monkeypatch.setattr(bootstrap, "VENV", tmp_path / "moved" / ".venv")
    assert len({first, second, bootstrap._fingerprint()}) == 3


def test_every_version_that_make_installs_is_pinned_exactly() -> None:
    lines = (CHECKOUT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert [pin for pin in pins if pin.count("==") != 1] == []
    assert pins == sorted(pins, key=str.lower)


def test_make_alone_lists_the_commands(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHON": sys.executable}
    environment = {name: value for name, value in environment.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(["make", "-C", str(CHECKOUT)], capture_output=True, text=True, check=True, env=environment)
    assert {"demo", "test", "lint"} <= {
        line.split()[1] for line in done.stdout.splitlines() if line.startswith("  make ")
    }
