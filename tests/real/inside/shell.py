"""Run ``openstack`` commands, one process each, without paying for the imports each time.

Reads one JSON list of words a line; for each, forks a child that runs ``openstackclient.shell`` with them as ``openstack`` would,
and answers one line: ``{"status", "output", "errors"}``.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import sys
import traceback
import warnings

warnings.simplefilter("ignore")
shell = importlib.import_module("openstackclient.shell")
# What every command needs, imported before the fork. The release that is installed decides whose commands these are.
for module in (
    "openstack",
    "openstackclient.common.clientmanager",
    "openstackclient.identity.client",
    "cyborgclient.osc.plugin",
):
    importlib.import_module(module)


def run(words: list[str]) -> dict[str, object]:
    """One command, in this process."""
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            status = shell.main(words)
        except SystemExit as ended:
            status = ended.code
        except Exception:  # noqa: BLE001 - a crash of the client is an answer too
            traceback.print_exc()
            status = 1
    return {"status": status or 0, "output": output.getvalue(), "errors": errors.getvalue()}


def main() -> None:
    """Answer until standard input ends."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            sys.stdout.write(json.dumps(run(json.loads(line))) + "\n")
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(child, 0)


main()
