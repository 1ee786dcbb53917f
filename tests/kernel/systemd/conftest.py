"""One machine for all tests of this folder, on which Cantle is installed by the deployment guide. They run in the order of files, and each
gives back what it borrows; the last ones start the machine again.
"""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Iterator

import pytest
from tests.kernel.lab.guest import Lab
from tests.kernel.systemd import disk, guide
from tests.kernel.systemd.cloud import CONFIGURATION, PROFILES, Cloud
from tests.kernel.systemd.computer import Computer


@pytest.fixture(scope="package")
def computer(request: pytest.FixtureRequest) -> Iterator[Computer]:
    """It has come up; step 1 of the guide is done."""
    if os.geteuid() != 0:
        pytest.exit("the kernel lab needs root: it makes a root file system of Debian's packages", 1)
    checkout = request.config.rootpath
    try:
        lab = Lab.prepare(checkout)
        image = disk.make(lab, checkout)
    except subprocess.CalledProcessError as error:
        pytest.exit(f"the machine with systemd cannot be made: {error}", 1)
    computer = Computer(lab, image)
    try:
        computer.come_up()
        yield computer
        computer.save_journal()
    finally:
        computer.kill()
        image.unlink()
        lab.leave()


@pytest.fixture(scope="package")
def cloud(request: pytest.FixtureRequest, computer: Computer) -> Cloud:
    """All steps of the guide, word for word; in between, what it leaves to its reader."""
    password = secrets.token_hex(16)
    _, install, schema, start_services, start_agent = guide.blocks(request.config.rootpath)
    computer.sh(install)
    computer.run("tee", "/etc/cantle/cantle.conf", stdin=CONFIGURATION.format(password=password))
    psql = f"CREATE ROLE cantle LOGIN PASSWORD '{password}'; CREATE DATABASE cantle OWNER cantle"
    computer.run("runuser", "-u", "postgres", "--", "psql", stdin=psql.replace("; ", ";\n") + ";\n")
    computer.sh(schema)
    token = computer.said("cantle-manage", "token", "bootstrap")
    computer.sh(start_services)
    cloud = Cloud(computer, token, [password, token])
    code = cloud.said("cantle", "host", "invite", disk.HOST, "-c", "code", "-o", "value")
    computer.run("cantle", "agent", "join", "http://127.0.0.1:6667", "--code", code)
    cloud.secrets += [code, cloud.token_of_host()]
    computer.sh(start_agent)
    for name, group in PROFILES.items():
        assert cloud.call("POST", "/v2/device_profiles", [{"name": name, "groups": [group]}])[0] == 201
    return cloud
