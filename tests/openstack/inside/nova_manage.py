"""``nova_manage.py LINE...``: run ``nova-manage`` with the words of each line in turn (a JSON list), paying for its imports once.

Ends with the status of the first one that fails.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback

manage = importlib.import_module("nova.cmd.manage")


def run(words: list[str]) -> int:
    """One command in a child of its own: Nova's configuration is a global of the process."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 1
    try:
        sys.argv = ["nova-manage", *words]
        status = manage.main() or 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except Exception:  # noqa: BLE001 - whatever it is, the parent has to hear of it
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


for line in sys.argv[1:]:
    failed = run(json.loads(line))
    if failed:
        sys.exit(failed)
