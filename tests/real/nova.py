"""Nova's own client of the accelerator API, in a process of its own: of the current Nova, or of an older one."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.real.cloud import PASSWORD, Cloud
from tests.real.places import INSIDE, OLDER, PYTHON

#: Releases to test with, by the folder that has to stand in front on PYTHONPATH; None is the venv's own.
RELEASES: dict[str, Path | None] = {"34.0.0": None, "33.0.2": OLDER / "nova"}

_CONF = """\
[DEFAULT]
log_file = {log}
use_stderr = False
[service_user]
send_service_user_token = {send}
auth_type = password
auth_url = {auth_url}
username = nova
password = {password}
project_name = service
user_domain_name = Default
project_domain_name = Default
[cyborg]
region_name = RegionOne
"""


class NovaError(Exception):
    """What Nova's client raised: ``kind`` is the class's name."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


class NovaClient:
    """A running child; made by :func:`client`."""

    def __init__(self, process: subprocess.Popen[str], cloud: Cloud, log: Path) -> None:
        self._process = process
        self._cloud = cloud
        self._log = log
        self.version: str = self._answer()

    def call(self, person: str, method: str, *arguments: Any) -> Any:
        """Call ``method`` for a request of ``person``; raises :class:`NovaError` with what Nova raised."""
        access = self._cloud.access(person)
        order = {
            "token": access.auth_token,
            "user_id": access.user_id,
            "project_id": access.project_id,
            "catalog": _as_v2(access.service_catalog.catalog),
            "call": method,
            "arguments": arguments,
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"Nova's client ended with status {self._process.wait(10)}; see {self._log}"
        answer = json.loads(line)
        if "error" in answer:
            raise NovaError(answer["error"], answer["message"])
        return answer["result"]


def _as_v2(catalog: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The catalog as keystonemiddleware hands it to Nova: in the shape of Identity API v2."""
    services = []
    for service in catalog:
        by_region: dict[str, dict[str, str]] = {}
        for endpoint in service["endpoints"]:
            found = by_region.setdefault(endpoint["region"], {"region": endpoint["region"]})
            found[f"{endpoint['interface']}URL"] = endpoint["url"]
        services.append({"type": service["type"], "name": service["name"], "endpoints": list(by_region.values())})
    return services


@contextlib.contextmanager
def client(release: str, cloud: Cloud, directory: Path, *, service_token: bool = True) -> Iterator[NovaClient]:
    """Nova's client of ``release``, ended when the block is left.

    :param service_token: whether it sends a service token along (``[service_user] send_service_user_token``).
    """
    name = f"nova-client-{release}{'' if service_token else '-without-service-token'}"
    conf, log = directory / f"{name}.conf", directory / "log" / f"{name}.log"
    conf.write_text(_CONF.format(log=log, send=service_token, auth_url=cloud.auth_url, password=PASSWORD))
    folder = RELEASES[release]
    env = {**os.environ, **({"PYTHONPATH": str(folder)} if folder else {})}
    with (
        log.open("a") as errors,
        subprocess.Popen(
            [PYTHON, INSIDE / "nova_client.py", conf],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=env,
        ) as process,
    ):
        try:
            yield NovaClient(process, cloud, log)
        finally:
            process.kill()
