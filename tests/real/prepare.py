"""``python -m tests.real.prepare``: MariaDB from the distribution, and ``.stack/venv`` with the real parts; kept while nothing changes.

Run by the checkout's own ``.venv``, whose pip installs into the new one: so the machine's Python needs no ensurepip.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time

from tests.real import cyborg_schema, libvirt, lxc, lxd, mariadb, mdevctl, packages, podman
from tests.real.places import CHECKOUT, HERE, OLDER, PYTHON, STACK, VENV

#: What the tests ask for; everything that comes along is pinned in ``constraints.txt``.
REQUIREMENTS = (
    "keystone",
    "waitress",  # serves Keystone: its WSGI module reads sys.argv, which gunicorn does not survive
    "nova",  # for nova.accelerator.cyborg, the client inside Nova; nothing else of it runs
    "openstack-placement",
    "PyMySQL",  # Placement on MariaDB
    "osc-placement",
    "openstacksdk",
    "python-openstackclient",
    "python-cyborgclient",
    "tempest",
    "cyborg-tempest-plugin",
)

#: Releases kept beside the venv, each in a folder of its own, without what they depend on (the venv has that).
OLDER_RELEASES = (
    "nova==33.0.2",  # its client of the accelerator API is a keystoneauth adapter, before 34.0.0 took openstacksdk's
    "python-openstackclient==10.3.1",  # the last without accelerator commands, so that python-cyborgclient's are found
)

_MARK = VENV / ".prepared"


def _wanted() -> str:
    asked = "\n".join((sys.version, *REQUIREMENTS, *OLDER_RELEASES, (HERE / "constraints.txt").read_text()))
    return hashlib.sha256(asked.encode()).hexdigest()


def pip(*arguments: str) -> None:
    """Install into the venv. Ends the program with pip's last words when it cannot."""
    argv = [sys.executable, "-m", "pip", "--python", str(PYTHON), "--disable-pip-version-check", "install", "--quiet"]
    done = subprocess.run([*argv, *arguments], check=False, cwd=CHECKOUT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"pip install {' '.join(arguments)} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")


def main() -> None:
    """Install all of it. Ends the program with a message when something cannot be installed; then the next run starts afresh."""
    mariadb.install()
    lxc.install()
    lxd.install()
    libvirt.install()
    podman.install()
    mdevctl.install()
    cyborg_schema.install()
    if not shutil.which("nginx", path=f"{os.environ['PATH']}{os.pathsep}/usr/sbin"):
        packages.install("nginx-light")
    venv()


def venv() -> None:
    """The venv alone. Ends the program with a message when something cannot be installed."""
    wanted = _wanted()
    if _MARK.exists() and _MARK.read_text() == wanted:
        return
    began = time.monotonic()
    print(f"test-real: installing Keystone, tempest and the clients into {VENV} …", flush=True)
    for folder in (VENV, OLDER):
        shutil.rmtree(folder, ignore_errors=True)
    STACK.mkdir(exist_ok=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(VENV)], check=True)
    pip("-c", str(HERE / "constraints.txt"), *REQUIREMENTS)
    for release in OLDER_RELEASES:
        pip("--no-deps", "--target", str(OLDER / release.partition("==")[0]), release)
    _MARK.write_text(wanted)
    print(f"test-real: installed in {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
