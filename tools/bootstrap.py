"""Makes ``.venv`` and installs Cantle into it, editable, with the versions that constraints.txt pins. Standard library only.

    tools/python tools/bootstrap.py          what running Cantle needs
    tools/python tools/bootstrap.py dev      and what its tests need

Safe to run again and again: it does nothing when pyproject.toml, constraints.txt, the interpreter and the place of the
checkout are those of the last time, and repairs a half-made environment. It needs no root and no package of the system;
where Python comes without ensurepip (Debian and Ubuntu without python3-venv) pip comes from elsewhere, see ``_bring_pip``.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
VENV = CHECKOUT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "cantle-installed.json"
LOCK = CHECKOUT / ".stamps" / "bootstrap.lock"

#: The build tools stand in the environment too, pinned as everything else: an isolated build would fetch unpinned ones each time.
BUILD_TOOLS = ("hatchling", "editables")


class Failure(Exception):
    """Setting up did not work; the message says why and what to do."""


def main() -> int:
    """Set up what the arguments ask for; 0 when ``.venv`` is ready."""
    extras = sorted(set(sys.argv[1:]))
    LOCK.parent.mkdir(exist_ok=True)
    with LOCK.open("w") as lock:
        _wait_for(lock.fileno())
        try:
            _set_up(extras)
        except Failure as error:
            print(f"cantle: setting up .venv failed: {error}", file=sys.stderr)
            return 1
    return 0


def _wait_for(lock: int) -> None:
    """Two makes in one checkout would install over each other."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("cantle: another make is setting up .venv; waiting for it", file=sys.stderr)
        fcntl.flock(lock, fcntl.LOCK_EX)


def _set_up(extras: Sequence[str]) -> None:
    wanted = _fingerprint()
    done = _read_stamp()
    works = _answers(PYTHON, "import pip, sys; sys.exit(sys.version_info < (3, 11))")
    if works and done.get("fingerprint") == wanted and set(extras) <= set(done.get("extras", [])):
        return
    moved = bool(done) and done.get("place") != str(VENV)
    if not works or moved:
        _make_venv()
        done = {}
    STAMP.unlink(missing_ok=True)  # from here on it is half-made until the last step is done
    extras = sorted({*extras, *done.get("extras", [])})
    target = f".[{','.join(extras)}]" if extras else "."
    print(
        f"cantle: installing {'Cantle and its tools for development' if extras else 'Cantle'} into .venv",
        file=sys.stderr,
    )
    constraints = ["--quiet", "--constraint", "constraints.txt"]
    _pip("install", *constraints, *BUILD_TOOLS)
    _pip("install", *constraints, "--no-build-isolation", "--editable", target)
    STAMP.write_text(json.dumps({"fingerprint": wanted, "place": str(VENV), "extras": extras}), encoding="utf-8")


def _fingerprint() -> str:
    """Changes when an installation made earlier no longer fits."""
    parts = [(CHECKOUT / name).read_bytes() for name in ("pyproject.toml", "constraints.txt")]
    return hashlib.sha256(b"\0".join([*parts, str(VENV).encode(), Path(__file__).read_bytes()])).hexdigest()


def _read_stamp() -> dict[str, Any]:
    try:
        found = json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _make_venv() -> None:
    """A fresh environment with pip in it, whatever stood there before."""
    print(f"cantle: making .venv with Python {sys.version.split()[0]}", file=sys.stderr)
    if VENV.is_symlink() or VENV.is_file():
        VENV.unlink()
    shutil.rmtree(VENV, ignore_errors=True)
    whole = importlib.util.find_spec("ensurepip") is not None
    if whole and _run([sys.executable, "-m", "venv", str(VENV)]).returncode == 0:
        return
    bare = _run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(VENV)])
    if bare.returncode != 0:
        raise Failure(f"'{sys.executable} -m venv' says: {bare.stdout.strip()}")
    _bring_pip()


def _bring_pip() -> None:
    """pip without ensurepip: the interpreter's own, else the distribution's wheel, else that wheel out of its package."""
    own = _run(
        [sys.executable, "-m", "pip", "--python", str(PYTHON), "install", "--quiet", "-c", "constraints.txt", "pip"]
    )
    if own.returncode == 0 and _answers(PYTHON, "import pip"):
        return
    with tempfile.TemporaryDirectory(prefix="cantle-pip-") as scratch:
        wheel = _system_wheel(Path("/")) or _packaged_wheel(Path(scratch))
        if wheel is None:
            raise Failure(
                f"{sys.executable} has neither ensurepip nor pip, and no pip could be had from the distribution. "
                "Install python3-venv, or name another interpreter: make PYTHON=/path/to/python3.11"
            )
        brought = _run([str(PYTHON), f"{wheel}/pip", "install", "--quiet", "--no-index", str(wheel)])
        if brought.returncode != 0:
            raise Failure(f"pip from {wheel} could not install itself: {brought.stdout.strip()}")


def _system_wheel(root: Path) -> Path | None:
    """The wheel of Debian's python3-pip-whl below a root directory."""
    return next(iter(sorted((root / "usr" / "share" / "python-wheels").glob("pip-*.whl"), reverse=True)), None)


def _packaged_wheel(scratch: Path) -> Path | None:
    """The same wheel from the package archive, fetched by apt (which checks its signature) and unpacked, not installed: no root needed."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        return None
    print(
        "cantle: this Python has no ensurepip; fetching the distribution's pip with apt-get download", file=sys.stderr
    )
    fetch = ["apt-get", "--quiet=2", "download", "python3-pip-whl"]
    if _run(fetch, cwd=scratch).returncode != 0:
        lists = scratch / "lists"
        (lists / "partial").mkdir(parents=True)
        (scratch / "cache" / "archives" / "partial").mkdir(parents=True)
        private = ["-o", f"Dir::State::lists={lists}", "-o", f"Dir::Cache={scratch / 'cache'}"]
        _run(["apt-get", "--quiet=2", *private, "update"], cwd=scratch)
        _run(["apt-get", *private, *fetch[1:]], cwd=scratch)
    package = next(scratch.glob("python3-pip-whl*.deb"), None)
    if package is None or _run(["dpkg-deb", "--extract", str(package), str(scratch / "tree")]).returncode != 0:
        return None
    return _system_wheel(scratch / "tree")


def _pip(*arguments: str) -> None:
    done = _run([str(PYTHON), "-m", "pip", *arguments])
    if done.returncode != 0:
        print(done.stdout, file=sys.stderr)
        raise Failure("pip could not install everything; its words are above. Is the package index reachable?")


def _answers(python: Path, code: str) -> bool:
    try:
        return _run([str(python), "-c", code]).returncode == 0
    except OSError:
        return False


def _run(command: Sequence[str], cwd: Path = CHECKOUT) -> subprocess.CompletedProcess[str]:
    """One command with its output caught. The environment says where packages come from, and nothing about where they go."""
    return subprocess.run(
        command, cwd=cwd, env=_environment(os.environ), text=True, check=False, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment without what would lead Python or pip astray; indexes, proxies and certificates stay."""
    astray = (
        "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "VIRTUAL_ENV", "PIP_TARGET", "PIP_PREFIX",
        "PIP_ROOT", "PIP_CONSTRAINT", "PIP_REQUIREMENT", "PIP_REQUIRE_VIRTUALENV", "PIP_PYTHON", "PIP_NO_DEPS",
    )  # fmt: skip
    kept = {name: value for name, value in given.items() if name not in astray}
    return {**kept, "PIP_USER": "0", "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONNOUSERSITE": "1"}


if __name__ == "__main__":
    sys.exit(main())
